/* Doubling growth up to the maximum, one byte kept for the closing NUL. */
#include "runtime/buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_init(struct buffer *buffer, size_t max_bytes)
{
    *buffer = (struct buffer){.max_bytes = max_bytes};
}

void buffer_done(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){.max_bytes = buffer->max_bytes};
}

void buffer_cleanup(struct buffer *buffer)
{
    buffer_done(buffer);
}

void buffer_clear(struct buffer *buffer)
{
    buffer->size = 0;
    if (buffer->data)
        buffer->data[0] = '\0';
}

static int reserve(struct buffer *buffer, size_t bytes)
{
    if (bytes > buffer->max_bytes - buffer->size)
        return -EMSGSIZE;
    size_t wanted = buffer->size + bytes + 1;
    if (wanted <= buffer->capacity)
        return 0;
    size_t capacity = buffer->capacity ? buffer->capacity : 64;
    while (capacity < wanted)
        capacity *= 2;
    if (capacity > buffer->max_bytes + 1)
        capacity = buffer->max_bytes + 1;
    char *data = realloc(buffer->data, capacity);
    if (!data)
        return -ENOMEM;
    buffer->data = data;
    buffer->capacity = capacity;
    return 0;
}

int buffer_append(struct buffer *buffer, const void *data, size_t bytes)
{
    int failed = reserve(buffer, bytes);
    if (failed)
        return failed;
    if (bytes > 0)
        memcpy(buffer->data + buffer->size, data, bytes);
    buffer->size += bytes;
    buffer->data[buffer->size] = '\0';
    return 0;
}

int buffer_append_text(struct buffer *buffer, const char *text)
{
    return buffer_append(buffer, text, strlen(text));
}

int buffer_append_format(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return -EINVAL;
    int failed = reserve(buffer, (size_t)length);
    if (failed)
        return failed;
    va_start(arguments, format);
    (void)vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->size += (size_t)length;
    return 0;
}

void buffer_consume(struct buffer *buffer, size_t bytes)
{
    assert(bytes <= buffer->size);
    if (bytes == 0)
        return;
    buffer->size -= bytes;
    memmove(buffer->data, buffer->data + bytes, buffer->size);
    buffer->data[buffer->size] = '\0';
}
