/* Reading MessagePack that anybody may have written. Ids such as mp_01 in the names stand
 * for publicly reported failures of other decoders. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/message.h"
#include "runtime/utf8.h"

enum { TEST_ARENA_BYTES = 16 * 1024 * 1024 };

/* Bytes from pairs of hexadecimal digits; spaces are skipped. */
static size_t from_hex(const char *hex, unsigned char *bytes, size_t room)
{
    size_t count = 0;
    while (*hex) {
        if (*hex == ' ') {
            hex++;
            continue;
        }
        char digits[3] = {hex[0], hex[1], '\0'};
        assert_true(count < room);
        bytes[count++] = (unsigned char)strtoul(digits, NULL, 16);
        hex += 2;
    }
    return count;
}

/* Reads from a heap block of exactly that size, so that a byte too far is seen. */
static int refused(const void *body, size_t bytes, struct error *err)
{
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    unsigned char *exact = malloc(bytes ? bytes : 1);
    struct message message = {.type = MESSAGE_EXTENSION, .extension_type = 77};
    *err = (struct error){0};
    if (bytes > 0)
        memcpy(exact, body, bytes);
    int result = message_read(exact, bytes, arena, &message, err);
    free(exact);
    if (result) {
        assert_int_equal(message.type, MESSAGE_EXTENSION);
        assert_int_equal(message.extension_type, 77);
        assert_int_equal(err->code, ERROR_MALFORMED_JOB);
        assert_false(err->retryable);
        assert_true(err->message[0] != '\0');
    }
    return result;
}

static void assert_refused_hex(const char *hex, const char *part_of_message)
{
    unsigned char bytes[512];
    struct error err;
    size_t count = from_hex(hex, bytes, sizeof(bytes));
    if (!refused(bytes, count, &err))
        fail_msg("%s was taken", hex);
    if (!strstr(err.message, part_of_message))
        fail_msg("%s: \"%s\" does not say \"%s\"", hex, err.message, part_of_message);
}

static struct message value_of(const char *hex, struct arena *arena)
{
    unsigned char bytes[512];
    struct error err = {0};
    struct message message;
    size_t count = from_hex(hex, bytes, sizeof(bytes));
    const void *body = arena_copy(arena, bytes, count);
    if (message_read(body, count, arena, &message, &err))
        fail_msg("%s: %s", hex, err.message);
    return message;
}

static void every_integer_format_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        int64_t value;
    } cases[] = {
        {"00", 0},
        {"7f", 127},
        {"e0", -32},
        {"ff", -1},
        {"cc 80", 128},
        {"cd ffff", 65535},
        {"ce ffffffff", 4294967295},
        {"cf 7fffffffffffffff", INT64_MAX},
        {"d0 80", -128},
        {"d1 8000", -32768},
        {"d2 80000000", INT32_MIN},
        {"d3 8000000000000000", INT64_MIN},
        {"d3 0000000000000001", 1},
    };
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct message message = value_of(cases[i].hex, arena);
        assert_int_equal(message.type, MESSAGE_INT);
        assert_int_equal(message.integer, cases[i].value);
    }
}

static void integers_above_int64_are_floats_and_refused_as_integers(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    struct message message = value_of("cf 8000000000000000", arena);
    struct error err = {0};
    int64_t integer = 5;
    assert_int_equal(message.type, MESSAGE_FLOAT);
    assert_true(message.number == 9223372036854775808.0);
    assert_int_equal(message_integer(&message, "n", INT64_MIN, INT64_MAX, &integer, &err),
                     -1);
    assert_int_equal(integer, 5);
    assert_string_equal(err.field, "n");
    assert_int_equal(err.code, ERROR_INVALID_ARGUMENT);
}

static void floats_booleans_and_nil_are_read(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    assert_true(value_of("ca 3fc00000", arena).number == 1.5);
    assert_true(value_of("cb bff8000000000000", arena).number == -1.5);
    assert_true(isnan(value_of("cb 7ff8000000000000", arena).number));
    assert_int_equal(value_of("c0", arena).type, MESSAGE_NIL);
    assert_int_equal(value_of("c2", arena).type, MESSAGE_BOOL);
    assert_false(value_of("c2", arena).boolean);
    assert_true(value_of("c3", arena).boolean);
}

static void texts_of_every_width_are_alike_mp_09(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "a3 616263",    "d9 03 616263",   "da 0003 616263",    "db 00000003 616263",
        "c4 03 616263", "c5 0003 616263", "c6 00000003 616263"};
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct message message = value_of(cases[i], arena);
        assert_int_equal(message.type, MESSAGE_TEXT);
        assert_true(message_is_text(&message, "abc"));
        assert_false(message_is_text(&message, "ab"));
        assert_false(message_is_text(&message, "abd"));
    }
}

static void extensions_of_every_width_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        int type;
        size_t size;
    } cases[] = {
        {"d4 05 aa", 5, 1},
        {"d5 ff aabb", -1, 2},
        {"d6 80 aabbccdd", -128, 4},
        {"d7 7f 0011223344556677", 127, 8},
        {"d8 01 00112233445566778899aabbccddeeff", 1, 16},
        {"c7 00 0d", 13, 0},
        {"c7 03 0d 010203", 13, 3},
        {"c8 0002 0d 0102", 13, 2},
        {"c9 00000001 0d 01", 13, 1},
    };
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct message message = value_of(cases[i].hex, arena);
        assert_int_equal(message.type, MESSAGE_EXTENSION);
        assert_int_equal(message.extension_type, cases[i].type);
        assert_int_equal(message.text.size, cases[i].size);
    }
}

static void containers_of_every_width_hold_their_values_in_order(void **state)
{
    (void)state;
    static const char *const arrays[] = {"93 01 02 03", "dc 0003 01 02 03",
                                         "dd 00000003 01 02 03"};
    static const char *const maps[] = {"82 a161 01 a162 92 02 03",
                                       "de 0002 a161 01 a162 92 02 03",
                                       "df 00000002 a161 01 a162 92 02 03"};
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    for (size_t i = 0; i < 3; i++) {
        struct message array = value_of(arrays[i], arena);
        assert_int_equal(array.type, MESSAGE_ARRAY);
        assert_int_equal(array.array.count, 3);
        assert_int_equal(array.array.items[2].integer, 3);
        struct message map = value_of(maps[i], arena);
        assert_int_equal(map.type, MESSAGE_MAP);
        assert_int_equal(map.map.count, 2);
        assert_int_equal(message_find(&map, "a")->integer, 1);
        assert_int_equal(message_find(&map, "b")->array.items[1].integer, 3);
        assert_null(message_find(&map, "c"));
        assert_null(message_find(&array, "a"));
    }
    assert_null(message_find(NULL, "a"));
    assert_int_equal(value_of("80", arena).map.count, 0);
    assert_int_equal(value_of("90", arena).array.count, 0);
}

static void a_container_after_another_keeps_its_own_places(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    struct message root = value_of("93 92 01 92 02 03 81 a161 91 04 05", arena);
    const struct message *items = root.array.items;
    assert_int_equal(items[0].array.items[0].integer, 1);
    assert_int_equal(items[0].array.items[1].array.items[0].integer, 2);
    assert_int_equal(items[0].array.items[1].array.items[1].integer, 3);
    assert_int_equal(message_find(&items[1], "a")->array.items[0].integer, 4);
    assert_int_equal(items[2].integer, 5);
}

static void headers_that_ask_for_more_than_there_is_are_refused_mp_01(void **state)
{
    (void)state;
    assert_refused_hex("dd ff000000", "does not fit");
    assert_refused_hex("df ffffffff", "does not fit");
    assert_refused_hex("c6 ffffffff", "does not fit");
    assert_refused_hex("db ffffffff", "does not fit");
    assert_refused_hex("c9 ffffffff 01", "does not fit");
    assert_refused_hex("92 01", "does not fit");
    assert_refused_hex("81 a161", "a value");
    assert_refused_hex("dc ffff 01 02", "does not fit");
}

static void nested(unsigned char *bytes, size_t depth)
{
    memset(bytes, 0x91, depth);
    bytes[depth - 1] = 0x90;
}

static void sixteen_levels_are_taken_and_no_more_mp_02(void **state)
{
    (void)state;
    enum { DEEPEST = 100000 };
    unsigned char *bytes = malloc(DEEPEST);
    struct error err;
    static const size_t bad[] = {17, 32, 33, DEEPEST};
    nested(bytes, MESSAGE_MAX_DEPTH);
    assert_int_equal(refused(bytes, MESSAGE_MAX_DEPTH, &err), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        nested(bytes, bad[i]);
        assert_int_equal(refused(bytes, bad[i], &err), -1);
        assert_non_null(strstr(err.message, "deeper than 16"));
    }
    free(bytes);
}

static void nested_headers_do_not_multiply_mp_03(void **state)
{
    (void)state;
    enum { TIMES = 24000 };
    unsigned char *bytes = malloc((size_t)3 * TIMES);
    struct error err;
    memset(bytes, 0xff, (size_t)3 * TIMES);
    for (size_t i = 0; i < TIMES; i++)
        bytes[3 * i] = 0xdc;
    assert_int_equal(refused(bytes, (size_t)3 * TIMES, &err), -1);
    free(bytes);
}

static size_t array32(unsigned char *bytes, uint32_t count)
{
    bytes[0] = 0xdd;
    for (int i = 0; i < 4; i++)
        bytes[1 + i] = (unsigned char)(count >> (24 - 8 * i));
    return 5;
}

static void elements_are_counted_over_the_whole_message_mp_03(void **state)
{
    (void)state;
    const size_t half = MESSAGE_MAX_ELEMENTS / 2;
    const size_t room = 4 * half;
    unsigned char *bytes = calloc(1, room);
    struct error err;
    size_t head = array32(bytes, MESSAGE_MAX_ELEMENTS);
    assert_int_equal(refused(bytes, head + MESSAGE_MAX_ELEMENTS, &err), 0);
    (void)array32(bytes, MESSAGE_MAX_ELEMENTS + 1);
    assert_int_equal(refused(bytes, head + MESSAGE_MAX_ELEMENTS + 1, &err), -1);
    assert_non_null(strstr(err.message, "more than 65536 elements"));

    /* Two arrays of half the number each, and the outer one's two elements on top. */
    memset(bytes, 0, room);
    bytes[0] = 0x92;
    (void)array32(bytes + 1, (uint32_t)half - 1);
    (void)array32(bytes + 1 + 5 + half - 1, (uint32_t)half - 1);
    assert_int_equal(refused(bytes, 1 + 2 * (5 + half - 1), &err), 0);
    (void)array32(bytes + 1 + 5 + half - 1, (uint32_t)half);
    assert_int_equal(refused(bytes, 1 + 2 * (5 + half - 1) + 1, &err), -1);
    free(bytes);
}

static void only_the_whole_body_counts_mp_15(void **state)
{
    (void)state;
    assert_refused_hex("", "empty");
    assert_refused_hex("82 a16b 01 a1", "does not fit");
    assert_refused_hex("01 02", "1 bytes follow");
    assert_refused_hex("80 80", "1 bytes follow");
    assert_refused_hex("c1", "0xc1");
    assert_refused_hex("91 c1", "0xc1");
    assert_refused_hex("cd 01", "ends in the middle");
    assert_refused_hex("d4", "ends in the middle");
    assert_refused_hex("81 a161 cf 0102", "ends in the middle");
}

static void a_body_cut_at_any_byte_is_refused_mp_15(void **state)
{
    (void)state;
    unsigned char bytes[256];
    struct error err;
    size_t count =
        from_hex("88 a161 01 a162 cdffff a163 cb3ff8000000000000 a164 d6ff5f000000"
                 "a165 93c0c2c3 a166 81a178de0001a17901 a167 c403010203 a168 d90161",
                 bytes, sizeof(bytes));
    assert_int_equal(refused(bytes, count, &err), 0);
    for (size_t cut = 0; cut < count; cut++) {
        if (!refused(bytes, cut, &err))
            fail_msg("the first %zu bytes were taken", cut);
    }
}

static void the_largest_body_is_taken_and_one_byte_more_refused(void **state)
{
    (void)state;
    unsigned char *body = calloc(1, MESSAGE_MAX_BYTES + 1);
    uint32_t size = MESSAGE_MAX_BYTES - 5;
    struct error err = {0};
    struct message message;
    arena_scoped struct arena *arena = arena_new(1024);
    assert_non_null(body);
    body[0] = 0xc6;
    for (int i = 0; i < 4; i++)
        body[1 + i] = (unsigned char)(size >> (24 - 8 * i));
    assert_int_equal(message_read(body, MESSAGE_MAX_BYTES, arena, &message, &err), 0);
    assert_int_equal(message.text.size, size);
    assert_ptr_equal(message.text.data, body + 5);
    body[4]++;
    assert_int_equal(message_read(body, MESSAGE_MAX_BYTES + 1, arena, &message, &err), -1);
    assert_int_equal(err.code, ERROR_MALFORMED_JOB);
    assert_int_equal(message_read_within(body, MESSAGE_MAX_BYTES + 1, MESSAGE_MAX_BYTES + 1,
                                         arena, &message, &err),
                     0);
    free(body);
}

static void text_keys_must_not_stand_twice_in_any_map(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    assert_refused_hex("82 a161 01 a161 02", "\"a\" stands twice");
    assert_refused_hex("82 a161 01 c40161 02", "stands twice");
    assert_refused_hex("82 a161 01 d90161 02", "stands twice");
    assert_refused_hex("83 a161 01 a162 02 a161 03", "stands twice");
    assert_refused_hex("81 a178 82 a161 01 a161 02", "stands twice");
    assert_refused_hex("91 82 a161 01 a161 02", "stands twice");
    assert_refused_hex("81 82a16101a16102 01", "stands twice");
    assert_refused_hex("82 a0 01 a0 02", "stands twice");
    (void)value_of("82 a161 81a16101 a162 81a16101", arena);
    (void)value_of("82 a161 01 a26161 02", arena);
    (void)value_of("82 01 a161 01 a161", arena);
}

/* A map of `count` keys k000000 and so on; the last one may repeat the first. */
static unsigned char *large_map(size_t count, bool repeated, size_t *ret_bytes)
{
    unsigned char *bytes = malloc(3 + count * 9 + 1);
    size_t at = 3;
    bytes[0] = 0xde;
    bytes[1] = (unsigned char)(count >> 8);
    bytes[2] = (unsigned char)count;
    for (size_t i = 0; i < count; i++) {
        size_t number = repeated && i == count - 1 ? 0 : i;
        bytes[at++] = 0xa7;
        (void)snprintf((char *)bytes + at, 8, "k%06zu", number % 1000000);
        at += 7;
        bytes[at++] = 1;
    }
    *ret_bytes = at;
    return bytes;
}

static void keys_of_large_maps_are_compared_too(void **state)
{
    (void)state;
    static const size_t counts[] = {16, 17, 18, 200, MESSAGE_MAX_ELEMENTS / 2};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct error err;
        size_t bytes = 0;
        unsigned char *body = large_map(counts[i], false, &bytes);
        assert_int_equal(refused(body, bytes, &err), 0);
        free(body);
        body = large_map(counts[i], true, &bytes);
        assert_int_equal(refused(body, bytes, &err), -1);
        assert_string_equal(err.field, "k000000");
        free(body);
    }
}

static void keys_that_are_no_text_are_left_alone_mp_13(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    struct message map = value_of("83 01 a178 c0 02 a161 03", arena);
    assert_int_equal(message_find(&map, "a")->integer, 3);
}

static void running_out_of_memory_is_not_the_producers_fault(void **state)
{
    (void)state;
    unsigned char bytes[64];
    size_t count = from_hex("93 01 02 03", bytes, sizeof(bytes));
    for (size_t cap = 0; cap < 3 * sizeof(struct message); cap++) {
        arena_scoped struct arena *arena = arena_new(cap);
        struct error err = {0};
        struct message message = {.type = MESSAGE_EXTENSION};
        assert_int_equal(message_read(bytes, count, arena, &message, &err), -1);
        assert_int_equal(message.type, MESSAGE_EXTENSION);
        assert_int_equal(err.code, ERROR_INTERNAL);
    }
}

static void only_well_formed_utf8_is_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        bool good;
    } cases[] = {
        {"", true},          {"41", true},        {"c3a4", true},      {"e282ac", true},
        {"f09f9880", true},  {"f48fbfbf", true},  {"ed9fbf", true},    {"ee8080", true},
        {"c2", false},       {"80", false},       {"c080", false},     {"c1bf", false},
        {"e08080", false},   {"e09fbf", false},   {"eda080", false},   {"edbfbf", false},
        {"f0808080", false}, {"f08fbfbf", false}, {"f4908080", false}, {"f5808080", false},
        {"ff", false},       {"e282", false},     {"e28241", false},   {"f09f98", false},
        {"c341", false},     {"41ff41", false},   {"f09f9841", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char bytes[16];
        size_t count = from_hex(cases[i].hex, bytes, sizeof(bytes));
        if (utf8_is_valid((const char *)bytes, count) != cases[i].good)
            fail_msg("%s", cases[i].hex);
    }
}

static void texts_are_copied_only_when_they_are_fit_for_c(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        const char *complaint; /* NULL: good */
    } cases[] = {
        {"a3 616263", NULL},
        {"a0", NULL},
        {"c402 c3a4", NULL},
        {"a4 61626364", NULL},
        {"a5 6162636465", "at most 4 bytes; it has 5"},
        {"a3 610062", "NUL"},
        {"a2 c328", "UTF-8"},
        {"01", "must be a text"},
        {"c0", "must be a text"},
        {"d4 01 61", "must be a text"},
    };
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct message value = value_of(cases[i].hex, arena);
        struct error err = {0};
        const char *text = "untouched";
        int result = message_text(&value, "some.field", 4, arena, &text, &err);
        assert_int_equal(result, cases[i].complaint ? -1 : 0);
        if (!cases[i].complaint) {
            assert_int_equal(strlen(text), value.text.size);
            continue;
        }
        assert_string_equal(text, "untouched");
        assert_int_equal(err.code, ERROR_INVALID_ARGUMENT);
        assert_string_equal(err.field, "some.field");
        assert_non_null(strstr(err.message, cases[i].complaint));
    }
}

static void integral_floats_within_53_bits_are_integers_mp_07(void **state)
{
    (void)state;
    static const struct {
        double number;
        int result;
    } cases[] = {
        {1.0, 0},
        {-1.0, 0},
        {0.0, 0},
        {-0.0, 0},
        {9007199254740992.0, 0},
        {-9007199254740992.0, 0},
        {9007199254740994.0, -1},
        {1.5, -1},
        {1e300, -1},
        {-1e300, -1},
        {INFINITY, -1},
        {NAN, -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct message value = {.type = MESSAGE_FLOAT, .number = cases[i].number};
        int64_t integer = 77;
        int result = message_integer(&value, "n", INT64_MIN, INT64_MAX, &integer, NULL);
        assert_int_equal(result, cases[i].result);
        assert_int_equal(integer, result ? 77 : (int64_t)cases[i].number);
    }
}

static void a_number_may_be_int_or_float_mp_07(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    struct message one = value_of("01", arena);
    struct message more = value_of("cb 3ff8000000000000", arena);
    struct message text = value_of("a131", arena);
    double number = 0;
    struct error err = {0};
    assert_int_equal(message_number(&one, "n", &number, &err), 0);
    assert_true(number == 1.0);
    assert_int_equal(message_number(&more, "n", &number, &err), 0);
    assert_true(number == 1.5);
    assert_int_equal(message_number(&text, "n", &number, &err), -1);
    assert_true(number == 1.5);
    assert_string_equal(err.message, "n must be a number");
}

static void integers_keep_to_their_range_and_the_message_names_it(void **state)
{
    (void)state;
    struct message value = {.type = MESSAGE_INT, .integer = 11};
    struct error err = {0};
    int64_t integer = 0;
    assert_int_equal(message_integer(&value, "n", 1, 11, &integer, &err), 0);
    assert_int_equal(message_integer(&value, "n", 11, 20, &integer, &err), 0);
    assert_int_equal(message_integer(&value, "n", 1, 10, &integer, &err), -1);
    assert_string_equal(err.message, "n must be an integer from 1 to 10");
    assert_int_equal(message_integer(&value, "n", 12, INT64_MAX, &integer, &err), -1);
    assert_string_equal(err.message, "n must be an integer of at least 12");
}

static void booleans_are_booleans_only(void **state)
{
    (void)state;
    struct message value = {.type = MESSAGE_BOOL, .boolean = true};
    struct message one = {.type = MESSAGE_INT, .integer = 1};
    struct error err = {0};
    bool boolean = false;
    assert_int_equal(message_boolean(&value, "b", &boolean, &err), 0);
    assert_true(boolean);
    boolean = false;
    assert_int_equal(message_boolean(&one, "b", &boolean, &err), -1);
    assert_false(boolean);
    assert_string_equal(err.field, "b");
}

static void the_three_timestamp_forms_are_times_and_no_others_mp_10(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        int result;
        int64_t unix_ms;
    } cases[] = {
        {"cf 0000018bcfe56800", 0, 1700000000000},
        {"cb 4278bcfe56800000", 0, 1700000000000},
        {"d6 ff 6553f100", 0, 1700000000000},
        /* 500,000,000 ns in the upper 30 bits, 1,700,000,000 s in the lower 34 */
        {"d7 ff 773594006553f100", 0, 1700000000500},
        {"c7 0c ff 1dcd6500 000000006553f100", 0, 1700000000500},
        {"c7 0c ff 00000000 ffffffffffffffff", 0, -1000},
        {"c7 04 ff 6553f100", 0, 1700000000000},
        {"c7 0c ff 3b9aca00 000000006553f100", -1, 0}, /* 10^9 ns */
        {"d7 ff ee6b28006553f100", -1, 0},             /* 10^9 ns */
        {"c7 0c ff 00000000 7fffffffffffffff", -1, 0},
        {"c7 07 ff 00000000000000", -1, 0},
        {"d7 0d 4278bcfe56800000", -1, 0},
        {"d6 01 6553f100", -1, 0},
        {"c7 00 ff", -1, 0},
        {"cb 4278bcfe56800800", -1, 0}, /* half a millisecond */
        {"a4 6e6f7721", -1, 0},
        {"c0", -1, 0},
    };
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct message value = value_of(cases[i].hex, arena);
        struct error err = {0};
        int64_t unix_ms = 77;
        int result = message_time(&value, "deadline_ms", &unix_ms, &err);
        if (result != cases[i].result)
            fail_msg("%s", cases[i].hex);
        assert_int_equal(unix_ms, result ? 77 : cases[i].unix_ms);
        if (result)
            assert_string_equal(err.field, "deadline_ms");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_integer_format_is_read),
        cmocka_unit_test(integers_above_int64_are_floats_and_refused_as_integers),
        cmocka_unit_test(floats_booleans_and_nil_are_read),
        cmocka_unit_test(texts_of_every_width_are_alike_mp_09),
        cmocka_unit_test(extensions_of_every_width_are_read),
        cmocka_unit_test(containers_of_every_width_hold_their_values_in_order),
        cmocka_unit_test(a_container_after_another_keeps_its_own_places),
        cmocka_unit_test(headers_that_ask_for_more_than_there_is_are_refused_mp_01),
        cmocka_unit_test(sixteen_levels_are_taken_and_no_more_mp_02),
        cmocka_unit_test(nested_headers_do_not_multiply_mp_03),
        cmocka_unit_test(elements_are_counted_over_the_whole_message_mp_03),
        cmocka_unit_test(only_the_whole_body_counts_mp_15),
        cmocka_unit_test(a_body_cut_at_any_byte_is_refused_mp_15),
        cmocka_unit_test(the_largest_body_is_taken_and_one_byte_more_refused),
        cmocka_unit_test(text_keys_must_not_stand_twice_in_any_map),
        cmocka_unit_test(keys_of_large_maps_are_compared_too),
        cmocka_unit_test(keys_that_are_no_text_are_left_alone_mp_13),
        cmocka_unit_test(running_out_of_memory_is_not_the_producers_fault),
        cmocka_unit_test(only_well_formed_utf8_is_utf8),
        cmocka_unit_test(texts_are_copied_only_when_they_are_fit_for_c),
        cmocka_unit_test(integral_floats_within_53_bits_are_integers_mp_07),
        cmocka_unit_test(a_number_may_be_int_or_float_mp_07),
        cmocka_unit_test(integers_keep_to_their_range_and_the_message_names_it),
        cmocka_unit_test(booleans_are_booleans_only),
        cmocka_unit_test(the_three_timestamp_forms_are_times_and_no_others_mp_10),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
