/* A growable run of bytes with a maximum, and never without one. */
#pragma once

#include "runtime/attributes.h"

#include <stddef.h>

struct buffer {
    char *data; /* heap; always followed by a NUL once anything was appended; may be NULL */
    size_t size;
    size_t capacity;
    size_t max_bytes;
};

/* An empty buffer in the caller's storage that holds at most max_bytes. */
void buffer_init(struct buffer *buffer, size_t max_bytes);
void buffer_done(struct buffer *buffer);

/* Empties it and keeps its memory. */
void buffer_clear(struct buffer *buffer);

/* Appends all of it or nothing. 0, -ENOMEM, or -EMSGSIZE where the maximum would be passed.
 */
NODISCARD int buffer_append(struct buffer *buffer, const void *data, size_t bytes);
NODISCARD int buffer_append_text(struct buffer *buffer, const char *text);
NODISCARD __attribute__((format(printf, 2, 3))) int
buffer_append_format(struct buffer *buffer, const char *format, ...);

/* Takes the first `bytes` away. */
void buffer_consume(struct buffer *buffer, size_t bytes);

void buffer_cleanup(struct buffer *buffer);
#define buffer_scoped __attribute__((cleanup(buffer_cleanup)))
