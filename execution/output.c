#include "execution/output.h"
