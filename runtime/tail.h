/* The last bytes of a stream: grows up to a limit, then drops from the front and counts. */
#pragma once

#include "runtime/attributes.h"

#include <stddef.h>
#include <stdint.h>

struct arena;

struct tail {
    char *data; /* heap; a ring once full */
    size_t size;
    size_t capacity;
    size_t limit_bytes;
    size_t start; /* index of the oldest byte */
    uint64_t dropped_bytes;
};

void tail_init(struct tail *tail, size_t limit_bytes);
void tail_done(struct tail *tail);

/* Keeps the last limit_bytes of all that was appended. 0 or -ENOMEM. */
NODISCARD int tail_append(struct tail *tail, const void *data, size_t bytes);

/* What is kept, in order, followed by a NUL, in the arena. NULL: out of memory. */
char *tail_copy(const struct tail *tail, struct arena *arena);
