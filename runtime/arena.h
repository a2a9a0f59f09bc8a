/* An arena: memory that is given out piece by piece and freed in one go.
 *
 * Every job owns one, with a cap on its bytes, so that one greedy job fails alone. Code
 * below worker/ allocates here and never frees. Not for threads. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

struct arena;

/* A new arena that gives out at most max_bytes. NULL: out of memory. */
struct arena *arena_new(size_t max_bytes);

/* Frees the arena and all that came from it. NULL is fine. */
void arena_free(struct arena *arena);

/* Room for `bytes`, aligned for any type, not zeroed. NULL: the cap or the memory is used
 * up. Zero bytes give a valid pointer. */
void *arena_alloc(struct arena *arena, size_t bytes);

/* As arena_alloc for count elements of size bytes, zeroed; NULL also where that overflows.
 */
void *arena_calloc(struct arena *arena, size_t count, size_t bytes);

/* Copies; the text forms end with a NUL. NULL as arena_alloc. */
void *arena_copy(struct arena *arena, const void *data, size_t bytes);
char *arena_text(struct arena *arena, const char *text);
char *arena_text_n(struct arena *arena, const char *text, size_t bytes);

/* A formatted text. NULL as arena_alloc. */
__attribute__((format(printf, 2, 3))) char *arena_printf(struct arena *arena,
                                                         const char *format, ...);

/* Bytes given out so far. */
size_t arena_used(const struct arena *arena);

/* Scoped: `arena_scoped struct arena *arena = arena_new(...);` */
void arena_cleanup(struct arena **arena);
#define arena_scoped __attribute__((cleanup(arena_cleanup)))
