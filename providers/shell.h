/* Text that goes to a shell. Everything is quoted here and nowhere else. */
#pragma once

#include "runtime/attributes.h"

#include <stddef.h>

#include "runtime/buffer.h"

/* Appends text as one shell word: in single quotes, each ' as '\''. The empty text is ''.
 * 0, -ENOMEM or -EMSGSIZE. */
NODISCARD int shell_append_quoted(struct buffer *buffer, const char *text);
