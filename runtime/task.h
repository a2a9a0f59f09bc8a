/* Stackful tasks: straight-line code that waits.
 *
 * A task is a function on a stack of its own, run by one loop. It gives the processor back
 * only in functions marked SUSPENDS. This module is the only one that knows about stacks.
 *
 * The rules that everything else leans on:
 *  1. Waking queues a task, it never runs it: task_wake() is safe inside any callback.
 *  2. Library calls are begun and completed on the loop's stack (task_await's `start`,
 *     task_on_loop); a task's stack only suspends and resumes.
 *  3. Tasks always run to their end. Cancel and deadline arrive as return values.
 *  4. A waiting function unregisters itself before it returns, on every path.
 *  5. Tasks never move between threads or loops.
 *  6. No libuv handle lives on a task's stack. */
#pragma once

#include "runtime/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct task;
struct deadline;

/* What log lines and SIGUSR1's list say of a task. The texts are lent for as long as the
 * task lives or until they are replaced; each may be NULL. */
struct task_context {
    const char *job;      /* job id */
    const char *op;       /* operation */
    const char *provider; /* provider's name as the job gave it */
};

/* Starts a task: run(arg) is called from the loop, later. `name` is lent for good. 0 or
 * -ENOMEM. */
NODISCARD int task_start(struct loop *loop, const char *name, void (*run)(void *arg),
                         void *arg);

/* The running task; NULL on the loop's own stack. */
struct task *task_self(void);
struct loop *task_loop(const struct task *task);
uint64_t task_id(const struct task *task);
struct task_context *task_context(struct task *task);
const struct task_context *task_context_of(const struct task *task);
const char *task_step(const struct task *task);
const char *task_name(const struct task *task);
uint64_t task_started_at_ms(const struct task *task);

/* Suspends the calling task. start(arg), which may be NULL, runs first, on the loop's
 * stack; it registers the wait and may already wake the task. `step` names the wait for
 * people.
 *
 * 0: woken. -ECANCELED: the task was cancelled. -ETIMEDOUT: its deadline has passed. In the
 * last two cases the wait may still be registered: the caller takes it back. When the task
 * is cancelled or late already at the call, start is not called. */
SUSPENDS NODISCARD int task_await(const char *step, void (*start)(void *arg), void *arg);

/* As task_await, but neither cancel nor deadline ends it: for waits that are known to end
 * and whose resources cannot be taken back (the thread pool, reaping a killed child). */
SUSPENDS void task_await_surely(const char *step, void (*start)(void *arg), void *arg);

/* Ends the current wait of the task, or the next one it enters through the await that is
 * about to suspend. Only from the loop's thread. */
void task_wake(struct task *task);

/* Runs fn(arg) on the loop's stack and returns when it has; does not suspend in between. On
 * the loop's stack it is a plain call. */
void task_on_loop(void (*fn)(void *arg), void *arg);

/* Every wait of the task, the present one included, returns -ECANCELED from now on, but for
 * those under a shielded deadline (deadline.h). */
void task_cancel(struct task *task);
bool task_is_cancelled(const struct task *task);

/* Waits for at least `ms` milliseconds; with 0, lets every task that is ready run first. 0,
 * -ECANCELED or -ETIMEDOUT (an outer deadline). */
SUSPENDS NODISCARD int task_sleep(uint64_t ms);

/* Runs fn(arg) in the thread pool and waits for it; it cannot be taken back. 0 or -ENOMEM.
 */
SUSPENDS NODISCARD int task_work(const char *step, void (*fn)(void *arg), void *arg);

/* Calls visit for every live task of the loop. */
void task_each(struct loop *loop, void (*visit)(const struct task *task, void *arg),
               void *arg);
size_t task_count(const struct loop *loop);

#ifdef ATTACHD_TEST_HOOKS
/* Builds with the option ATTACHD_TEST_HOOKS only: calls hook whenever a task begins to wait
 * and, with `ended`, when it goes on. NULL: none. */
void task_set_wait_hook(void (*hook)(const struct task *task, const char *step,
                                     bool ended));
#endif

/* For loop.c: runs what is ready, at most one batch; true when more is ready. */
bool task_run_ready(struct loop *loop);
/* For loop.c: closes the idle tasks of the pool. */
void task_pool_drain(struct loop *loop);
/* For deadline.c: the innermost deadline of the task, and its timer. */
struct deadline *task_deadline(const struct task *task);
void task_set_deadline(struct task *task, struct deadline *deadline);
