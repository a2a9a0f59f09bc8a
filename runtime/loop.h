/* The event loop of a process: a libuv loop and the tasks it runs. One thread, one loop.
 *
 * Each turn runs the tasks that are ready before and after the poll, and writes out the log
 * lines of that turn. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct task;
struct side;
struct http_pool;
struct child_watch;

struct task_list {
    struct task *first;
    struct task *last;
};

struct loop {
    uv_loop_t uv; /* its data member is the struct loop */
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t busy; /* active while tasks are ready, so that the poll does not block */
    struct task_list ready;
    struct task_list all;
    struct task *pool; /* ended tasks, their stacks warm, the last one first */
    struct side *home; /* the loop's own stack, as task.c switches to it */
    size_t live_count;
    size_t closing_count; /* timers of drained tasks whose close callback is due */
    uint64_t next_task_id;
    char scratch[16 * 1024]; /* a callback's own until it returns; never a task's */
    struct child_watch
        *child_watch;       /* process.c, without pidfds; NULL: nobody is watched */
    struct http_pool *http; /* made by the first request (http.h) */
};

/* A new loop. NULL: out of memory or of descriptors. */
struct loop *loop_new(void);

/* Frees the loop. Every task must have ended and every handle of others been closed. */
void loop_free(struct loop *loop);

/* Turns until the last task has ended. */
void loop_run(struct loop *loop);

/* The loop's clock in milliseconds, monotonic, taken once a turn. */
uint64_t loop_now_ms(const struct loop *loop);
