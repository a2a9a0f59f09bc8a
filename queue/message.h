/* Checked reading and plain writing of MessagePack.
 *
 * What arrives is foreign: it is checked once, before anything is allocated for it, for
 * size, depth, number of elements and counts that the bytes left cannot hold. Then it is a
 * tree of struct message values. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

enum {
    MESSAGE_MAX_BYTES = 24 * 1024 * 1024,
    MESSAGE_MAX_DEPTH = 16,       /* arrays and maps inside one another */
    MESSAGE_MAX_ELEMENTS = 65536, /* array items, map keys and map values, all together */
};

enum message_type {
    MESSAGE_NIL,
    MESSAGE_BOOL,
    MESSAGE_INT,   /* any integer width that fits int64_t */
    MESSAGE_FLOAT, /* any other number: floats, and integers above INT64_MAX */
    MESSAGE_TEXT,  /* str or bin, which are taken alike */
    MESSAGE_ARRAY,
    MESSAGE_MAP,
    MESSAGE_EXTENSION,
};

struct message_pair;

struct message {
    enum message_type type;
    int8_t extension_type;
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct {
            const char *data; /* points into the body: not terminated */
            size_t size;
        } text; /* also the bytes of an extension */
        struct {
            const struct message *items;
            size_t count;
        } array;
        struct {
            const struct message_pair *pairs;
            size_t count;
        } map;
    };
};

struct message_pair {
    struct message key;
    struct message value;
};

/* Reads exactly one value that fills the whole body. The tree lives in the arena and points
 * into the body. In no map does a text key stand twice (str and bin are the same key); keys
 * of other types are left for the user of the map to judge. malformed_job, not retryable,
 * with a message that says what is wrong and where; running out of memory is internal
 * instead. */
NODISCARD int message_read(const void *body, size_t bytes, struct arena *arena,
                           struct message *ret_message, struct error *err);

/* The same with another limit than MESSAGE_MAX_BYTES. */
NODISCARD int message_read_within(const void *body, size_t bytes, size_t max_bytes,
                                  struct arena *arena, struct message *ret_message,
                                  struct error *err);

/* The value under a text key of a map; NULL where it is absent or `map` is no map. */
const struct message *message_find(const struct message *map, const char *key);

/* The same, but a key whose value is nil counts as left out: encoders of several languages
 * write it for a member that was never set. */
const struct message *message_given(const struct message *map, const char *key);

/* Whether the value is exactly this text; NULL is none. */
bool message_is_text(const struct message *value, const char *text);

/* A text as a NUL-terminated copy in the arena. -1 with invalid_argument on `field` where
 * the value is no text, not UTF-8, holds a NUL, or is longer than max_bytes. */
NODISCARD int message_text(const struct message *value, const char *field, size_t max_bytes,
                           struct arena *arena, const char **ret_text, struct error *err);

/* An integer in [least, most]; a float with an integral value within 2^53 is one. */
NODISCARD int message_integer(const struct message *value, const char *field, int64_t least,
                              int64_t most, int64_t *ret_integer, struct error *err);

/* Any number, int or float; NaN and the infinities too, so ranges are to be written as what
 * is allowed. */
NODISCARD int message_number(const struct message *value, const char *field,
                             double *ret_number, struct error *err);
NODISCARD int message_boolean(const struct message *value, const char *field,
                              bool *ret_boolean, struct error *err);

/* A point in time in Unix milliseconds: an integer (or integral float), or a MessagePack
 * timestamp (extension -1 with 4, 8 or 12 bytes). */
NODISCARD int message_time(const struct message *value, const char *field,
                           int64_t *ret_unix_ms, struct error *err);
