/* Jobs are packed, then read as a worker reads them. */
#include "support.h"

#include <string.h>

#include "ctl/request.h"

enum { ARENA_BYTES = 1024 * 1024 };

struct fixture {
    struct arena *arena;
    struct buffer body;
    struct options options;
    struct payload payload;
    struct request request;
    struct job job;
    struct error err;
};

static const char *no_environment(const char *variable)
{
    (void)variable;
    return NULL;
}

static int set_up(void **state)
{
    struct fixture *fixture = test_calloc(1, sizeof(*fixture));
    fixture->arena = arena_new(ARENA_BYTES);
    buffer_init(&fixture->body, ARENA_BYTES);
    fixture->options = (struct options){
        .command = COMMAND_STATUS, .provider = "p", .sandbox = "s", .execution_id = "e"};
    payload_init(&fixture->payload, fixture->arena, no_environment);
    fixture->request = (struct request){.options = &fixture->options, .id = "ctl-1"};
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    buffer_done(&fixture->body);
    payload_done(&fixture->payload);
    arena_free(fixture->arena);
    test_free(fixture);
    return 0;
}

/* Packs the fixture's options and reads the job back. */
static int round_trip(struct fixture *fixture, int64_t deadline_unix_ms)
{
    fixture->request.deadline_unix_ms = deadline_unix_ms;
    if (request_pack(&fixture->request, fixture->arena, &fixture->body, &fixture->err) != 0)
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
    fixture->request.read = &(struct request_read){.stderr_offset = 70};
    fixture->options.timeout_ms = 1234;
    assert_int_equal(round_trip(fixture, 1800000000123), 0);
    const struct job *job = &fixture->job;
    assert_int_equal(job->op, JOB_ATTACH);
    assert_string_equal(job->remote_dir, "/app");
    assert_true(job->wake);
    assert_true(job->read_stdout.wanted && job->read_stderr.wanted);
    assert_int_equal(job->read_stdout.offset, 0);
    assert_int_equal(job->read_stderr.offset, 70);
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

static bool is_span(const struct span *span, const char *text)
{
    return span->size == strlen(text) && memcmp(span->data, text, span->size) == 0;
}

static void set_launch(struct fixture *fixture, enum command command)
{
    static const char *const args[] = {"a b", "--", ""};
    fixture->options.command = command;
    fixture->request.payload = &fixture->payload;
    if (command != COMMAND_DEPLOY)
        return;
    fixture->options.operand = "./run.sh";
    fixture->options.args = args;
    fixture->options.arg_count = 3;
}

static void the_least_deploy_leaves_all_defaults_to_the_worker(void **state)
{
    struct fixture *fixture = *state;
    set_launch(fixture, COMMAND_DEPLOY);
    fixture->options.arg_count = 0;
    fixture->options.launch.artifact_dir = "app";
    assert_int_equal(round_trip(fixture, 0), 0);
    const struct job *job = &fixture->job;
    assert_int_equal(job->op, JOB_DEPLOY);
    assert_true(is_span(&job->deploy->command, "./run.sh"));
    assert_int_equal(job->deploy->artifact.kind, JOB_ARTIFACT_DIR);
    assert_string_equal(job->deploy->artifact.dir, "app");
    assert_false(job->progress);
    assert_int_equal(job->map->map.count, 7); /* those of status, command and artifact */
}

static void a_deploy_carries_all_that_was_asked(void **state)
{
    struct fixture *fixture = *state;
    struct options_launch *launch = &fixture->options.launch;
    set_launch(fixture, COMMAND_DEPLOY);
    *launch = (struct options_launch){.archive = "a.tgz",
                                      .working_directory = "sub",
                                      .install_command = "make",
                                      .input_file = "in",
                                      .input_path = "data/in",
                                      .input_limit_bytes = 1,
                                      .cpu_seconds = 2,
                                      .memory_bytes = 3,
                                      .file_size_bytes = 4,
                                      .open_files = 5,
                                      .install_timeout_ms = 6,
                                      .startup_timeout_ms = 7,
                                      .execution_timeout_ms = 8};
    fixture->options.grace_ms = 9;
    fixture->request.progress = true;
    assert_int_equal(buffer_append(&fixture->payload.archive, "\x1f\x8b\0\xff", 4), 0);
    assert_int_equal(buffer_append(&fixture->payload.input, "\0x", 2), 0);
    assert_int_equal(environment_add(&fixture->payload.environment, "A=1=2", NULL), 0);
    assert_int_equal(environment_add(&fixture->payload.environment, "B=", NULL), 0);
    assert_int_equal(round_trip(fixture, 0), 0);
    const struct job *job = &fixture->job;
    const struct job_deploy *deploy = job->deploy;
    assert_int_equal(deploy->artifact.kind, JOB_ARTIFACT_DATA);
    assert_int_equal(deploy->artifact.data.size, 4);
    assert_memory_equal(deploy->artifact.data.data, "\x1f\x8b\0\xff", 4);
    assert_int_equal(deploy->arg_count, 3);
    assert_true(is_span(&deploy->args[0], "a b") && is_span(&deploy->args[1], "--") &&
                is_span(&deploy->args[2], ""));
    assert_int_equal(deploy->env_count, 2);
    assert_true(is_span(&deploy->env[0].name, "A") &&
                is_span(&deploy->env[0].value, "1=2") &&
                is_span(&deploy->env[1].name, "B") && is_span(&deploy->env[1].value, ""));
    assert_true(is_span(&deploy->working_directory, "sub"));
    assert_string_equal(deploy->install_command, "make");
    assert_true(deploy->input.given && deploy->input.is_file);
    assert_true(is_span(&deploy->input.path, "data/in"));
    assert_int_equal(deploy->input.data.size, 2);
    assert_int_equal(deploy->input_limit_bytes, 1);
    assert_int_equal(deploy->limit_count, 4);
    assert_string_equal(deploy->limits[0].name, "cpu_time_seconds");
    assert_int_equal(deploy->limits[0].value, 2);
    assert_string_equal(deploy->limits[1].name, "address_space_bytes");
    assert_int_equal(deploy->limits[1].value, 3);
    assert_string_equal(deploy->limits[2].name, "file_size_bytes");
    assert_int_equal(deploy->limits[2].value, 4);
    assert_string_equal(deploy->limits[3].name, "open_files");
    assert_int_equal(deploy->limits[3].value, 5);
    assert_int_equal(deploy->install_timeout_ms, 6);
    assert_int_equal(deploy->startup_timeout_ms, 7);
    assert_true(deploy->has_execution_timeout);
    assert_int_equal(deploy->execution_timeout_ms, 8);
    assert_int_equal(job->termination_grace_ms, 9);
    assert_true(job->progress);
}

static void an_artifact_at_an_address_has_its_digest(void **state)
{
    struct fixture *fixture = *state;
    set_launch(fixture, COMMAND_DEPLOY);
    fixture->options.launch.url = "https://host/a.tgz";
    fixture->options.launch.sha256 = "00ff";
    assert_int_equal(round_trip(fixture, 0), 0);
    const struct job_artifact *artifact = &fixture->job.deploy->artifact;
    assert_int_equal(artifact->kind, JOB_ARTIFACT_URL);
    assert_string_equal(artifact->url, "https://host/a.tgz");
    assert_string_equal(artifact->sha256, "00ff");
}

static void a_relaunch_names_whose_launch_it_takes_and_its_input(void **state)
{
    struct fixture *fixture = *state;
    set_launch(fixture, COMMAND_RELAUNCH);
    fixture->options.launch.from = "e0";
    fixture->options.launch.stdin_file = "-";
    assert_int_equal(round_trip(fixture, 0), 0);
    const struct job_deploy *deploy = fixture->job.deploy;
    assert_int_equal(fixture->job.op, JOB_RELAUNCH);
    assert_string_equal(deploy->from_execution_id, "e0");
    assert_true(deploy->input.given && !deploy->input.is_file);
    assert_int_equal(deploy->input.data.size, 0);
    assert_int_equal(fixture->job.map->map.count, 7); /* from_execution_id, input */
}

static void a_cancel_has_its_grace(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.command = COMMAND_CANCEL;
    fixture->options.grace_ms = 1234;
    assert_int_equal(round_trip(fixture, 0), 0);
    assert_int_equal(fixture->job.op, JOB_CANCEL);
    assert_int_equal(fixture->job.termination_grace_ms, 1234);
}

static void a_stop_is_of_the_whole_sandbox(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.command = COMMAND_STOP;
    fixture->options.execution_id = NULL;
    assert_int_equal(round_trip(fixture, 0), 0);
    assert_int_equal(fixture->job.op, JOB_STOP);
    assert_int_equal(fixture->job.map->map.count, 4); /* v, id, op, sandbox */
}

static void a_destroy_has_its_attempts_and_their_pause(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.command = COMMAND_DESTROY;
    fixture->options.execution_id = NULL;
    fixture->options.attempts = JOB_DESTROY_MAX_ATTEMPTS;
    fixture->options.delay_ms = JOB_DESTROY_MAX_DELAY_MS;
    assert_int_equal(round_trip(fixture, 0), 0);
    assert_int_equal(fixture->job.op, JOB_DESTROY);
    assert_int_equal(fixture->job.destroy.attempts, JOB_DESTROY_MAX_ATTEMPTS);
    assert_int_equal(fixture->job.destroy.delay_ms, JOB_DESTROY_MAX_DELAY_MS);
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
        assert_int_equal(fixture->err.code, ERROR_CONFIGURATION);
        assert_non_null(strstr(fixture->err.message, "--artifact-dir"));
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
        TEST(the_least_deploy_leaves_all_defaults_to_the_worker),
        TEST(a_deploy_carries_all_that_was_asked),
        TEST(an_artifact_at_an_address_has_its_digest),
        TEST(a_relaunch_names_whose_launch_it_takes_and_its_input),
        TEST(a_cancel_has_its_grace),
        TEST(a_stop_is_of_the_whole_sandbox),
        TEST(a_destroy_has_its_attempts_and_their_pause),
        TEST(what_a_worker_could_not_read_is_refused_here),
        TEST(a_job_that_does_not_fit_is_an_error),
        cmocka_unit_test(commands_that_ask_no_sandbox_are_no_operation),
        cmocka_unit_test(ids_are_fit_for_a_key_and_never_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
