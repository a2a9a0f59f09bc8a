/* The capability matrix: what each kind of provider of this build can do. Made from the
 * registry alone; neither Redis nor a worker is asked. */
#pragma once

#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/buffer.h"

/* Appends the matrix and a line on each provider, for people: two lines of heading, a line
 * a provider (the completion reads its first word), an empty line, the summaries. 0, or
 * negative: out of memory. */
NODISCARD int providers_append_table(struct arena *arena, struct buffer *out);

/* Appends {"providers": [{"name", "summary", "capabilities": {NAME: true or false, ...},
 * "descriptor_keys": [...]}, ...]} and a line feed. Likewise. */
NODISCARD int providers_append_json(struct buffer *out);
