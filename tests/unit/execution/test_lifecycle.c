/* Which failures of a destroy are worth another attempt, and what ends the waiting for it.
 * What the original answers is replayed by test_vectors.c. */
#include "fake_sandbox.h"

#include "execution/lifecycle.h"
#include "runtime/deadline.h"

struct scene {
    struct fake_sandbox fake;
    struct destroy_request request;
    struct arena *arena;
    uint64_t within_ms; /* 0: no deadline */
    struct destroy_result result;
    struct error err;
    int returned;
};

static void scene_init(struct scene *scene)
{
    *scene = (struct scene){.request = {3, 0}, .arena = arena_new(FAKE_ARENA_MAX)};
    fake_init(&scene->fake);
    scene->result.attempts = 77;
}

static void destroy(struct scene *scene)
{
    scene->returned = lifecycle_destroy(&scene->fake.sandbox, &scene->request, scene->arena,
                                        &scene->result, &scene->err);
}

static void run(void *arg)
{
    struct scene *scene = arg;
    if (scene->within_ms == 0) {
        destroy(scene);
        return;
    }
    struct deadline deadline;
    deadline_enter(&deadline, scene->within_ms);
    destroy(scene);
    deadline_leave(&deadline);
}

static void what_is_gone_counts_as_destroyed(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.destroy_error = ERROR_SANDBOX_NOT_FOUND;
    support_run_task(run, &scene);
    assert_int_equal(scene.returned, 0);
    assert_int_equal(scene.result.state, DESTROY_DESTROYED);
    assert_int_equal(scene.result.attempts, 1);
    assert_null(scene.result.message);
    arena_free(scene.arena);
}

static void what_no_attempt_can_mend_is_an_error_at_once(void **state)
{
    (void)state;
    static const enum error_code codes[] = {ERROR_UNAUTHORIZED, ERROR_INVALID_ARGUMENT};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct scene scene;
        scene_init(&scene);
        scene.fake.destroy_error = codes[i];
        support_run_task(run, &scene);
        assert_int_equal(scene.returned, -1);
        assert_int_equal(scene.err.code, codes[i]);
        assert_int_equal(scene.fake.destroys, 1);
        assert_int_equal(scene.result.attempts, 77);
        arena_free(scene.arena);
    }
}

static void a_deadline_ends_the_wait_for_the_next_attempt(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.failing_destroys = 9;
    scene.request.delay_ms = 3600000;
    scene.within_ms = 5;
    support_run_task(run, &scene);
    assert_int_equal(scene.returned, -1);
    assert_int_equal(scene.err.code, ERROR_TIMEOUT);
    assert_int_equal(scene.fake.destroys, 1);
    assert_int_equal(scene.result.attempts, 77);
    arena_free(scene.arena);
}

static void a_timeout_of_the_providers_own_leaves_time_for_another_attempt(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    scene.fake.destroy_error = ERROR_TIMEOUT;
    scene.within_ms = 600000;
    support_run_task(run, &scene);
    assert_int_equal(scene.returned, 0);
    assert_int_equal(scene.result.state, DESTROY_EXHAUSTED);
    assert_int_equal(scene.fake.destroys, 3);
    arena_free(scene.arena);
}

static void attempts_are_rounded_down_and_one_at_least(void **state)
{
    (void)state;
    static const struct {
        double asked;
        int made;
    } cases[] = {{-5, 1}, {0, 1}, {0.5, 1}, {1, 1}, {2.9, 2}, {100, 100}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct scene scene;
        scene_init(&scene);
        scene.fake.failing_destroys = 1000;
        scene.request.attempts = cases[i].asked;
        support_run_task(run, &scene);
        assert_int_equal(scene.returned, 0);
        assert_int_equal(scene.result.state, DESTROY_EXHAUSTED);
        assert_int_equal(scene.result.attempts, cases[i].made);
        assert_int_equal(scene.fake.destroys, cases[i].made);
        assert_string_equal(scene.result.message, "transient destroy failure");
        arena_free(scene.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_gone_counts_as_destroyed),
        cmocka_unit_test(what_no_attempt_can_mend_is_an_error_at_once),
        cmocka_unit_test(a_deadline_ends_the_wait_for_the_next_attempt),
        cmocka_unit_test(a_timeout_of_the_providers_own_leaves_time_for_another_attempt),
        cmocka_unit_test(attempts_are_rounded_down_and_one_at_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
