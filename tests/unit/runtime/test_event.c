/* Events: whoever waited longest is woken first, and nobody stays on the list. */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/deadline.h"
#include "runtime/event.h"
#include "runtime/loop.h"
#include "runtime/task.h"

enum { WAITERS = 4 };

struct scene {
    struct event event;
    struct task *tasks[WAITERS];
    int results[WAITERS];
    int count;
    char order[32];
};

static void wait_for_it(void *arg)
{
    struct scene *scene = arg;
    int index = scene->count++;
    char name[2] = {(char)('a' + index), '\0'};
    scene->tasks[index] = task_self();
    scene->results[index] = event_wait(&scene->event, "the event");
    strncat(scene->order, name, sizeof(scene->order) - strlen(scene->order) - 1);
}

static void start_waiters(struct scene *scene)
{
    for (int i = 0; i < WAITERS; i++)
        (void)task_start(task_loop(task_self()), "waiter", wait_for_it, scene);
    while (scene->count < WAITERS)
        (void)task_sleep(1);
}

static void note(struct scene *scene)
{
    (void)task_sleep(1); /* those that were woken run before a timer */
    strncat(scene->order, "|", sizeof(scene->order) - strlen(scene->order) - 1);
}

static void signal_then_broadcast(void *arg)
{
    struct scene *scene = arg;
    event_signal(&scene->event); /* nobody waits: it is not kept */
    start_waiters(scene);
    note(scene);
    event_signal(&scene->event);
    note(scene);
    event_signal(&scene->event);
    note(scene);
    event_broadcast(&scene->event);
}

static void a_signal_wakes_the_one_that_waited_longest(void **state)
{
    (void)state;
    struct scene scene = {0};
    support_run_task(signal_then_broadcast, &scene);
    assert_string_equal(scene.order, "|a|b|cd");
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(scene.results[i], 0);
    assert_null(scene.event.first);
    assert_null(scene.event.last);
}

static void cancel_the_middle(void *arg)
{
    struct scene *scene = arg;
    start_waiters(scene);
    task_cancel(scene->tasks[1]);
    note(scene);
    task_cancel(scene->tasks[3]);
    note(scene);
    event_broadcast(&scene->event);
}

static void a_cancelled_waiter_takes_itself_off_the_list(void **state)
{
    (void)state;
    struct scene scene = {0};
    support_run_task(cancel_the_middle, &scene);
    assert_string_equal(scene.order, "b|d|ac");
    assert_int_equal(scene.results[0], 0);
    assert_int_equal(scene.results[1], -ECANCELED);
    assert_int_equal(scene.results[3], -ECANCELED);
    assert_null(scene.event.first);
    assert_null(scene.event.last);
}

static void signal_and_cancel_at_once(void *arg)
{
    struct scene *scene = arg;
    start_waiters(scene);
    event_signal(&scene->event);
    task_cancel(scene->tasks[0]); /* it has been woken: the signal is not lost */
    task_cancel(scene->tasks[1]);
    event_signal(&scene->event); /* still on the list: it gets the signal */
    note(scene);
    event_broadcast(&scene->event);
}

static void a_signal_that_came_first_counts(void **state)
{
    (void)state;
    struct scene scene = {0};
    support_run_task(signal_and_cancel_at_once, &scene);
    assert_string_equal(scene.order, "ab|cd");
    assert_int_equal(scene.results[0], 0);
    assert_int_equal(scene.results[1], 0);
    assert_null(scene.event.first);
}

static void wait_late(void *arg)
{
    struct scene *scene = arg;
    struct deadline deadline;
    deadline_enter(&deadline, 5);
    wait_for_it(scene);
    wait_for_it(scene); /* late already: it does not even wait */
    deadline_leave(&deadline);
}

static void a_deadline_ends_the_wait(void **state)
{
    (void)state;
    struct scene scene = {0};
    support_run_task(wait_late, &scene);
    assert_int_equal(scene.results[0], -ETIMEDOUT);
    assert_int_equal(scene.results[1], -ETIMEDOUT);
    assert_null(scene.event.first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_wakes_the_one_that_waited_longest),
        cmocka_unit_test(a_cancelled_waiter_takes_itself_off_the_list),
        cmocka_unit_test(a_signal_that_came_first_counts),
        cmocka_unit_test(a_deadline_ends_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
