#include "execution/attach.h"
