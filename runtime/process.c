/* Child processes. */
#include "runtime/process.h"
