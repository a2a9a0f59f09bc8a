/* The work is one task; the first SIGINT cancels it. */
#include "ctl/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "runtime/deadline.h"
#include "runtime/loop.h"

/* What the task works on. */
struct running {
    struct session session;
    struct session_end *end;
    int (*work)(struct session *session, void *arg, struct error *err);
    void *arg;
    struct loop *loop;
    struct task *task;      /* while it runs */
    uv_signal_t *interrupt; /* NULL: SIGINT does what it does */
    char why[200];          /* the connection is not up; empty: nothing was said yet */
    int result;
    struct error *err;
};

static void on_interrupt(uv_signal_t *handle, int number)
{
    struct running *running = handle->data;
    (void)number;
    running->end->is_interrupted = true;
    if (running->task)
        task_cancel(running->task);
}

static void on_interrupt_closed(uv_handle_t *handle)
{
    free(handle);
}

/* Where memory is short, SIGINT ends the process without a word. */
static void begin_interrupt(struct running *running)
{
    uv_signal_t *handle = calloc(1, sizeof(*handle));
    if (!handle)
        return;
    (void)uv_signal_init(&running->loop->uv, handle);
    handle->data = running;
    (void)uv_signal_start_oneshot(handle, on_interrupt, SIGINT);
    running->interrupt = handle;
}

static void on_change(void *arg, bool is_up, const char *why)
{
    struct running *running = arg;
    (void)snprintf(running->why, sizeof(running->why), "%s", is_up ? "" : why);
}

SUSPENDS static int connect_to_redis(struct running *running)
{
    const struct session *session = &running->session;
    uint64_t timeout_ms = session->target->connect_ms;
    struct deadline deadline;
    deadline_enter(&deadline,
                   timeout_ms < SESSION_CONNECT_MS ? timeout_ms : SESSION_CONNECT_MS);
    int result = connection_wait_up(session->queue->commands);
    deadline_leave(&deadline);
    if (result == 0)
        return 0;
    return error_set(running->err, ERROR_QUEUE_UNAVAILABLE,
                     "Redis at %s cannot be reached (%s); check that it runs there and "
                     "that --redis-url or ATTACHD_REDIS_URL is right, user and password "
                     "included",
                     session->place, running->why[0] ? running->why : "no answer in time");
}

static void run(void *arg)
{
    struct running *running = arg;
    struct session *session = &running->session;
    const struct queue_options options = {
        .address = session->target->address,
        .queue = session->target->queue,
        .on_change = on_change,
        .on_change_arg = running,
    };
    running->task = task_self();
    if (running->end->is_interrupted)
        task_cancel(running->task);
    if (queue_open(running->loop, &options, false, &session->queue, running->err) == 0) {
        if (connect_to_redis(running) == 0)
            running->result = running->work(session, running->arg, running->err);
        queue_free(session->queue);
    }
    running->task = NULL;
}

/* One turn closes what was being closed; what is alive then is a lookup. */
static bool is_stuck(struct running *running)
{
    if (running->interrupt)
        uv_close((uv_handle_t *)running->interrupt, on_interrupt_closed);
    (void)uv_run(&running->loop->uv, UV_RUN_NOWAIT);
    return uv_loop_alive(&running->loop->uv);
}

int session_run(const struct session_target *target,
                int (*work)(struct session *session, void *arg, struct error *err),
                void *arg, struct session_end *ret_end, struct error *err)
{
    struct error unread;
    struct running running = {.session = {.target = target},
                              .end = ret_end,
                              .work = work,
                              .arg = arg,
                              .result = -1,
                              .err = err ? err : &unread};
    *ret_end = (struct session_end){0};
    address_describe(&target->address, running.session.place,
                     sizeof(running.session.place));
    running.loop = loop_new();
    if (!running.loop)
        return error_set_memory(err, "the event loop");
    begin_interrupt(&running);
    if (task_start(running.loop, "session", run, &running) == 0)
        loop_run(running.loop);
    else
        (void)error_set_memory(err, "a task");
    ret_end->is_stuck = is_stuck(&running);
    if (!ret_end->is_stuck)
        loop_free(running.loop);
    return running.result;
}
