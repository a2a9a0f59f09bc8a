#include "execution/status.h"
