/* An answer for people: a table of names and values, then the texts that were read. */
#pragma once

#include <stddef.h>

#include "queue/message.h"
#include "queue/reply.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/buffer.h"

/* Appends the whole answer. Nothing in it can steer a terminal. 0, or negative: out of
 * memory. */
NODISCARD int answer_table_append(const struct reply *reply, struct arena *arena,
                                  struct buffer *out);
