/* Help texts, made from the tables of options.h. */
#pragma once

#include "ctl/options.h"
#include "runtime/attributes.h"
#include "runtime/buffer.h"

/* Appends the help of one command, of all for COMMAND_NONE. 0, or negative as the buffer.
 */
NODISCARD int help_append(enum command command, struct buffer *out);
