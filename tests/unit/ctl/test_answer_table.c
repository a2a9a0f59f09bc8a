/* Replies as people see them, hostile ones too; and the matrix of providers. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include <msgpack.h>

#include "ctl/answer_table.h"
#include "ctl/json_output.h"
#include "ctl/providers.h"
#include "ctl/table.h"
#include "queue/reply.h"

enum { ARENA_BYTES = 8 * 1024 * 1024 };

struct shown {
    struct arena *arena;
    struct buffer out;
};

static int set_up(void **state)
{
    struct shown *shown = test_calloc(1, sizeof(*shown));
    shown->arena = arena_new(ARENA_BYTES);
    buffer_init(&shown->out, ARENA_BYTES);
    *state = shown;
    return 0;
}

static int tear_down(void **state)
{
    struct shown *shown = *state;
    buffer_done(&shown->out);
    arena_free(shown->arena);
    test_free(shown);
    return 0;
}

static const struct reply_envelope envelope = {.id = "ctl-1",
                                               .entry = "1-0",
                                               .op = "attach",
                                               .worker = "w",
                                               .provider = "local",
                                               .attempt = 1,
                                               .deliveries = 1,
                                               .queued_ms = 2,
                                               .run_ms = 3};

static void show(struct shown *shown, const char *data, size_t size)
{
    struct reply reply;
    struct error err = {0};
    assert_int_equal(reply_read(data, size, shown->arena, &reply, &err), 0);
    assert_int_equal(answer_table_append(&reply, shown->arena, &shown->out), 0);
}

static void show_result(struct shown *shown,
                        void (*write)(msgpack_packer *packer, const void *arg))
{
    const char *data = NULL;
    size_t size = 0;
    assert_int_equal(reply_write_result(&envelope, write, NULL, shown->arena, &data, &size),
                     0);
    show(shown, data, size);
}

static void show_error(struct shown *shown, const struct error *error,
                       const char *const *supported)
{
    const char *data = NULL;
    size_t size = 0;
    assert_int_equal(
        reply_write_error(&envelope, error, supported, shown->arena, &data, &size), 0);
    show(shown, data, size);
}

static void pack_piece(msgpack_packer *packer, const char *stream, const char *data)
{
    int64_t size = (int64_t)strlen(data);
    (void)msgpack_pack_map(packer, 8);
    reply_pack_key_text(packer, "stream", stream);
    reply_pack_key_bin(packer, "data", data, strlen(data));
    reply_pack_key_int(packer, "offset", 0);
    reply_pack_key_int(packer, "next_offset", size);
    reply_pack_key_int(packer, "total_bytes", size);
    reply_pack_key_bool(packer, "eof", strcmp(stream, "stdout") == 0);
    reply_pack_key_bool(packer, "truncated", false);
    reply_pack_key_bool(packer, "interrupted", strcmp(stream, "stderr") == 0);
}

static void write_handle(msgpack_packer *packer, const void *arg)
{
    (void)arg;
    (void)msgpack_pack_map(packer, 5);
    reply_pack_key_text(packer, "remote_dir", NULL);
    reply_pack_key_int(packer, "expires_at_ms", 1800000000000);
    reply_pack_text(packer, "capabilities");
    (void)msgpack_pack_array(packer, 2);
    reply_pack_text(packer, "probe");
    reply_pack_text(packer, "stop");
    reply_pack_text(packer, "status");
    (void)msgpack_pack_map(packer, 2);
    reply_pack_key_text(packer, "state", "exited");
    reply_pack_key_int(packer, "exit_code", 3);
    reply_pack_text(packer, "output");
    (void)msgpack_pack_map(packer, 2);
    reply_pack_text(packer, "stdout");
    pack_piece(packer, "stdout", "one\ntwo");
    reply_pack_text(packer, "stderr");
    pack_piece(packer, "stderr", "bad\n");
}

static void a_handle_is_a_table_and_its_output_stands_below(void **state)
{
    struct shown *shown = *state;
    show_result(shown, write_handle);
    assert_string_equal(shown->out.data,
                        "job           ctl-1\n"
                        "operation     attach\n"
                        "answer        ok\n"
                        "remote dir    -\n"
                        "expires at    2027-01-15 08:00:00 UTC\n"
                        "capabilities  probe, stop\n"
                        "status        exited\n"
                        "exit code     3\n"
                        "stdout        bytes 0 to 7 of 7, complete\n"
                        "stderr        bytes 0 to 4 of 4, whether more comes is not known\n"
                        "attempt       1\n"
                        "deliveries    1\n"
                        "queued        2 ms\n"
                        "run           3 ms\n"
                        "worker        w\n"
                        "\n--- stdout\none\ntwo\n"
                        "\n--- stderr\nbad\n");
}

static void write_output(msgpack_packer *packer, const void *arg)
{
    (void)arg;
    pack_piece(packer, "stdout", "\x1b]0;owned\x07\tx\r\n\xff");
}

static void printed_text_cannot_steer_the_terminal(void **state)
{
    struct shown *shown = *state;
    show_result(shown, write_output);
    assert_non_null(strstr(shown->out.data, "stdout      bytes 0 to 15 of 15, complete\n"));
    assert_non_null(
        strstr(shown->out.data, "\n--- stdout\n\\x1b]0;owned\\x07\tx\\x0d\n\\xff\n"));
}

static void write_hostile(msgpack_packer *packer, const void *arg)
{
    (void)arg;
    (void)msgpack_pack_map(packer, 3);
    reply_pack_key_text(packer, "message\x1b[1m", "line\nanswer  ok\x1b[0m");
    reply_pack_text(packer, "deep");
    (void)msgpack_pack_map(packer, 1);
    reply_pack_key_text(packer, "in\nner", "x");
    reply_pack_text(packer, "list");
    (void)msgpack_pack_array(packer, 2);
    reply_pack_text(packer, "a\x07");
    (void)msgpack_pack_nil(packer);
}

static void names_and_values_stay_in_their_row(void **state)
{
    struct shown *shown = *state;
    show_result(shown, write_hostile);
    assert_non_null(strstr(shown->out.data,
                           "\nmessage\\x1b[1m  line\\x0aanswer  ok\\x1b[0m\n"
                           "deep in\\x0aner  x\n"
                           "list            a\\x07\n"));
    assert_null(strchr(shown->out.data, '\x1b'));
}

static void an_error_shows_what_to_do(void **state)
{
    static const char *const supported[] = {"probe", NULL};
    struct shown *shown = *state;
    struct error error = {.code = ERROR_CAPABILITY_UNAVAILABLE,
                          .capability = "execute_command",
                          .remedy = "use info",
                          .detail = "first\nsecond",
                          .message = "cannot"};
    show_error(shown, &error, supported);
    assert_non_null(strstr(shown->out.data, "answer      error\n"
                                            "code        capability_unavailable\n"
                                            "message     cannot\n"
                                            "retryable   no\n"
                                            "provider    local\n"
                                            "capability  execute_command\n"
                                            "supported   probe\n"
                                            "remedy      use info\n"));
    assert_non_null(strstr(shown->out.data, "\n--- detail\nfirst\nsecond\n"));
}

static void a_result_of_any_shape_shows(void **state)
{
    static const char odd[] = "\x83\xa2id\xa1x\xa2ok\xc3\xa6result";
    static const char *const results[] = {"\xc0", "\xa1t", "\x91\x01", "\x80",
                                          "\x81\x01\x02"};
    static const size_t sizes[] = {1, 2, 2, 1, 3};
    struct shown *shown = *state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char body[64];
        memcpy(body, odd, sizeof(odd) - 1);
        memcpy(body + sizeof(odd) - 1, results[i], sizes[i]);
        buffer_clear(&shown->out);
        show(shown, body, sizeof(odd) - 1 + sizes[i]);
        assert_memory_equal(shown->out.data, "job        x\n", 13);
    }
}

static void too_little_memory_is_an_error(void **state)
{
    struct shown *shown = *state;
    const char *data = NULL;
    size_t size = 0;
    struct reply reply;
    struct error err = {0};
    assert_int_equal(
        reply_write_result(&envelope, write_handle, NULL, shown->arena, &data, &size), 0);
    assert_int_equal(reply_read(data, size, shown->arena, &reply, &err), 0);
    size_t before = arena_used(shown->arena);
    assert_int_equal(answer_table_append(&reply, shown->arena, &shown->out), 0);
    size_t needed = arena_used(shown->arena) - before;
    assert_true(needed > 1000);
    for (size_t most = 1; most < needed; most += 8) {
        arena_scoped struct arena *small = arena_new(most);
        buffer_clear(&shown->out);
        assert_non_null(small);
        assert_int_not_equal(answer_table_append(&reply, small, &shown->out), 0);
    }
}

static void columns_are_as_wide_as_their_widest_character_count(void **state)
{
    struct shown *shown = *state;
    struct table table;
    table_init(&table, 3, shown->arena);
    table_add_text(&table, "\xc3\xbc");
    table_add_text(&table, NULL);
    table_add_text(&table, "end");
    table_add_text(&table, "abc");
    table_add_text(&table, "\x01");
    table_add_text(&table, "e");
    assert_int_equal(table_append(&table, &shown->out), 0);
    assert_string_equal(shown->out.data, "\xc3\xbc    -     end\nabc  \\x01  e\n");
}

static void the_matrix_has_every_provider_and_every_capability(void **state)
{
    struct shown *shown = *state;
    assert_int_equal(providers_append_table(shown->arena, &shown->out), 0);
    assert_non_null(strstr(shown->out.data, "\nPROVIDER  "));
    assert_non_null(strstr(shown->out.data, "\ncua-fleet  -        -      -"));
    assert_non_null(strstr(shown->out.data, "\n\nlocal "));
    buffer_clear(&shown->out);
    assert_int_equal(providers_append_json(&shown->out), 0);
    json_t *value = json_loads(shown->out.data, 0, NULL);
    json_t *list = json_object_get(value, "providers");
    assert_true(json_array_size(list) >= 2);
    json_t *capabilities = json_object_get(json_array_get(list, 0), "capabilities");
    assert_int_equal(json_object_size(capabilities), 8);
    assert_true(json_is_boolean(json_object_get(capabilities, "execute_command")));
    json_decref(value);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_handle_is_a_table_and_its_output_stands_below),
        TEST(printed_text_cannot_steer_the_terminal),
        TEST(names_and_values_stay_in_their_row),
        TEST(an_error_shows_what_to_do),
        TEST(a_result_of_any_shape_shows),
        TEST(too_little_memory_is_an_error),
        TEST(columns_are_as_wide_as_their_widest_character_count),
        TEST(the_matrix_has_every_provider_and_every_capability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
