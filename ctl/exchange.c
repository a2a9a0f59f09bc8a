/* The exchange is one task; everything it waits for has its bound. */
#include "ctl/exchange.h"

#include <stdio.h>

#include "queue/queue.h"
#include "runtime/deadline.h"
#include "runtime/loop.h"
#include "runtime/task.h"

/* What the task works on. */
struct running {
    const struct exchange_request *request;
    struct exchange *exchange;
    struct arena *arena;
    struct loop *loop;
    struct queue *queue;
    char place[400]; /* where Redis is, for people */
    char why[200];   /* the connection is not up; empty: nothing was said yet */
    int result;
    struct error *err;
};

static void on_change(void *arg, bool is_up, const char *why)
{
    struct running *running = arg;
    (void)snprintf(running->why, sizeof(running->why), "%s", is_up ? "" : why);
}

SUSPENDS static int connect_to_redis(struct running *running)
{
    struct deadline deadline;
    uint64_t timeout_ms = running->request->timeout_ms;
    deadline_enter(&deadline,
                   timeout_ms < EXCHANGE_CONNECT_MS ? timeout_ms : EXCHANGE_CONNECT_MS);
    int result = connection_wait_up(running->queue->commands);
    deadline_leave(&deadline);
    if (result == 0)
        return 0;
    return error_set(running->err, ERROR_QUEUE_UNAVAILABLE,
                     "Redis at %s cannot be reached (%s); check that it runs there and "
                     "that --redis-url or ATTACHD_REDIS_URL is right, user and password "
                     "included",
                     running->place, running->why[0] ? running->why : "no answer in time");
}

/* Says more than that something took too long: what was sent, and who should have answered.
 */
static int explain(const struct running *running)
{
    const struct exchange_request *request = running->request;
    struct error *err = running->err;
    if (err->code == ERROR_QUEUE_UNAVAILABLE) {
        char place[440];
        (void)snprintf(place, sizeof(place), "Redis at %s", running->place);
        return error_wrap(err, place);
    }
    if (err->code != ERROR_TIMEOUT)
        return -1;
    if (!running->exchange->ticket.entry[0])
        return error_set(err, ERROR_TIMEOUT,
                         "Redis at %s did not answer within %llu ms; job %s may be queued "
                         "or not",
                         running->place, (unsigned long long)request->timeout_ms,
                         request->job_id);
    return error_set(err, ERROR_TIMEOUT,
                     "no answer to job %s (entry %s) within %llu ms; check that an attachd "
                     "runs for queue \"%.60s\" at %.60s%s",
                     request->job_id, running->exchange->ticket.entry,
                     (unsigned long long)request->timeout_ms, request->queue,
                     running->place,
                     request->expires ? "; nobody will run the job any more"
                                      : "; the job may still be run");
}

SUSPENDS static int enqueue_and_wait(struct running *running)
{
    const struct exchange_request *request = running->request;
    struct producer_ticket *ticket = &running->exchange->ticket;
    if (connect_to_redis(running) != 0)
        return -1;
    if (producer_enqueue(running->queue, request->job, request->job_bytes,
                         request->reply_to, ticket, running->err) != 0)
        return explain(running);
    if (!request->waits)
        return 0;
    struct producer_ticket reading = *ticket;
    if (producer_wait(running->queue, request->job_id, request->reply_to, &reading,
                      running->arena, &running->exchange->reply, running->err) != 0)
        return explain(running);
    return 0;
}

static void run(void *arg)
{
    struct running *running = arg;
    struct deadline deadline;
    const struct queue_options options = {
        .address = running->request->address,
        .queue = running->request->queue,
        .on_change = on_change,
        .on_change_arg = running,
    };
    if (queue_open(running->loop, &options, false, &running->queue, running->err) != 0)
        return;
    deadline_enter(&deadline, running->request->timeout_ms + EXCHANGE_MARGIN_MS);
    running->result = enqueue_and_wait(running);
    deadline_leave(&deadline);
    queue_free(running->queue);
}

/* One turn closes what was being closed; what is alive then is a lookup. */
static bool is_stuck(struct loop *loop)
{
    (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
    return uv_loop_alive(&loop->uv);
}

int exchange_run(const struct exchange_request *request, struct arena *arena,
                 struct exchange *ret_exchange, struct error *err)
{
    struct error unread;
    struct running running = {.request = request,
                              .exchange = ret_exchange,
                              .arena = arena,
                              .result = -1,
                              .err = err ? err : &unread};
    *ret_exchange = (struct exchange){0};
    address_describe(&request->address, running.place, sizeof(running.place));
    running.loop = loop_new();
    if (!running.loop)
        return error_set_memory(err, "the event loop");
    if (task_start(running.loop, "exchange", run, &running) == 0)
        loop_run(running.loop);
    else
        (void)error_set_memory(err, "a task");
    ret_exchange->is_stuck = is_stuck(running.loop);
    if (!ret_exchange->is_stuck)
        loop_free(running.loop);
    return running.result;
}
