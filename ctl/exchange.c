/* Everything that an exchange waits for has its bound. */
#include "ctl/exchange.h"

#include <stdio.h>

#include "runtime/deadline.h"

/* Says more than that something took too long: what was sent, and who should have answered.
 */
static int explain(const struct session *session, const struct exchange_request *request,
                   const struct exchange *exchange, struct error *err)
{
    if (err->code == ERROR_QUEUE_UNAVAILABLE) {
        char place[440];
        (void)snprintf(place, sizeof(place), "Redis at %s", session->place);
        return error_wrap(err, place);
    }
    if (err->code != ERROR_TIMEOUT)
        return -1;
    if (!exchange->ticket.entry[0])
        return error_set(err, ERROR_TIMEOUT,
                         "Redis at %s did not answer within %llu ms; job %s may be queued "
                         "or not",
                         session->place, (unsigned long long)request->timeout_ms,
                         request->job_id);
    return error_set(err, ERROR_TIMEOUT,
                     "no answer to job %s (entry %s) within %llu ms; check that an attachd "
                     "runs for queue \"%.60s\" at %.60s%s",
                     request->job_id, exchange->ticket.entry,
                     (unsigned long long)request->timeout_ms, session->target->queue,
                     session->place,
                     request->expires ? "; nobody will run the job any more"
                                      : "; the job may still be run");
}

SUSPENDS static int enqueue_and_wait(struct session *session,
                                     const struct exchange_request *request,
                                     struct arena *arena, struct exchange *exchange,
                                     struct error *err)
{
    if (producer_enqueue(session->queue, request->job, request->job_bytes,
                         request->reply_to, &exchange->ticket, err) != 0)
        return -1;
    if (!request->waits)
        return 0;
    const struct producer_follow follow = {
        .job_id = request->job_id,
        .reply_to = request->reply_to,
        .on_progress = request->on_progress,
        .on_progress_arg = request->on_progress_arg,
    };
    struct producer_ticket reading = exchange->ticket;
    return producer_follow(session->queue, &follow, &reading, arena, &exchange->reply, err);
}

int exchange_in(struct session *session, const struct exchange_request *request,
                struct arena *arena, struct exchange *ret_exchange, struct error *err)
{
    struct deadline deadline;
    uint64_t margin_ms =
        request->has_effects ? EXCHANGE_EFFECTS_MARGIN_MS : EXCHANGE_MARGIN_MS;
    *ret_exchange = (struct exchange){.begun = true};
    deadline_enter(&deadline, request->timeout_ms + margin_ms);
    int failed = enqueue_and_wait(session, request, arena, ret_exchange, err);
    deadline_leave(&deadline);
    return failed ? explain(session, request, ret_exchange, err) : 0;
}

/* An exchange that is a session's only work. */
struct single {
    const struct exchange_request *request;
    struct arena *arena;
    struct exchange *exchange;
};

SUSPENDS static int run_single(struct session *session, void *arg, struct error *err)
{
    struct single *single = arg;
    return exchange_in(session, single->request, single->arena, single->exchange, err);
}

int exchange_run(const struct session_target *target,
                 const struct exchange_request *request, struct arena *arena,
                 struct exchange *ret_exchange, struct session_end *ret_end,
                 struct error *err)
{
    struct single single = {request, arena, ret_exchange};
    *ret_exchange = (struct exchange){0};
    return session_run(target, run_single, &single, ret_end, err);
}
