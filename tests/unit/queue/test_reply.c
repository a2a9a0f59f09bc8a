/* Replies as they stand on the wire: written by us, read back by our own reader. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/reply.h"
#include "runtime/utf8.h"

enum { TEST_ARENA_BYTES = 128 * 1024 * 1024 };

static const struct reply_envelope full_envelope = {
    .id = "job-1",
    .entry = "1700000000000-0",
    .op = "attach",
    .worker = "host:1:ab",
    .traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    .provider = "docker",
    .attempt = 2,
    .deliveries = 3,
    .queued_ms = 17,
    .run_ms = 250,
    .execs = 1,
};

static struct reply_envelope small_envelope(void)
{
    return (struct reply_envelope){
        .id = "job-1", .entry = "1-0", .worker = "w", .attempt = 1, .queued_ms = -1};
}

static void write_yes(msgpack_packer *packer, const void *arg)
{
    (void)arg;
    (void)msgpack_pack_map(packer, 1);
    reply_pack_key_text(packer, "state", "yes");
}

static struct message read_back(const char *data, size_t size, struct arena *arena)
{
    struct message map = {.type = MESSAGE_NIL};
    struct error err = {0};
    if (message_read(data, size, arena, &map, &err))
        fail_msg("%s", err.message);
    assert_int_equal(map.type, MESSAGE_MAP);
    return map;
}

/* The keys in the order given, NULL-ended, and no others. */
static void assert_keys(const struct message *map, const char *const *keys)
{
    size_t count = 0;
    for (; keys[count]; count++) {
        assert_true(count < map->map.count);
        if (!message_is_text(&map->map.pairs[count].key, keys[count]))
            fail_msg("key %zu is not %s", count, keys[count]);
    }
    assert_int_equal(map->map.count, count);
}

static void assert_text(const struct message *map, const char *key, const char *text)
{
    const struct message *value = message_find(map, key);
    assert_non_null(value);
    if (!message_is_text(value, text))
        fail_msg("%s is not \"%s\"", key, text);
}

static void assert_integer(const struct message *map, const char *key, int64_t integer)
{
    const struct message *value = message_find(map, key);
    assert_non_null(value);
    assert_int_equal(value->type, MESSAGE_INT);
    assert_int_equal(value->integer, integer);
}

static void a_result_has_the_keys_in_the_contracts_order(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "v",          "id",     "entry",     "op",     "ok",    "result",      "attempt",
        "deliveries", "worker", "queued_ms", "run_ms", "execs", "traceparent", NULL};
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    const char *data = NULL;
    size_t size = 0;
    assert_int_equal(
        reply_write_result(&full_envelope, write_yes, NULL, arena, &data, &size), 0);
    struct message map = read_back(data, size, arena);
    assert_keys(&map, keys);
    assert_integer(&map, "v", 1);
    assert_text(&map, "id", "job-1");
    assert_text(&map, "entry", "1700000000000-0");
    assert_text(&map, "op", "attach");
    assert_true(message_find(&map, "ok")->boolean);
    assert_text(message_find(&map, "result"), "state", "yes");
    assert_integer(&map, "attempt", 2);
    assert_integer(&map, "deliveries", 3);
    assert_text(&map, "worker", "host:1:ab");
    assert_integer(&map, "queued_ms", 17);
    assert_integer(&map, "run_ms", 250);
    assert_integer(&map, "execs", 1);
    assert_text(&map, "traceparent", full_envelope.traceparent);
}

static void what_is_not_known_is_nil_or_left_out(void **state)
{
    (void)state;
    struct reply_envelope envelope = small_envelope();
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    const char *data = NULL;
    size_t size = 0;
    assert_int_equal(reply_write_result(&envelope, write_yes, NULL, arena, &data, &size),
                     0);
    struct message map = read_back(data, size, arena);
    assert_null(message_find(&map, "traceparent"));
    assert_int_equal(message_find(&map, "op")->type, MESSAGE_NIL);
    assert_int_equal(message_find(&map, "queued_ms")->type, MESSAGE_NIL);
}

static void an_error_has_only_the_members_that_are_set(void **state)
{
    (void)state;
    static const char *const keys[] = {"code", "message", "retryable", NULL};
    struct reply_envelope envelope = small_envelope();
    struct error error = {0};
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    const char *data = NULL;
    size_t size = 0;
    (void)error_set(&error, ERROR_TIMEOUT, "took too long");
    assert_int_equal(reply_write_error(&envelope, &error, NULL, arena, &data, &size), 0);
    struct message map = read_back(data, size, arena);
    const struct message *written = message_find(&map, "error");
    assert_false(message_find(&map, "ok")->boolean);
    assert_null(message_find(&map, "result"));
    assert_keys(written, keys);
    assert_text(written, "code", "timeout");
    assert_text(written, "message", "took too long");
    assert_true(message_find(written, "retryable")->boolean);
}

static void an_error_with_everything_has_the_contracts_order(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "code",      "message",        "retryable", "provider", "capability",
        "supported", "remedy",         "phase",     "field",    "exit_code",
        "detail",    "retry_after_ms", NULL};
    static const char *const supported[] = {"probe", "wake", NULL};
    struct error error = {0};
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    const char *data = NULL;
    size_t size = 0;
    (void)error_set(&error, ERROR_CAPABILITY_UNAVAILABLE, "cannot");
    (void)snprintf(error.capability, sizeof(error.capability), "execute_command");
    (void)snprintf(error.field, sizeof(error.field), "sandbox.id");
    (void)snprintf(error.phase, sizeof(error.phase), "launch");
    error.remedy = "use info";
    error.detail = "no shell";
    error.has_exit_code = true;
    error.exit_code = -7;
    error.retry_after_ms = 1500;
    assert_int_equal(
        reply_write_error(&full_envelope, &error, supported, arena, &data, &size), 0);
    struct message map = read_back(data, size, arena);
    const struct message *written = message_find(&map, "error");
    assert_keys(written, keys);
    assert_text(written, "code", "capability_unavailable");
    assert_false(message_find(written, "retryable")->boolean);
    assert_text(written, "provider", "docker");
    assert_text(written, "capability", "execute_command");
    assert_int_equal(message_find(written, "supported")->array.count, 2);
    assert_true(
        message_is_text(&message_find(written, "supported")->array.items[1], "wake"));
    assert_text(written, "remedy", "use info");
    assert_text(written, "phase", "launch");
    assert_text(written, "field", "sandbox.id");
    assert_integer(written, "exit_code", -7);
    assert_text(written, "detail", "no shell");
    assert_integer(written, "retry_after_ms", 1500);
}

static void exit_code_zero_and_an_empty_list_are_members_too(void **state)
{
    (void)state;
    static const char *const nothing[] = {NULL};
    struct reply_envelope envelope = small_envelope();
    struct error error = {0};
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    const char *data = NULL;
    size_t size = 0;
    (void)error_set(&error, ERROR_COMMAND_FAILED, "failed");
    error.has_exit_code = true;
    assert_int_equal(reply_write_error(&envelope, &error, nothing, arena, &data, &size), 0);
    struct message map = read_back(data, size, arena);
    const struct message *written = message_find(&map, "error");
    assert_integer(written, "exit_code", 0);
    assert_int_equal(message_find(written, "supported")->array.count, 0);
}

static void write_text(msgpack_packer *packer, const void *arg)
{
    reply_pack_text(packer, arg);
}

static void bad_bytes_in_texts_are_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *written;
    } cases[] = {
        {"plain", "plain"},
        {"", ""},
        {"\xc3\xa4", "\xc3\xa4"},
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xc3", "\xef\xbf\xbd"},
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x9f\x98\x80\x80", "\xf0\x9f\x98\x80\xef\xbf\xbd"},
    };
    struct reply_envelope envelope = small_envelope();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
        const char *data = NULL;
        size_t size = 0;
        assert_int_equal(
            reply_write_result(&envelope, write_text, cases[i].text, arena, &data, &size),
            0);
        struct message map = read_back(data, size, arena);
        assert_text(&map, "result", cases[i].written);
    }
}

static void texts_are_str_and_data_is_bin_mp_09(void **state)
{
    (void)state;
    msgpack_sbuffer out;
    msgpack_packer packer;
    static const char expected[] = "\xa1k\xa1t"
                                   "\xa1"
                                   "b\xc4\x02\xff\x00"
                                   "\xa1i\xff"
                                   "\xa1y\xc3\xa1n\xc2\xa1x\xc0\xc0";
    msgpack_sbuffer_init(&out);
    msgpack_packer_init(&packer, &out, msgpack_sbuffer_write);
    reply_pack_key_text(&packer, "k", "t");
    reply_pack_key_bin(&packer, "b", "\xff\x00", 2);
    reply_pack_key_int(&packer, "i", -1);
    reply_pack_key_bool(&packer, "y", true);
    reply_pack_key_bool(&packer, "n", false);
    reply_pack_key_text(&packer, "x", NULL);
    reply_pack_text(&packer, NULL);
    assert_int_equal(out.size, sizeof(expected) - 1);
    assert_memory_equal(out.data, expected, out.size);
    msgpack_sbuffer_destroy(&out);
}

static void an_id_comes_back_byte_for_byte_mp_06(void **state)
{
    (void)state;
    struct reply_envelope envelope = small_envelope();
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    const char *data = NULL;
    size_t size = 0;
    struct reply reply = {0};
    struct error err = {0};
    envelope.id = "86699530287996692";
    assert_int_equal(reply_write_result(&envelope, write_yes, NULL, arena, &data, &size),
                     0);
    assert_int_equal(reply_read(data, size, arena, &reply, &err), 0);
    assert_string_equal(reply.id, "86699530287996692");
}

struct blob {
    const void *data;
    size_t size;
};

static void write_blob(msgpack_packer *packer, const void *arg)
{
    const struct blob *blob = arg;
    (void)msgpack_pack_map(packer, 1);
    reply_pack_key_bin(packer, "data", blob->data, blob->size);
}

static void both_streams_at_their_most_fit_a_reply_and_can_be_read(void **state)
{
    (void)state;
    size_t largest = REPLY_MAX_BYTES;
    char *bytes = calloc(1, largest);
    struct reply_envelope envelope = small_envelope();
    struct blob blob = {bytes, (size_t)32 * 1024 * 1024};
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    const char *data = NULL;
    size_t size = 0;
    struct reply reply = {0};
    struct error err = {0};
    assert_non_null(bytes);
    assert_int_equal(reply_write_result(&envelope, write_blob, &blob, arena, &data, &size),
                     0);
    assert_true(arena_used(arena) < size + 64);
    assert_int_equal(reply_read(data, size, arena, &reply, &err), 0);
    assert_int_equal(message_find(reply.result, "data")->text.size, blob.size);

    blob.size = largest;
    const char *untouched = data;
    assert_int_equal(reply_write_result(&envelope, write_blob, &blob, arena, &data, &size),
                     -1);
    assert_ptr_equal(data, untouched);
    free(bytes);
}

static void an_arena_that_is_too_small_is_told_and_nothing_given_back(void **state)
{
    (void)state;
    size_t needed = 0;
    for (size_t cap = 0; needed == 0; cap += 8) {
        arena_scoped struct arena *arena = arena_new(cap);
        const char *data = NULL;
        size_t size = 77;
        if (reply_write_result(&full_envelope, write_yes, NULL, arena, &data, &size) == 0) {
            needed = cap;
            assert_true(size <= cap);
            continue;
        }
        assert_null(data);
        assert_int_equal(size, 77);
        assert_true(cap < 4096);
    }
    assert_true(needed > 100);
}

static int read_text(const char *body, size_t bytes, struct reply *ret_reply,
                     struct error *err)
{
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    *err = (struct error){0};
    return reply_read(body, bytes, arena, ret_reply, err);
}

static void a_reply_is_read_back(void **state)
{
    (void)state;
    struct error error = {0};
    struct error err = {0};
    struct reply reply = {0};
    const char *data = NULL;
    size_t size = 0;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    assert_int_equal(
        reply_write_result(&full_envelope, write_yes, NULL, arena, &data, &size), 0);
    assert_int_equal(reply_read(data, size, arena, &reply, &err), 0);
    assert_true(reply.ok);
    assert_string_equal(reply.id, "job-1");
    assert_string_equal(reply.op, "attach");
    assert_text(reply.result, "state", "yes");
    assert_null(reply.error);
    assert_integer(reply.map, "deliveries", 3);

    (void)error_set(&error, ERROR_TIMEOUT, "took too long");
    assert_int_equal(reply_write_error(&full_envelope, &error, NULL, arena, &data, &size),
                     0);
    assert_int_equal(reply_read(data, size, arena, &reply, &err), 0);
    assert_false(reply.ok);
    assert_null(reply.result);
    assert_text(reply.error, "code", "timeout");
}

static void what_is_no_reply_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        size_t bytes;
        const char *complaint;
    } cases[] = {
        {"", 0, "empty"},
        {"\x90", 1, "no map"},
        {"\x80", 1, "whether it is ok"},
        {"\x81\xa2ok\x01", 5, "whether it is ok"},
        {"\x81\xa2ok\xc3", 5, "no result"},
        {"\x81\xa2ok\xc2", 5, "no map under error"},
        {"\x82\xa2ok\xc2\xa5"
         "error\x90",
         12, "no map under error"},
        {"\x83\xa2ok\xc3\xa6result\xc0\xa2id\x01", 17, "id must be a text"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct reply reply = {.id = "untouched"};
        struct error err;
        assert_int_equal(read_text(cases[i].body, cases[i].bytes, &reply, &err), -1);
        assert_string_equal(reply.id, "untouched");
        if (!strstr(err.message, cases[i].complaint))
            fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].complaint);
    }
}

static void a_nil_result_is_a_result(void **state)
{
    (void)state;
    struct reply reply = {0};
    struct error err;
    assert_int_equal(read_text("\x82\xa2ok\xc3\xa6result\xc0", 13, &reply, &err), 0);
    assert_null(reply.id);
    assert_null(reply.op);
}

static void an_error_cut_within_a_character_is_still_utf8(void **state)
{
    (void)state;
    struct error error = {0};
    struct reply_envelope envelope = small_envelope();
    char text[512];
    const char *data = NULL;
    size_t size = 0;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    for (size_t i = 0; i + 1 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    text[sizeof(text) - 2] = '\0';
    (void)error_set(&error, ERROR_INTERNAL, "%s", text);
    assert_false(utf8_is_valid(error.message, strlen(error.message)));
    assert_int_equal(reply_write_error(&envelope, &error, NULL, arena, &data, &size), 0);
    struct message map = read_back(data, size, arena);
    const struct message *written = message_find(message_find(&map, "error"), "message");
    assert_true(utf8_is_valid(written->text.data, written->text.size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_has_the_keys_in_the_contracts_order),
        cmocka_unit_test(what_is_not_known_is_nil_or_left_out),
        cmocka_unit_test(an_error_has_only_the_members_that_are_set),
        cmocka_unit_test(an_error_with_everything_has_the_contracts_order),
        cmocka_unit_test(exit_code_zero_and_an_empty_list_are_members_too),
        cmocka_unit_test(bad_bytes_in_texts_are_replaced),
        cmocka_unit_test(texts_are_str_and_data_is_bin_mp_09),
        cmocka_unit_test(an_id_comes_back_byte_for_byte_mp_06),
        cmocka_unit_test(both_streams_at_their_most_fit_a_reply_and_can_be_read),
        cmocka_unit_test(an_arena_that_is_too_small_is_told_and_nothing_given_back),
        cmocka_unit_test(a_reply_is_read_back),
        cmocka_unit_test(what_is_no_reply_is_refused),
        cmocka_unit_test(a_nil_result_is_a_result),
        cmocka_unit_test(an_error_cut_within_a_character_is_still_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
