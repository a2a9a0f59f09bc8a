/* Argument lists that grow in the arena. */
#include "queue/call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int grow(struct call *call, int capacity)
{
    const char **arguments =
        arena_calloc(call->arena, (size_t)capacity, sizeof(*arguments));
    size_t *sizes = arena_calloc(call->arena, (size_t)capacity, sizeof(*sizes));
    if (!arguments || !sizes) {
        call->failed = -ENOMEM;
        return -ENOMEM;
    }
    for (int i = 0; i < call->count; i++) {
        arguments[i] = call->arguments[i];
        sizes[i] = call->sizes[i];
    }
    call->arguments = arguments;
    call->sizes = sizes;
    call->capacity = capacity;
    return 0;
}

void call_init(struct call *call, struct arena *arena, int capacity)
{
    *call = (struct call){.arena = arena};
    (void)grow(call, capacity > 0 ? capacity : 8);
}

void call_add(struct call *call, const void *data, size_t size)
{
    if (call->failed)
        return;
    if (call->count == call->capacity && grow(call, call->capacity * 2) != 0)
        return;
    call->arguments[call->count] = data;
    call->sizes[call->count] = size;
    call->count++;
}

void call_add_text(struct call *call, const char *text)
{
    call_add(call, text, strlen(text));
}

void call_add_int(struct call *call, int64_t number)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRId64, number);
    const char *copy = arena_text_n(call->arena, digits, (size_t)length);
    if (!copy)
        call->failed = -ENOMEM;
    else
        call_add(call, copy, (size_t)length);
}
