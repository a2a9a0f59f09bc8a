#include "execution/remote.h"
