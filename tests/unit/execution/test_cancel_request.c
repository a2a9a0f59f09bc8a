/* What cancel does around its one command: what it refuses, how long the command may take,
 * and what becomes of each way it can end. */
#include "fake_sandbox.h"

#include <math.h>

#include "execution/cancel.h"

struct scene {
    struct fake_sandbox fake;
    struct arena *arena;
    struct cancel_request request;
    struct status status;
    struct error err;
    int returned;
};

static void scene_init(struct scene *scene)
{
    *scene = (struct scene){.arena = arena_new(FAKE_ARENA_MAX)};
    fake_init(&scene->fake);
    scene->request = (struct cancel_request){
        .execution_id = "a1", .remote_dir = "/app", .grace_ms = 5000};
}

static void scene_done(struct scene *scene)
{
    arena_free(scene->arena);
}

static void run(void *arg)
{
    struct scene *scene = arg;
    scene->err = (struct error){0};
    scene->returned = cancel_execution(&scene->fake.sandbox, &scene->request, scene->arena,
                                       &scene->status, &scene->err);
}

static void expect_error(struct scene *scene, enum error_code code)
{
    scene->status = (struct status){.reason = "untouched"};
    support_run_task(run, scene);
    assert_int_equal(scene->returned, -1);
    assert_string_equal(error_code_name(scene->err.code), error_code_name(code));
    assert_string_equal(scene->status.reason, "untouched");
}

static void expect_state(struct scene *scene, enum status_state state)
{
    support_run_task(run, scene);
    if (scene->returned != 0)
        fail_msg("%s", scene->err.message);
    assert_string_equal(status_state_name(scene->status.state), status_state_name(state));
}

static void a_bad_request_sends_nothing_and_the_capability_comes_first(void **state)
{
    (void)state;
    static const struct {
        struct cancel_request request;
        const char *field;
    } rows[] = {
        {{.execution_id = "../x", .grace_ms = 5000}, "execution_id"},
        {{.execution_id = "a1", .remote_dir = "app", .grace_ms = 5000}, "remote_dir"},
        {{.execution_id = "a1", .grace_ms = 0}, "termination_grace_ms"},
        {{.execution_id = "a1", .grace_ms = NAN}, "termination_grace_ms"},
        {{.execution_id = "a1", .grace_ms = 1e300}, "termination_grace_ms"},
        {{.execution_id = "a1", .grace_ms = 5000, .attempt_ms = 14999}, "timeout_ms"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene scene;
        scene_init(&scene);
        scene.request = rows[i].request;
        expect_error(&scene, ERROR_INVALID_ARGUMENT);
        assert_string_equal(scene.err.field, rows[i].field);
        scene.fake.provider.exec = NULL;
        expect_error(&scene, ERROR_CAPABILITY_UNAVAILABLE);
        assert_int_equal(scene.fake.probes + scene.fake.execs, 0);
        scene_done(&scene);
    }
}

static void the_command_has_the_grace_and_ten_seconds(void **state)
{
    (void)state;
    static const struct {
        double grace_ms;
        const char *ticks;
        uint64_t timeout_ms;
    } rows[] = {{5000, "' '500'\n", 15000},
                {1, "' '1'\n", 10001},
                {0.5, "' '1'\n", 10001},
                {1001, "' '101'\n", 11001}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene scene;
        scene_init(&scene);
        scene.request.grace_ms = rows[i].grace_ms;
        scene.request.attempt_ms = rows[i].timeout_ms;
        scene.request.request_id = "job-9";
        expect_state(&scene, STATUS_RUNNING);
        assert_non_null(strstr(scene.fake.script, rows[i].ticks));
        assert_int_equal(scene.fake.timeout_ms, rows[i].timeout_ms);
        assert_string_equal(scene.fake.request_id, "job-9");
        assert_int_equal(scene.fake.probes, 1);
        assert_int_equal(scene.fake.execs, 1);
        scene_done(&scene);
    }
}

static void the_last_look_counts(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    fake_set_body(&scene.fake, "directory directory\nproc yes\nstatus file\n"
                               "status-line running|a1\npid file\npid-line 77\n"
                               "token file\ntoken-line 5\nprocess S 5 5\nsignalable yes\n"
                               "again\ndirectory directory\nproc yes\nstatus file\n"
                               "status-line cancelled|a1|TERM\npid missing\n"
                               "token missing\n");
    expect_state(&scene, STATUS_CANCELLED);
    assert_string_equal(scene.status.signal, "TERM");
    fake_set_body(&scene.fake, "directory directory\nagain\n"); /* cut */
    expect_error(&scene, ERROR_PROVIDER_UNAVAILABLE);
    scene_done(&scene);
}

static void a_stopped_sandbox_is_an_error_unless_it_may_be_woken(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.state = SANDBOX_STOPPED;
    expect_error(&scene, ERROR_SANDBOX_STOPPED);
    assert_int_equal(scene.fake.wakes + scene.fake.execs, 0);
    scene.request.wake = true;
    expect_state(&scene, STATUS_RUNNING);
    assert_int_equal(scene.fake.wakes, 1);
    scene_done(&scene);
}

static void an_unknown_outcome_is_settled_by_an_end_only(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.exec_error = ERROR_OUTCOME_UNKNOWN;
    expect_error(&scene, ERROR_OUTCOME_UNKNOWN);
    assert_int_equal(scene.fake.execs, 2);
    scene.fake.execs = 0;
    scene.fake.failing_execs = 1;
    expect_error(&scene, ERROR_OUTCOME_UNKNOWN); /* it runs on */
    assert_int_equal(scene.fake.execs, 2);
    scene.fake.execs = 0;
    fake_set_body(&scene.fake, "directory directory\nproc yes\nstatus file\n"
                               "status-line cancelled|a1|TERM\npid missing\n"
                               "token missing\n");
    expect_state(&scene, STATUS_CANCELLED);
    assert_int_equal(scene.fake.execs, 2);
    scene_done(&scene);
}

static void each_end_of_the_command_has_its_error(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.verbatim = "nothing";
    scene.fake.end = EXEC_TIMED_OUT;
    expect_error(&scene, ERROR_TIMEOUT);
    assert_true(scene.err.retryable);
    scene.fake.end = EXEC_EXITED;
    scene.fake.exit_code = 2;
    expect_error(&scene, ERROR_COMMAND_FAILED);
    assert_string_equal(scene.err.message,
                        "cancelling the execution failed with exit code 2");
    scene.fake.exit_code = 127;
    expect_error(&scene, ERROR_CAPABILITY_UNAVAILABLE);
    scene.fake.dropped_bytes = 1;
    expect_error(&scene, ERROR_COMMAND_FAILED);
    scene_done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_request_sends_nothing_and_the_capability_comes_first),
        cmocka_unit_test(the_command_has_the_grace_and_ten_seconds),
        cmocka_unit_test(the_last_look_counts),
        cmocka_unit_test(a_stopped_sandbox_is_an_error_unless_it_may_be_woken),
        cmocka_unit_test(an_unknown_outcome_is_settled_by_an_end_only),
        cmocka_unit_test(each_end_of_the_command_has_its_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
