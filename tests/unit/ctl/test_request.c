/* Jobs are packed, then read as a worker reads them. */
#include "support.h"

#include <string.h>

#include "ctl/request.h"

enum { ARENA_BYTES = 1024 * 1024 };

struct fixture {
    struct arena *arena;
    struct buffer body;
    struct options options;
    struct job job;
    struct error err;
};

static int set_up(void **state)
{
    struct fixture *fixture = test_calloc(1, sizeof(*fixture));
    fixture->arena = arena_new(ARENA_BYTES);
    buffer_init(&fixture->body, ARENA_BYTES);
    fixture->options = (struct options){
        .command = COMMAND_STATUS, .provider = "p", .sandbox = "s", .execution_id = "e"};
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    buffer_done(&fixture->body);
    arena_free(fixture->arena);
    test_free(fixture);
    return 0;
}

/* Packs the fixture's options and reads the job back. */
static int round_trip(struct fixture *fixture, int64_t deadline_unix_ms)
{
    if (request_pack(&fixture->options, "ctl-1", deadline_unix_ms, fixture->arena,
                     &fixture->body, &fixture->err) != 0)
        return -1;
    assert_int_equal(job_read(fixture->body.data, fixture->body.size, fixture->arena,
                              &fixture->job, &fixture->err),
                     0);
    assert_int_equal(job_read_arguments(&fixture->job, fixture->arena, &fixture->err), 0);
    return 0;
}

static void the_least_request_says_nothing_of_what_was_not_asked(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(round_trip(fixture, 0), 0);
    const struct job *job = &fixture->job;
    assert_string_equal(job->id, "ctl-1");
    assert_int_equal(job->op, JOB_STATUS);
    assert_string_equal(job->provider, "p");
    assert_string_equal(job->sandbox_id, "s");
    assert_string_equal(job->execution_id, "e");
    assert_null(job->remote_dir);
    assert_null(job->reply_to);
    assert_int_equal(job->deadline_unix_ms, 0);
    assert_int_equal(job->map->map.count, 5); /* v, id, op, sandbox, execution_id */
}

static void attach_carries_all_that_was_asked(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.command = COMMAND_ATTACH;
    fixture->options.remote_dir = "/app";
    fixture->options.wake = true;
    fixture->options.read = true;
    fixture->options.timeout_ms = 1234;
    assert_int_equal(round_trip(fixture, 1800000000123), 0);
    const struct job *job = &fixture->job;
    assert_int_equal(job->op, JOB_ATTACH);
    assert_string_equal(job->remote_dir, "/app");
    assert_true(job->wake);
    assert_true(job->read_stdout.wanted && job->read_stderr.wanted);
    assert_int_equal(job->read_stdout.offset, 0);
    assert_int_equal(job->timeout_ms, 1234);
    assert_int_equal(job->deadline_unix_ms, 1800000000123);
}

static void read_output_carries_stream_offset_and_size(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.command = COMMAND_READ_OUTPUT;
    fixture->options.stream = "stderr";
    fixture->options.offset = 17;
    fixture->options.max_bytes = 18;
    assert_int_equal(round_trip(fixture, 0), 0);
    assert_false(fixture->job.read_stdout.wanted);
    assert_true(fixture->job.read_stderr.wanted);
    assert_int_equal(fixture->job.read_stderr.offset, 17);
    assert_int_equal(fixture->job.read_stderr.max_bytes, 18);
}

static void settings_become_keys_of_the_sandbox(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.command = COMMAND_INFO;
    fixture->options.execution_id = NULL;
    fixture->options.settings[0] = (struct options_setting){"region=eu", 6, "eu"};
    fixture->options.settings[1] = (struct options_setting){"empty=", 5, ""};
    fixture->options.setting_count = 2;
    assert_int_equal(round_trip(fixture, 0), 0);
    assert_int_equal(fixture->job.sandbox_key_count, 2);
    assert_string_equal(fixture->job.sandbox_keys[0].name, "region");
    assert_string_equal(fixture->job.sandbox_keys[0].value, "eu");
    assert_string_equal(fixture->job.sandbox_keys[1].value, "");
    assert_null(fixture->job.execution_id);
}

static void what_a_worker_could_not_read_is_refused_here(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.sandbox = "";
    assert_int_equal(round_trip(fixture, 0), -1);
    assert_int_equal(fixture->err.code, ERROR_INVALID_ARGUMENT);
    assert_string_equal(fixture->err.field, "sandbox.id");
    buffer_clear(&fixture->body);
    fixture->options.sandbox = "\xff";
    assert_int_equal(round_trip(fixture, 0), -1);
    buffer_clear(&fixture->body);
    fixture->options.sandbox = "s";
    fixture->options.settings[0] = (struct options_setting){"id=other", 2, "other"};
    fixture->options.setting_count = 1;
    assert_int_equal(round_trip(fixture, 0), -1);
    assert_int_equal(fixture->err.code, ERROR_MALFORMED_JOB);
}

static void a_job_that_does_not_fit_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    for (size_t most = 0; most < 60; most++) {
        buffer_done(&fixture->body);
        buffer_init(&fixture->body, most);
        assert_int_equal(round_trip(fixture, 0), -1);
    }
}

static void commands_that_ask_no_sandbox_are_no_operation(void **state)
{
    enum job_op op = JOB_INFO;
    (void)state;
    assert_false(request_op(COMMAND_ENQUEUE, &op));
    assert_int_equal(op, JOB_INFO);
    assert_true(request_op(COMMAND_READ_OUTPUT, &op));
    assert_int_equal(op, JOB_READ_OUTPUT);
}

static void ids_are_fit_for_a_key_and_never_the_same(void **state)
{
    char one[REQUEST_ID_SIZE];
    char other[REQUEST_ID_SIZE];
    struct error err = {0};
    (void)state;
    assert_int_equal(request_make_id(one, &err), 0);
    assert_int_equal(request_make_id(other, &err), 0);
    assert_string_not_equal(one, other);
    assert_int_equal(strlen(one), 4 + 32);
    assert_memory_equal(one, "ctl-", 4);
    assert_int_equal(strspn(one + 4, "0123456789abcdef"), 32);
    assert_true(job_is_name(one, strlen(one)));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_least_request_says_nothing_of_what_was_not_asked),
        TEST(attach_carries_all_that_was_asked),
        TEST(read_output_carries_stream_offset_and_size),
        TEST(settings_become_keys_of_the_sandbox),
        TEST(what_a_worker_could_not_read_is_refused_here),
        TEST(a_job_that_does_not_fit_is_an_error),
        cmocka_unit_test(commands_that_ask_no_sandbox_are_no_operation),
        cmocka_unit_test(ids_are_fit_for_a_key_and_never_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
