/* Answers for programs: one JSON object on one line. */
#pragma once

#include <jansson.h>

#include "queue/message.h"
#include "runtime/attributes.h"
#include "runtime/buffer.h"

/* Appends the value and a line feed. Texts that are UTF-8 are strings; one that is not
 * becomes, under key K of a map, "K_base64", elsewhere {"base64": ...}. Nil, NaN and the
 * infinities are null; an extension is {"extension": TYPE, "base64": ...}. Keys that are no
 * text are written out. Everything beyond ASCII is escaped, so what was printed cannot
 * steer a terminal. 0, or negative: out of memory. */
NODISCARD int json_output_message(const struct message *value, struct buffer *out);

/* Appends the value, which it takes, and a line feed. NULL counts as out of memory. */
NODISCARD int json_output_take(json_t *value, struct buffer *out);
