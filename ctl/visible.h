/* Foreign text made fit to be shown: what a sandbox printed, or a worker said, must not be
 * able to steer the terminal of whoever looks at it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/attributes.h"
#include "runtime/buffer.h"

/* Appends the text with every control character and every byte that is no UTF-8 written as
 * \xNN, and characters that steer the layout (C1 controls, directions, line separators) as
 * \uNNNN. keep_lines: LF and TAB stay. 0, or negative as the buffer. */
NODISCARD int visible_append(struct buffer *out, const char *data, size_t size,
                             bool keep_lines);

/* How many bytes of a text that goes on later can be shown now: all but a character at its
 * end of which the rest may still come. */
size_t visible_whole(const char *data, size_t size);
