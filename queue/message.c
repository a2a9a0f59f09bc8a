/* Checked reading of MessagePack.
 *
 * The tree is built here, not by msgpack-c. Its unpacker would have to be guarded by a walk
 * over all headers anyway (it takes a five-byte array header at its word, reports deep
 * nesting as out of memory and lets keys stand twice), would then allocate a zone with
 * malloc for each message, and its objects would have to be copied to tell what str and bin
 * have in common. The walk that checks already knows every element, so the same walk runs
 * twice: first it only measures, then it fills one block of the arena that holds the whole
 * tree. It keeps its own small stack of frames, since tasks have little.
 *
 * Formats: https://github.com/msgpack/msgpack/blob/master/spec.md */
#include "queue/message.h"

#include "runtime/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Pairs lie in the block as two values in a row. */
static_assert(sizeof(struct message_pair) == 2 * sizeof(struct message),
              "a pair is two values without a gap");

enum { FEW_KEYS = 16 };
enum { TIMESTAMP_EXTENSION = -1 };

/* Every integer of a magnitude up to this one is a double, and none is rounded to it. */
static const int64_t exact_double_limit = INT64_C(1) << 53;

struct walk {
    const unsigned char *start;
    const unsigned char *at;
    const unsigned char *end;
    size_t elements;       /* array items, map keys and map values so far */
    struct message *slots; /* the next free place; NULL while only measuring */
    struct arena *arena;
    struct error *err;
};

/* A container that is being walked; the outermost frame holds the message itself. */
struct frame {
    size_t left;
    struct message *next;
    const struct message *map; /* whose keys are compared at its end; NULL: none */
};

enum form {
    FORM_NIL,
    FORM_UNUSED,
    FORM_FALSE,
    FORM_TRUE,
    FORM_FLOAT,
    FORM_UNSIGNED,
    FORM_SIGNED,
    FORM_TEXT,
    FORM_EXTENSION,
    FORM_ARRAY,
    FORM_MAP,
};

/* What follows the first bytes 0xc0 to 0xdf: a big-endian number of `width` bytes (a value,
 * a size or a count); without a width the number is `fixed`. */
static const struct head {
    enum form form;
    unsigned char width;
    unsigned char fixed;
} heads[] = {
    {FORM_NIL, 0, 0},        {FORM_UNUSED, 0, 0},    {FORM_FALSE, 0, 0},
    {FORM_TRUE, 0, 0},       {FORM_TEXT, 1, 0},      {FORM_TEXT, 2, 0},
    {FORM_TEXT, 4, 0},       {FORM_EXTENSION, 1, 0}, {FORM_EXTENSION, 2, 0},
    {FORM_EXTENSION, 4, 0},  {FORM_FLOAT, 4, 0},     {FORM_FLOAT, 8, 0},
    {FORM_UNSIGNED, 1, 0},   {FORM_UNSIGNED, 2, 0},  {FORM_UNSIGNED, 4, 0},
    {FORM_UNSIGNED, 8, 0},   {FORM_SIGNED, 1, 0},    {FORM_SIGNED, 2, 0},
    {FORM_SIGNED, 4, 0},     {FORM_SIGNED, 8, 0},    {FORM_EXTENSION, 0, 1},
    {FORM_EXTENSION, 0, 2},  {FORM_EXTENSION, 0, 4}, {FORM_EXTENSION, 0, 8},
    {FORM_EXTENSION, 0, 16}, {FORM_TEXT, 1, 0},      {FORM_TEXT, 2, 0},
    {FORM_TEXT, 4, 0},       {FORM_ARRAY, 2, 0},     {FORM_ARRAY, 4, 0},
    {FORM_MAP, 2, 0},        {FORM_MAP, 4, 0},
};

static struct head head_of(unsigned char byte)
{
    if (byte < 0x80)
        return (struct head){FORM_UNSIGNED, 0, byte};
    if (byte < 0x90)
        return (struct head){FORM_MAP, 0, byte & 0x0f};
    if (byte < 0xa0)
        return (struct head){FORM_ARRAY, 0, byte & 0x0f};
    if (byte < 0xc0)
        return (struct head){FORM_TEXT, 0, byte & 0x1f};
    if (byte < 0xe0)
        return heads[byte - 0xc0];
    return (struct head){FORM_SIGNED, 0, byte};
}

static size_t bytes_left(const struct walk *walk)
{
    return (size_t)(walk->end - walk->at);
}

static size_t position(const struct walk *walk)
{
    return (size_t)(walk->at - walk->start);
}

static int refuse_end(const struct walk *walk)
{
    return error_set(walk->err, ERROR_MALFORMED_JOB,
                     "the message ends in the middle of a value, after byte %zu",
                     (size_t)(walk->end - walk->start));
}

static int take_number(struct walk *walk, struct head head, uint64_t *ret_number)
{
    uint64_t number = head.fixed;
    if (bytes_left(walk) < head.width)
        return refuse_end(walk);
    for (unsigned i = 0; i < head.width; i++)
        number = number << 8 | *walk->at++;
    *ret_number = number;
    return 0;
}

/* Two's complement of the width that was read; a fixed negative number has one byte. */
static struct message signed_value(uint64_t number, unsigned width)
{
    unsigned unused_bits = 64 - 8 * (width ? width : 1);
    return (struct message){.type = MESSAGE_INT,
                            .integer = (int64_t)(number << unused_bits) >> unused_bits};
}

static struct message unsigned_value(uint64_t number)
{
    if (number > INT64_MAX)
        return (struct message){.type = MESSAGE_FLOAT, .number = (double)number};
    return (struct message){.type = MESSAGE_INT, .integer = (int64_t)number};
}

static struct message float_value(uint64_t number, unsigned width)
{
    struct message value = {.type = MESSAGE_FLOAT};
    if (width == sizeof(double)) {
        memcpy(&value.number, &number, sizeof(value.number));
        return value;
    }
    uint32_t bits = (uint32_t)number;
    float single = 0;
    memcpy(&single, &bits, sizeof(single));
    value.number = single;
    return value;
}

/* The bytes of a text or an extension, which stay where they are. */
static int take_bytes(struct walk *walk, uint64_t size, struct message *ret_value)
{
    if (size > bytes_left(walk))
        return error_set(
            walk->err, ERROR_MALFORMED_JOB,
            "a value of %llu bytes at byte %zu does not fit the %zu bytes left",
            (unsigned long long)size, position(walk), bytes_left(walk));
    ret_value->text.data = (const char *)walk->at;
    ret_value->text.size = (size_t)size;
    walk->at += size;
    return 0;
}

static int take_extension(struct walk *walk, uint64_t size, struct message *ret_value)
{
    if (bytes_left(walk) < 1)
        return refuse_end(walk);
    *ret_value = (struct message){.type = MESSAGE_EXTENSION};
    ret_value->extension_type = (int8_t)*walk->at++;
    return take_bytes(walk, size, ret_value);
}

/* Checks a container's count and, in the second walk, gives it its places. */
static int take_container(struct walk *walk, enum form form, uint64_t count,
                          struct message *ret_value)
{
    uint64_t elements = form == FORM_MAP ? 2 * count : count;
    if (elements > bytes_left(walk))
        return error_set(
            walk->err, ERROR_MALFORMED_JOB,
            "a container of %llu elements at byte %zu does not fit the %zu bytes left",
            (unsigned long long)elements, position(walk), bytes_left(walk));
    walk->elements += (size_t)elements;
    if (walk->elements > MESSAGE_MAX_ELEMENTS)
        return error_set(walk->err, ERROR_MALFORMED_JOB,
                         "the message has more than %d elements", MESSAGE_MAX_ELEMENTS);
    *ret_value = (struct message){.type = form == FORM_MAP ? MESSAGE_MAP : MESSAGE_ARRAY};
    if (form == FORM_MAP) {
        ret_value->map.pairs = (const struct message_pair *)walk->slots;
        ret_value->map.count = (size_t)count;
    } else {
        ret_value->array.items = walk->slots;
        ret_value->array.count = (size_t)count;
    }
    return 0;
}

/* A scalar, or the head of a container. */
static int take_value(struct walk *walk, struct message *ret_value)
{
    uint64_t number = 0;
    if (bytes_left(walk) < 1)
        return refuse_end(walk);
    struct head head = head_of(*walk->at++);
    if (take_number(walk, head, &number))
        return -1;
    switch (head.form) {
    case FORM_NIL:
        *ret_value = (struct message){.type = MESSAGE_NIL};
        return 0;
    case FORM_FALSE:
    case FORM_TRUE:
        *ret_value = (struct message){.type = MESSAGE_BOOL};
        ret_value->boolean = head.form == FORM_TRUE;
        return 0;
    case FORM_FLOAT:
        *ret_value = float_value(number, head.width);
        return 0;
    case FORM_UNSIGNED:
        *ret_value = unsigned_value(number);
        return 0;
    case FORM_SIGNED:
        *ret_value = signed_value(number, head.width);
        return 0;
    case FORM_TEXT:
        *ret_value = (struct message){.type = MESSAGE_TEXT};
        return take_bytes(walk, number, ret_value);
    case FORM_EXTENSION:
        return take_extension(walk, number, ret_value);
    case FORM_ARRAY:
    case FORM_MAP:
        return take_container(walk, head.form, number, ret_value);
    case FORM_UNUSED:
    default:
        return error_set(walk->err, ERROR_MALFORMED_JOB,
                         "byte %zu is 0xc1, which starts no value", position(walk) - 1);
    }
}

static int compare_texts(const struct message *left, const struct message *right)
{
    if (left->text.size != right->text.size)
        return left->text.size < right->text.size ? -1 : 1;
    if (left->text.size == 0)
        return 0;
    return memcmp(left->text.data, right->text.data, left->text.size);
}

static int compare_keys(const void *left, const void *right)
{
    return compare_texts(left, right);
}

static int refuse_double_key(const struct walk *walk, const struct message *key)
{
    enum { SHOWN_BYTES = 60 };
    int shown = key->text.size < SHOWN_BYTES ? (int)key->text.size : SHOWN_BYTES;
    (void)error_set(walk->err, ERROR_MALFORMED_JOB,
                    "the key \"%.*s\" stands twice in a map", shown, key->text.data);
    if (walk->err) {
        memcpy(walk->err->field, key->text.data, (size_t)shown);
        walk->err->field[shown] = '\0';
    }
    return -1;
}

/* For maps of any size: sorted, equal keys are neighbours. */
static int check_many_keys(const struct walk *walk, const struct message *map)
{
    struct message *keys = arena_calloc(walk->arena, map->map.count, sizeof(*keys));
    size_t count = 0;
    if (!keys)
        return error_set_memory(walk->err, "a map's keys");
    for (size_t i = 0; i < map->map.count; i++) {
        if (map->map.pairs[i].key.type == MESSAGE_TEXT)
            keys[count++] = map->map.pairs[i].key;
    }
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (compare_texts(&keys[i - 1], &keys[i]) == 0)
            return refuse_double_key(walk, &keys[i]);
    }
    return 0;
}

/* Refuses text keys that stand twice; what other keys may be is for those who use them. */
static int check_keys(const struct walk *walk, const struct message *map)
{
    if (map->map.count > FEW_KEYS)
        return check_many_keys(walk, map);
    for (size_t i = 1; i < map->map.count; i++) {
        const struct message *key = &map->map.pairs[i].key;
        for (size_t j = 0; key->type == MESSAGE_TEXT && j < i; j++) {
            const struct message *earlier = &map->map.pairs[j].key;
            if (earlier->type == MESSAGE_TEXT && compare_texts(earlier, key) == 0)
                return refuse_double_key(walk, key);
        }
    }
    return 0;
}

static bool is_container(const struct message *value)
{
    return value->type == MESSAGE_ARRAY || value->type == MESSAGE_MAP;
}

/* Opens the frame of a container that stands at `place` (NULL while measuring). */
static struct frame frame_for(struct walk *walk, const struct message *value,
                              const struct message *place)
{
    bool map = value->type == MESSAGE_MAP;
    struct frame frame = {.left = map ? 2 * value->map.count : value->array.count,
                          .next = walk->slots,
                          .map = map ? place : NULL};
    if (walk->slots)
        walk->slots += frame.left;
    return frame;
}

/* One value with all that is in it. Writes to ret_message only in the second walk. */
static int walk_message(struct walk *walk, struct message *ret_message)
{
    struct frame frames[MESSAGE_MAX_DEPTH + 1];
    size_t depth = 0;
    frames[0] = (struct frame){.left = 1, .next = walk->slots ? ret_message : NULL};
    for (;;) {
        struct frame *top = &frames[depth];
        if (top->left == 0) {
            if (top->map && check_keys(walk, top->map))
                return -1;
            if (depth == 0)
                return 0;
            depth--;
            continue;
        }
        struct message value = {.type = MESSAGE_NIL};
        const struct message *place = top->next;
        if (take_value(walk, &value))
            return -1;
        top->left--;
        if (top->next)
            *top->next++ = value;
        if (!is_container(&value))
            continue;
        if (depth == MESSAGE_MAX_DEPTH)
            return error_set(walk->err, ERROR_MALFORMED_JOB,
                             "the message is nested deeper than %d levels at byte %zu",
                             MESSAGE_MAX_DEPTH, position(walk));
        frames[++depth] = frame_for(walk, &value, place);
    }
}

int message_read_within(const void *body, size_t bytes, size_t max_bytes,
                        struct arena *arena, struct message *ret_message, struct error *err)
{
    if (bytes > max_bytes)
        return error_set(err, ERROR_MALFORMED_JOB,
                         "the message has %zu bytes; at most %zu are taken", bytes,
                         max_bytes);
    if (bytes == 0)
        return error_set(err, ERROR_MALFORMED_JOB, "the message is empty");
    struct walk walk = {.start = body, .arena = arena, .err = err};
    walk.at = walk.start;
    walk.end = walk.start + bytes;
    if (walk_message(&walk, NULL))
        return -1;
    if (walk.at != walk.end)
        return error_set(err, ERROR_MALFORMED_JOB,
                         "%zu bytes follow after the end of the message at byte %zu",
                         bytes_left(&walk), position(&walk));
    struct message message = {.type = MESSAGE_NIL};
    walk.slots = arena_alloc(arena, walk.elements * sizeof(struct message));
    if (!walk.slots)
        return error_set_memory(err, "a message");
    walk.at = walk.start;
    walk.elements = 0;
    if (walk_message(&walk, &message))
        return -1;
    *ret_message = message;
    return 0;
}

int message_read(const void *body, size_t bytes, struct arena *arena,
                 struct message *ret_message, struct error *err)
{
    return message_read_within(body, bytes, MESSAGE_MAX_BYTES, arena, ret_message, err);
}

const struct message *message_given(const struct message *map, const char *key)
{
    const struct message *value = message_find(map, key);
    return value && value->type != MESSAGE_NIL ? value : NULL;
}

bool message_is_text(const struct message *value, const char *text)
{
    size_t bytes = strlen(text);
    return value && value->type == MESSAGE_TEXT && value->text.size == bytes &&
           (bytes == 0 || memcmp(value->text.data, text, bytes) == 0);
}

const struct message *message_find(const struct message *map, const char *key)
{
    if (!map || map->type != MESSAGE_MAP)
        return NULL;
    for (size_t i = 0; i < map->map.count; i++) {
        if (message_is_text(&map->map.pairs[i].key, key))
            return &map->map.pairs[i].value;
    }
    return NULL;
}

/* The table 3-7 of the Unicode standard (well-formed UTF-8 byte sequences): the first byte
 * decides the length and the range of the second. */
int message_text(const struct message *value, const char *field, size_t max_bytes,
                 struct arena *arena, const char **ret_text, struct error *err)
{
    if (value->type != MESSAGE_TEXT)
        return error_set_field(err, field, "%s must be a text", field);
    if (value->text.size > max_bytes)
        return error_set_field(err, field, "%s must have at most %zu bytes; it has %zu",
                               field, max_bytes, value->text.size);
    if (value->text.size > 0 && memchr(value->text.data, '\0', value->text.size))
        return error_set_field(err, field, "%s must not contain NUL bytes", field);
    if (!utf8_is_valid(value->text.data, value->text.size))
        return error_set_field(err, field, "%s must be UTF-8", field);
    const char *text = arena_text_n(arena, value->text.data, value->text.size);
    if (!text)
        return error_set_memory(err, field);
    *ret_text = text;
    return 0;
}

/* False where the value is no integer that int64_t holds without doubt. */
static bool integer_of(const struct message *value, int64_t *ret_integer)
{
    if (value->type == MESSAGE_INT) {
        *ret_integer = value->integer;
        return true;
    }
    if (value->type != MESSAGE_FLOAT)
        return false;
    double limit = (double)exact_double_limit;
    if (!(value->number >= -limit && value->number <= limit))
        return false;
    int64_t integer = (int64_t)value->number;
    if ((double)integer != value->number)
        return false;
    *ret_integer = integer;
    return true;
}

int message_integer(const struct message *value, const char *field, int64_t least,
                    int64_t most, int64_t *ret_integer, struct error *err)
{
    int64_t integer = 0;
    if (integer_of(value, &integer) && integer >= least && integer <= most) {
        *ret_integer = integer;
        return 0;
    }
    if (least == INT64_MIN && most == INT64_MAX)
        return error_set_field(err, field, "%s must be an integer", field);
    if (most == INT64_MAX)
        return error_set_field(err, field, "%s must be an integer of at least %lld", field,
                               (long long)least);
    return error_set_field(err, field, "%s must be an integer from %lld to %lld", field,
                           (long long)least, (long long)most);
}

int message_number(const struct message *value, const char *field, double *ret_number,
                   struct error *err)
{
    if (value->type == MESSAGE_INT) {
        *ret_number = (double)value->integer;
        return 0;
    }
    if (value->type != MESSAGE_FLOAT)
        return error_set_field(err, field, "%s must be a number", field);
    *ret_number = value->number;
    return 0;
}

int message_boolean(const struct message *value, const char *field, bool *ret_boolean,
                    struct error *err)
{
    if (value->type != MESSAGE_BOOL)
        return error_set_field(err, field, "%s must be true or false", field);
    *ret_boolean = value->boolean;
    return 0;
}

static uint64_t big_endian(const char *data, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | (unsigned char)data[i];
    return number;
}

/* Seconds in 4 bytes; nanoseconds in 30 and seconds in 34 bits; nanoseconds in 4 bytes and
 * signed seconds in 8. */
static bool timestamp_of(const struct message *value, int64_t *ret_unix_ms)
{
    const char *data = value->text.data;
    int64_t seconds = 0;
    uint64_t nanoseconds = 0;
    if (value->type != MESSAGE_EXTENSION || value->extension_type != TIMESTAMP_EXTENSION)
        return false;
    if (value->text.size == 4) {
        seconds = (int64_t)big_endian(data, 4);
    } else if (value->text.size == 8) {
        uint64_t both = big_endian(data, 8);
        nanoseconds = both >> 34;
        seconds = (int64_t)(both & ((UINT64_C(1) << 34) - 1));
    } else if (value->text.size == 12) {
        nanoseconds = big_endian(data, 4);
        seconds = (int64_t)big_endian(data + 4, 8);
    } else {
        return false;
    }
    int64_t unix_ms = 0;
    if (nanoseconds > 999999999 || __builtin_mul_overflow(seconds, 1000, &unix_ms) ||
        __builtin_add_overflow(unix_ms, (int64_t)(nanoseconds / 1000000), &unix_ms))
        return false;
    *ret_unix_ms = unix_ms;
    return true;
}

int message_time(const struct message *value, const char *field, int64_t *ret_unix_ms,
                 struct error *err)
{
    if (integer_of(value, ret_unix_ms) || timestamp_of(value, ret_unix_ms))
        return 0;
    return error_set_field(
        err, field, "%s must be Unix milliseconds or a MessagePack timestamp", field);
}
