/* The last bytes of a stream. The memory grows by doubling while nothing has been dropped;
 * at the limit it becomes a ring, so that dropping from the front moves no bytes. */
#include "runtime/tail.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"

enum { FIRST_BYTES = 256 };

void tail_init(struct tail *tail, size_t limit_bytes)
{
    *tail = (struct tail){.limit_bytes = limit_bytes};
}

void tail_done(struct tail *tail)
{
    free(tail->data);
    *tail = (struct tail){.limit_bytes = tail->limit_bytes};
}

/* Only a tail that has not reached its limit grows, and that one begins at index 0. */
static int grow(struct tail *tail, size_t wanted)
{
    if (wanted <= tail->capacity)
        return 0;
    size_t capacity = tail->capacity ? tail->capacity : FIRST_BYTES;
    while (capacity < wanted)
        capacity = capacity > tail->limit_bytes / 2 ? tail->limit_bytes : capacity * 2;
    if (capacity > tail->limit_bytes)
        capacity = tail->limit_bytes;
    char *data = capacity <= PTRDIFF_MAX ? realloc(tail->data, capacity) : NULL;
    if (!data)
        return -ENOMEM;
    tail->data = data;
    tail->capacity = capacity;
    return 0;
}

static void drop(struct tail *tail, size_t bytes)
{
    tail->start = (tail->start + bytes) % tail->capacity;
    tail->size -= bytes;
    tail->dropped_bytes += bytes;
}

int tail_append(struct tail *tail, const void *data, size_t bytes)
{
    const char *from = data;
    size_t limit = tail->limit_bytes;
    size_t kept = bytes < limit ? bytes : limit;
    size_t wanted = tail->size < limit - kept ? tail->size + kept : limit;
    if (grow(tail, wanted) != 0)
        return -ENOMEM;
    tail->dropped_bytes += bytes - kept;
    if (kept == 0)
        return 0;
    if (tail->size > limit - kept)
        drop(tail, tail->size - (limit - kept));
    from += bytes - kept;
    size_t end = (tail->start + tail->size) % tail->capacity;
    size_t straight = tail->capacity - end < kept ? tail->capacity - end : kept;
    memcpy(tail->data + end, from, straight);
    memcpy(tail->data, from + straight, kept - straight);
    tail->size += kept;
    return 0;
}

char *tail_copy(const struct tail *tail, struct arena *arena)
{
    char *copy = arena_alloc(arena, tail->size + 1);
    if (!copy)
        return NULL;
    size_t straight = tail->capacity - tail->start;
    if (straight > tail->size)
        straight = tail->size;
    if (tail->size > 0) {
        memcpy(copy, tail->data + tail->start, straight);
        memcpy(copy + straight, tail->data, tail->size - straight);
    }
    copy[tail->size] = '\0';
    return copy;
}
