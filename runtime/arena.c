/* Chunks that double in size; what is larger than a chunk gets one of its own. */
#include "runtime/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CHUNK_BYTES = 2048, LARGEST_CHUNK_BYTES = 64 * 1024 };

struct chunk {
    struct chunk *next;
    size_t size;
    size_t used;
    alignas(max_align_t) unsigned char bytes[];
};

struct arena {
    struct chunk *chunks; /* the first one serves */
    size_t max_bytes;
    size_t used;
    size_t next_chunk_bytes;
};

struct arena *arena_new(size_t max_bytes)
{
    struct arena *arena = calloc(1, sizeof(*arena));
    if (!arena)
        return NULL;
    arena->max_bytes = max_bytes;
    arena->next_chunk_bytes = FIRST_CHUNK_BYTES - sizeof(struct chunk);
    return arena;
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    for (struct chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(arena);
}

void arena_cleanup(struct arena **arena)
{
    arena_free(*arena);
}

static struct chunk *add_chunk(struct arena *arena, size_t bytes)
{
    size_t size = arena->next_chunk_bytes;
    if (size < bytes)
        size = bytes;
    struct chunk *chunk = malloc(sizeof(*chunk) + size);
    if (!chunk)
        return NULL;
    *chunk = (struct chunk){.next = arena->chunks, .size = size};
    arena->chunks = chunk;
    if (arena->next_chunk_bytes < LARGEST_CHUNK_BYTES)
        arena->next_chunk_bytes *= 2;
    return chunk;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    const size_t mask = alignof(max_align_t) - 1;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t rounded = (bytes + mask) & ~mask;
    if (rounded > arena->max_bytes - arena->used)
        return NULL;
    struct chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < rounded)
        chunk = add_chunk(arena, rounded);
    if (!chunk)
        return NULL;
    void *piece = chunk->bytes + chunk->used;
    chunk->used += rounded;
    arena->used += rounded;
    return piece;
}

void *arena_calloc(struct arena *arena, size_t count, size_t bytes)
{
    size_t total = 0;
    if (__builtin_mul_overflow(count, bytes, &total))
        return NULL;
    void *piece = arena_alloc(arena, total);
    if (piece)
        memset(piece, 0, total);
    return piece;
}

void *arena_copy(struct arena *arena, const void *data, size_t bytes)
{
    void *piece = arena_alloc(arena, bytes);
    if (piece && bytes > 0)
        memcpy(piece, data, bytes);
    return piece;
}

char *arena_text_n(struct arena *arena, const char *text, size_t bytes)
{
    if (bytes == SIZE_MAX)
        return NULL;
    char *piece = arena_alloc(arena, bytes + 1);
    if (!piece)
        return NULL;
    if (bytes > 0)
        memcpy(piece, text, bytes);
    piece[bytes] = '\0';
    return piece;
}

char *arena_text(struct arena *arena, const char *text)
{
    return arena_text_n(arena, text, strlen(text));
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return NULL;
    char *piece = arena_alloc(arena, (size_t)length + 1);
    if (!piece)
        return NULL;
    va_start(arguments, format);
    (void)vsnprintf(piece, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return piece;
}

size_t arena_used(const struct arena *arena)
{
    return arena->used;
}
