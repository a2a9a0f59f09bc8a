/* The rules of task.h, one test each. */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/deadline.h"
#include "runtime/event.h"
#include "runtime/loop.h"
#include "runtime/task.h"

struct trace {
    char text[256];
    struct event event;
    int result;
    int second_result;
    struct task *other;
    struct loop *loop;
};

static void note(struct trace *trace, const char *text)
{
    strncat(trace->text, text, sizeof(trace->text) - strlen(trace->text) - 1);
}

static void waiter(void *arg)
{
    struct trace *trace = arg;
    trace->other = task_self();
    note(trace, "w");
    trace->result = event_wait(&trace->event, "wait");
    note(trace, "W");
}

static void wake_and_go_on(void *arg)
{
    struct trace *trace = arg;
    (void)task_start(task_loop(task_self()), "waiter", waiter, trace);
    (void)task_sleep(1);
    event_signal(&trace->event);
    note(trace, "s");
    (void)task_sleep(1);
    note(trace, "e");
}

static void waking_queues_a_task_and_never_runs_it(void **state)
{
    (void)state;
    struct trace trace = {.result = -1};
    support_run_task(wake_and_go_on, &trace);
    assert_string_equal(trace.text, "wsWe");
    assert_int_equal(trace.result, 0);
}

static void cancel_other(void *arg)
{
    struct trace *trace = arg;
    (void)task_start(task_loop(task_self()), "waiter", waiter, trace);
    (void)task_sleep(1);
    task_cancel(trace->other);
    (void)task_sleep(1);
    event_broadcast(&trace->event);
}

static void cancel_arrives_as_a_result(void **state)
{
    (void)state;
    struct trace trace = {0};
    support_run_task(cancel_other, &trace);
    assert_int_equal(trace.result, -ECANCELED);
    assert_null(trace.event.first);
}

static void wait_with_deadlines(void *arg)
{
    struct trace *trace = arg;
    struct deadline outer;
    struct deadline inner;
    deadline_enter(&outer, 5);
    deadline_enter(&inner, 60000);
    trace->result = event_wait(&trace->event, "wait");
    deadline_leave(&inner);
    trace->second_result = task_sleep(60000);
    deadline_leave(&outer);
}

static void the_tightest_deadline_counts(void **state)
{
    (void)state;
    struct trace trace = {0};
    support_run_task(wait_with_deadlines, &trace);
    assert_int_equal(trace.result, -ETIMEDOUT);
    assert_int_equal(trace.second_result, -ETIMEDOUT);
}

static void wait_shielded(void *arg)
{
    struct trace *trace = arg;
    struct deadline outer;
    struct deadline shield;
    task_cancel(task_self());
    deadline_enter(&outer, 0);
    trace->result = task_sleep(1);
    deadline_enter_shielded(&shield, 1000);
    trace->second_result = task_sleep(2);
    deadline_leave(&shield);
    deadline_leave(&outer);
}

static void a_shield_hides_cancel_and_outer_deadlines(void **state)
{
    (void)state;
    struct trace trace = {0};
    support_run_task(wait_shielded, &trace);
    assert_int_equal(trace.result, -ECANCELED);
    assert_int_equal(trace.second_result, 0);
}

static void note_stack(void *arg)
{
    note(arg, task_self() ? "task" : "loop");
}

static void call_on_loop(void *arg)
{
    note(arg, "<");
    task_on_loop(note_stack, arg);
    note(arg, ">");
}

static void task_on_loop_runs_on_the_loops_stack(void **state)
{
    (void)state;
    struct trace trace = {0};
    support_run_task(call_on_loop, &trace);
    assert_string_equal(trace.text, "<loop>");
}

static void blocking(void *arg)
{
    struct trace *trace = arg;
    note(trace, "b");
}

static void do_work(void *arg)
{
    struct trace *trace = arg;
    task_cancel(task_self());
    trace->result = task_work("work", blocking, trace);
    note(trace, "d");
}

static void work_in_the_pool_ends_before_the_task_goes_on_even_when_cancelled(void **state)
{
    (void)state;
    struct trace trace = {.result = -1};
    support_run_task(do_work, &trace);
    assert_string_equal(trace.text, "bd");
    assert_int_equal(trace.result, 0);
}

static void count_down(void *arg)
{
    int *left = arg;
    for (int i = 0; i < 3; i++)
        (void)task_sleep(0);
    (*left)--;
}

static void start_many(void *arg)
{
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++)
            (void)task_start(task_loop(task_self()), "many", count_down, arg);
        (void)task_sleep(2);
    }
}

static void thousands_of_tasks_run_to_their_end(void **state)
{
    (void)state;
    int left = 3000;
    support_run_task(start_many, &left);
    assert_int_equal(left, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waking_queues_a_task_and_never_runs_it),
        cmocka_unit_test(cancel_arrives_as_a_result),
        cmocka_unit_test(the_tightest_deadline_counts),
        cmocka_unit_test(a_shield_hides_cancel_and_outer_deadlines),
        cmocka_unit_test(task_on_loop_runs_on_the_loops_stack),
        cmocka_unit_test(work_in_the_pool_ends_before_the_task_goes_on_even_when_cancelled),
        cmocka_unit_test(thousands_of_tasks_run_to_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
