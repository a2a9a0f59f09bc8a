#include "execution/layout.h"
