/* What attach does around its one command: what it refuses, when it looks, wakes and sends,
 * and what becomes of each way a command can end. */
#include "fake_sandbox.h"

#include <stdlib.h>

#include "execution/look.h"

struct scene {
    struct fake_sandbox fake;
    struct fake_call call;
};

static void scene_init(struct scene *scene)
{
    fake_init(&scene->fake);
    scene->call = (struct fake_call){.fake = &scene->fake, .returned = -2};
    scene->call.arena = arena_new(FAKE_ARENA_MAX);
    scene->call.request =
        (struct attach_request){.execution_id = "a1", .remote_dir = "/app"};
}

static void scene_done(struct scene *scene)
{
    arena_free(scene->call.arena);
}

static void expect_error(struct scene *scene, enum error_code code)
{
    scene->call.result = (struct attach_result){.remote_dir = "untouched"};
    fake_look(&scene->call);
    assert_int_equal(scene->call.returned, -1);
    assert_string_equal(error_code_name(scene->call.err.code), error_code_name(code));
    assert_string_equal(scene->call.result.remote_dir, "untouched");
}

static void expect_state(struct scene *scene, enum status_state state)
{
    fake_look(&scene->call);
    if (scene->call.returned != 0)
        fail_msg("%s", scene->call.err.message);
    assert_string_equal(status_state_name(scene->call.result.status.state),
                        status_state_name(state));
}

static void the_capability_is_checked_before_everything_else(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.provider.exec = NULL;
    scene.call.request =
        (struct attach_request){.execution_id = "../x", .remote_dir = "relative"};
    expect_error(&scene, ERROR_CAPABILITY_UNAVAILABLE);
    assert_string_equal(scene.call.err.message,
                        "Sandbox provider \"fake\" does not support executeCommand, which "
                        "is required for worker deploys.");
    assert_string_equal(scene.call.err.capability, "execute_command");
    assert_int_equal(scene.fake.probes, 0);
    scene_done(&scene);
}

static void a_bad_request_sends_nothing(void **state)
{
    (void)state;
    static const struct attach_request requests[] = {
        {.execution_id = NULL},
        {.execution_id = ".a"},
        {.execution_id = "a1", .remote_dir = ""},
        {.execution_id = "a1", .remote_dir = "app"},
        {.execution_id = "a1", .remote_dir = "/app/../etc"},
        {.execution_id = "a1", .remote_dir = "/.."},
        {.execution_id = "a1", .stdout_request = {.wanted = true}},
        {.execution_id = "a1",
         .stderr_request = {.wanted = true, .max_bytes = OUTPUT_LARGEST_MAX_BYTES + 1}},
    };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct scene scene;
        scene_init(&scene);
        scene.call.request = requests[i];
        expect_error(&scene, ERROR_INVALID_ARGUMENT);
        assert_true(scene.call.err.field[0] != '\0');
        assert_int_equal(scene.fake.probes + scene.fake.execs, 0);
        scene_done(&scene);
    }
}

static void the_provider_may_refuse_a_directory_that_was_given(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.directory_error = ERROR_INVALID_ARGUMENT;
    expect_error(&scene, ERROR_INVALID_ARGUMENT);
    assert_string_equal(scene.fake.directory, "/app");
    assert_int_equal(scene.fake.probes + scene.fake.execs, 0);
    scene_done(&scene);
}

static void one_look_and_one_command_make_an_attach(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.call.request.timeout_ms = 1234;
    scene.call.request.request_id = "job-9";
    expect_state(&scene, STATUS_RUNNING);
    assert_int_equal(scene.fake.probes, 1);
    assert_int_equal(scene.fake.execs, 1);
    assert_int_equal(scene.fake.wakes, 0);
    assert_int_equal(scene.fake.timeout_ms, 1234);
    assert_string_equal(scene.fake.request_id, "job-9");
    assert_true(scene.call.result.expires_at_ms == 1700000000000);
    assert_string_equal(scene.call.result.remote_dir, "/app");
    assert_false(scene.call.result.has_stdout || scene.call.result.has_stderr);
    assert_non_null(strstr(scene.fake.script, "' '/app' 'a1' 'raw' '' '' '' ''\n"));
    scene_done(&scene);
}

static void the_default_directory_is_resolved_by_the_same_command(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.call.request.remote_dir = NULL;
    fake_set_body(&scene.fake, "home /home/u\ndirectory missing\n");
    expect_state(&scene, STATUS_UNKNOWN);
    assert_string_equal(scene.call.result.remote_dir, "/home/u/mastra-app");
    assert_null(scene.fake.directory);
    fake_set_body(&scene.fake, "home \n");
    expect_error(&scene, ERROR_INVALID_ARGUMENT);
    assert_string_equal(scene.call.err.field, "remote_dir");
    scene_done(&scene);
}

static void output_and_status_are_one_observation(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.sandbox.traits = 0;
    scene.call.request.stdout_request = (struct output_request){true, 2, 1000};
    scene.call.request.stderr_request = (struct output_request){true, 0, 2};
    fake_set_body(&scene.fake, "directory directory\nproc yes\nstatus file\n"
                               "status-line exited|a1|0|\npid missing\ntoken missing\n"
                               "output stdout 5 3\nbGxv\n\noutput-end\n"
                               "output stderr 5 2\naGU=\n\noutput-end\n");
    expect_state(&scene, STATUS_EXITED);
    const struct output_piece *out = &scene.call.result.stdout_piece;
    const struct output_piece *err = &scene.call.result.stderr_piece;
    assert_true(scene.call.result.has_stdout && scene.call.result.has_stderr);
    assert_memory_equal(out->data, "llo", 3);
    assert_true(out->eof && !out->truncated && !out->interrupted);
    assert_int_equal(out->next_offset, 5);
    assert_memory_equal(err->data, "he", 2);
    assert_true(!err->eof && err->truncated && !err->interrupted);
    assert_int_equal(err->stream, OUTPUT_STDERR);
    assert_non_null(strstr(scene.fake.script, "'a1' 'base64' '2' '1000' '0' '2'\n"));
    /* Room for all of it, at four letters for three bytes, and for the facts. */
    assert_true(scene.fake.output_limit_bytes > 1002 * 4 / 3 + 40000);
    scene_done(&scene);
}

static void raw_output_is_not_copied(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    enum { SIZE = 400000 };
    char *body = malloc(SIZE + 200);
    assert_non_null(body);
    int head = snprintf(body, 200,
                        "directory directory\nproc yes\nstatus file\n"
                        "status-line exited|a1|0|\noutput stdout %d %d\n",
                        SIZE, SIZE);
    memset(body + head, 0, SIZE);
    (void)snprintf(body + head + SIZE, 20, "\noutput-end\n");
    scene.fake.body = body;
    scene.fake.body_bytes = (size_t)head + SIZE + strlen("\noutput-end\n");
    scene.call.request.stdout_request = (struct output_request){true, 0, SIZE};
    size_t before = arena_used(scene.call.arena);
    expect_state(&scene, STATUS_EXITED);
    assert_int_equal(scene.call.result.stdout_piece.size, SIZE);
    assert_true(arena_used(scene.call.arena) - before < SIZE + 40000);
    free(body);
    scene_done(&scene);
}

static void a_stopped_sandbox_is_an_answer_and_is_not_woken(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.state = SANDBOX_STOPPED;
    expect_state(&scene, STATUS_PROVIDER_UNAVAILABLE);
    assert_string_equal(scene.call.result.status.provider_state, "stopped");
    assert_null(scene.call.result.remote_dir);
    scene.call.request.must_run = true;
    scene.fake.state = SANDBOX_STOPPING;
    expect_error(&scene, ERROR_SANDBOX_STOPPED);
    scene.call.request.wake = true; /* which this provider cannot */
    scene.fake.provider.wake = NULL;
    expect_error(&scene, ERROR_SANDBOX_STOPPED);
    scene.call.request.must_run = false;
    expect_state(&scene, STATUS_PROVIDER_UNAVAILABLE);
    assert_int_equal(scene.fake.execs + scene.fake.wakes, 0);
    scene_done(&scene);
}

static void a_stopped_sandbox_is_woken_where_that_was_asked_for(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.state = SANDBOX_STOPPED;
    scene.call.request.wake = true;
    scene.call.request.must_run = true;
    expect_state(&scene, STATUS_RUNNING);
    assert_int_equal(scene.fake.wakes, 1);
    assert_int_equal(scene.fake.execs, 1);
    assert_true(scene.call.result.expires_at_ms == 1800000000000);
    expect_state(&scene, STATUS_RUNNING); /* running now: not woken again */
    assert_int_equal(scene.fake.wakes, 1);
    scene_done(&scene);
}

static void a_wake_that_fails_is_an_answer_unless_it_settles_the_matter(void **state)
{
    (void)state;
    static const enum error_code settling[] = {ERROR_SANDBOX_NOT_FOUND, ERROR_UNAUTHORIZED,
                                               ERROR_CANCELLED, ERROR_TIMEOUT};
    struct scene scene;
    scene_init(&scene);
    scene.fake.state = SANDBOX_STOPPED;
    scene.call.request.wake = true;
    scene.fake.wake_error = ERROR_PROVIDER_UNAVAILABLE;
    expect_state(&scene, STATUS_PROVIDER_UNAVAILABLE);
    assert_string_equal(scene.call.result.status.provider_state, "stopped");
    assert_string_equal(scene.call.result.status.message, "quota");
    for (size_t i = 0; i < sizeof(settling) / sizeof(settling[0]); i++) {
        scene.fake.wake_error = settling[i];
        expect_error(&scene, settling[i]);
    }
    scene.call.request.must_run = true;
    scene.fake.wake_error = ERROR_RATE_LIMITED;
    expect_error(&scene, ERROR_RATE_LIMITED);
    assert_int_equal(scene.fake.execs, 0);
    scene_done(&scene);
}

static void a_sandbox_that_is_gone_is_not_found(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.call.request.wake = true;
    scene.fake.state = SANDBOX_DESTROYED;
    expect_error(&scene, ERROR_SANDBOX_NOT_FOUND);
    scene.fake.state = SANDBOX_DESTROYING;
    expect_error(&scene, ERROR_SANDBOX_NOT_FOUND);
    assert_int_equal(scene.fake.execs + scene.fake.wakes, 0);
    scene_done(&scene);
}

static void a_view_that_fails_does_not_hide_an_answer(void **state)
{
    (void)state;
    static const enum error_code settling[] = {ERROR_SANDBOX_NOT_FOUND, ERROR_UNAUTHORIZED,
                                               ERROR_CANCELLED};
    struct scene scene;
    scene_init(&scene);
    scene.fake.probe_error = ERROR_RATE_LIMITED;
    expect_state(&scene, STATUS_RUNNING);
    assert_true(scene.call.result.expires_at_ms == -1);
    scene.fake.exec_error = ERROR_PROVIDER_UNAVAILABLE;
    expect_error(&scene, ERROR_PROVIDER_UNAVAILABLE);
    assert_int_equal(scene.fake.execs, 2);
    for (size_t i = 0; i < sizeof(settling) / sizeof(settling[0]); i++) {
        scene.fake.probe_error = settling[i];
        expect_error(&scene, settling[i]);
    }
    /* A command could start the machine: not unless that was asked for. */
    scene.fake.exec_error = ERROR_NONE;
    scene.fake.probe_error = ERROR_RATE_LIMITED;
    scene.fake.sandbox.traits |= TRAIT_EXEC_WAKES;
    expect_error(&scene, ERROR_RATE_LIMITED);
    assert_int_equal(scene.fake.execs, 2);
    scene.call.request.wake = true;
    expect_state(&scene, STATUS_RUNNING);
    scene_done(&scene);
}

static void looking_never_wakes_unasked(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.sandbox.traits |= TRAIT_PROBE_WAKES;
    expect_state(&scene, STATUS_RUNNING); /* by the command alone */
    scene.fake.sandbox.traits |= TRAIT_EXEC_WAKES;
    expect_state(&scene, STATUS_PROVIDER_UNAVAILABLE);
    assert_string_equal(scene.call.result.status.provider_state, "unknown");
    assert_non_null(scene.call.result.status.message);
    scene.call.request.must_run = true;
    expect_error(&scene, ERROR_CAPABILITY_UNAVAILABLE);
    assert_string_equal(scene.call.err.capability, "probe");
    assert_int_equal(scene.fake.execs, 1);
    scene.call.request.wake = true;
    expect_state(&scene, STATUS_RUNNING);
    assert_int_equal(scene.fake.probes, 0);
    scene_done(&scene);
}

static void each_end_of_the_command_has_its_error(void **state)
{
    (void)state;
    static const struct {
        enum exec_end end;
        int exit_code;
        enum error_code code;
    } rows[] = {
        {EXEC_EXITED, 0, ERROR_PROVIDER_UNAVAILABLE}, /* a cut answer */
        {EXEC_EXITED, 1, ERROR_COMMAND_FAILED},
        {EXEC_EXITED, 2, ERROR_COMMAND_FAILED},
        {EXEC_EXITED, 126, ERROR_CAPABILITY_UNAVAILABLE},
        {EXEC_EXITED, 127, ERROR_CAPABILITY_UNAVAILABLE},
        {EXEC_SIGNALED, 0, ERROR_PROVIDER_UNAVAILABLE},
        {EXEC_TIMED_OUT, 0, ERROR_TIMEOUT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene scene;
        scene_init(&scene);
        scene.fake.verbatim = "no such thing";
        scene.fake.error_text = "sh: boom";
        scene.fake.end = rows[i].end;
        scene.fake.exit_code = rows[i].exit_code;
        expect_error(&scene, rows[i].code);
        if (rows[i].exit_code != 0) {
            assert_int_equal(scene.call.err.exit_code, rows[i].exit_code);
            assert_string_equal(scene.call.err.detail, "sh: boom");
        }
        if (rows[i].code == ERROR_CAPABILITY_UNAVAILABLE)
            assert_string_equal(scene.call.err.capability, "execute_command");
        /* A whole answer stands however the command ended. */
        scene.fake.verbatim = NULL;
        expect_state(&scene, STATUS_RUNNING);
        scene_done(&scene);
    }
}

static void a_command_that_did_not_run_has_its_error(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.exec_error = ERROR_OUTCOME_UNKNOWN; /* looking again is safe */
    expect_error(&scene, ERROR_PROVIDER_UNAVAILABLE);
    assert_true(scene.call.err.retryable);
    scene.fake.exec_error = ERROR_TIMEOUT;
    expect_error(&scene, ERROR_TIMEOUT);
    scene.fake.exec_error = ERROR_COMMAND_FAILED;
    expect_error(&scene, ERROR_COMMAND_FAILED);
    scene.fake.exec_error_exit_code = 127;
    expect_error(&scene, ERROR_CAPABILITY_UNAVAILABLE);
    assert_string_equal(scene.call.err.capability, "execute_command");
    scene_done(&scene);
}

static void dropped_output_is_never_taken_for_an_answer(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.dropped_bytes = 1;
    expect_error(&scene, ERROR_COMMAND_FAILED);
    scene_done(&scene);
}

static void a_provider_with_short_scripts_refuses(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.provider.limits.max_script_bytes = 1000;
    expect_error(&scene, ERROR_INVALID_ARGUMENT);
    assert_int_equal(scene.fake.execs, 0);
    scene_done(&scene);
}

static void every_failed_allocation_is_a_clean_error(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.call.request.remote_dir = NULL;
    scene.call.request.stdout_request = (struct output_request){true, 0, 10};
    scene.fake.sandbox.traits = 0;
    fake_set_body(&scene.fake, "home /h\ndirectory directory\nproc yes\nstatus file\n"
                               "status-line exited|a1|143|SIG15\n"
                               "output stdout 1 1\nYQ==\n\noutput-end\n");
    int failures = 0;
    for (size_t room = 0; scene.call.returned != 0; room += 64) {
        arena_free(scene.call.arena);
        scene.call.arena = arena_new(room);
        fake_look(&scene.call);
        if (scene.call.returned == 0)
            break;
        failures++;
        assert_int_equal(scene.call.err.code, ERROR_INTERNAL);
    }
    assert_true(failures > 10);
    assert_string_equal(scene.call.result.status.signal, "SIGTERM");
    scene_done(&scene);
}

/* ------------------------------------------------------------------------------- info */

struct info_call {
    struct fake_sandbox *fake;
    struct arena *arena;
    struct info_result result;
    struct error err;
    int returned;
};

static void run_info(void *arg)
{
    struct info_call *call = arg;
    call->returned =
        attach_info(&call->fake->sandbox, call->arena, &call->result, &call->err);
}

static void info_needs_no_command_and_wakes_nothing(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    struct fake_sandbox fake;
    fake_init(&fake);
    fake.provider.exec = NULL;
    fake.state = SANDBOX_STOPPED;
    struct info_call call = {.fake = &fake, .arena = arena};
    support_run_task(run_info, &call);
    assert_int_equal(call.returned, 0);
    assert_int_equal(call.result.info.state, SANDBOX_STOPPED);
    assert_true(call.result.info.expires_at_ms == 1700000000000);
    fake.sandbox.traits |= TRAIT_PROBE_WAKES;
    support_run_task(run_info, &call);
    assert_int_equal(call.returned, 0);
    assert_int_equal(call.result.info.state, SANDBOX_UNKNOWN);
    assert_true(call.result.info.expires_at_ms == -1);
    assert_string_equal(call.result.info.provider_id, "fake-sandbox-1");
    assert_int_equal(fake.probes, 1);
    fake.sandbox.traits = 0;
    fake.state = SANDBOX_DESTROYED;
    support_run_task(run_info, &call);
    assert_int_equal(call.returned, -1);
    assert_int_equal(call.err.code, ERROR_SANDBOX_NOT_FOUND);
    fake.probe_error = ERROR_RATE_LIMITED;
    support_run_task(run_info, &call);
    assert_int_equal(call.err.code, ERROR_RATE_LIMITED);
    fake.provider.probe = NULL;
    support_run_task(run_info, &call);
    assert_int_equal(call.returned, 0);
    assert_int_equal(call.result.info.state, SANDBOX_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_capability_is_checked_before_everything_else),
        cmocka_unit_test(a_bad_request_sends_nothing),
        cmocka_unit_test(the_provider_may_refuse_a_directory_that_was_given),
        cmocka_unit_test(one_look_and_one_command_make_an_attach),
        cmocka_unit_test(the_default_directory_is_resolved_by_the_same_command),
        cmocka_unit_test(output_and_status_are_one_observation),
        cmocka_unit_test(raw_output_is_not_copied),
        cmocka_unit_test(a_stopped_sandbox_is_an_answer_and_is_not_woken),
        cmocka_unit_test(a_stopped_sandbox_is_woken_where_that_was_asked_for),
        cmocka_unit_test(a_wake_that_fails_is_an_answer_unless_it_settles_the_matter),
        cmocka_unit_test(a_sandbox_that_is_gone_is_not_found),
        cmocka_unit_test(a_view_that_fails_does_not_hide_an_answer),
        cmocka_unit_test(looking_never_wakes_unasked),
        cmocka_unit_test(each_end_of_the_command_has_its_error),
        cmocka_unit_test(a_command_that_did_not_run_has_its_error),
        cmocka_unit_test(dropped_output_is_never_taken_for_an_answer),
        cmocka_unit_test(a_provider_with_short_scripts_refuses),
        cmocka_unit_test(every_failed_allocation_is_a_clean_error),
        cmocka_unit_test(info_needs_no_command_and_wakes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
