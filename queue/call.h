/* One Redis command, as its list of binary-safe arguments. Never built from a format: keys
 * and bodies hold any byte. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/attributes.h"

struct call {
    const char **arguments;
    size_t *sizes;
    int count;
    int capacity;
    struct arena *arena;
    int failed; /* -ENOMEM once an argument could not be added: the call will not be sent */
};

/* A call with room for `capacity` arguments to begin with; everything lives in the arena.
 */
void call_init(struct call *call, struct arena *arena, int capacity);

/* Arguments are lent until the call is done. */
void call_add(struct call *call, const void *data, size_t size);
void call_add_text(struct call *call, const char *text);
void call_add_int(struct call *call, int64_t number);
