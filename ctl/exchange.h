/* One exchange with a queue: a job is enqueued and, where wanted, its answer awaited. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/session.h"
#include "queue/producer.h"
#include "queue/reply.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

enum {
    /* How much longer than the job's own time is waited, so that the answer
     * deadline_exceeded still arrives: what changes a sandbox tidies up before. */
    EXCHANGE_MARGIN_MS = 2000,
    EXCHANGE_EFFECTS_MARGIN_MS = 12000,
};

struct exchange_request {
    const void *job;
    size_t job_bytes;
    const char *job_id;
    const char *reply_to; /* NULL: the default stream */
    bool waits;
    bool expires;        /* the job's deadline ends with timeout_ms */
    uint64_t timeout_ms; /* the margin comes on top */
    bool has_effects;    /* it changes something in the sandbox, once for its id */
    /* As struct producer_follow has it; NULL: progress is not looked at. */
    void (*on_progress)(void *arg, const struct progress_entry *entry);
    void *on_progress_arg;
};

struct exchange {
    bool begun;                    /* the job may be on the stream */
    struct producer_ticket ticket; /* of the job, once it is on the stream */
    struct reply reply;            /* where it was waited for */
};

/* Enqueues and waits, never longer than timeout_ms and the margin. The reply lives in the
 * arena. -1: timeout, queue_unavailable or cancelled where there is no answer, with a
 * message that says what to look at and holds no password; internal or malformed_job (the
 * answer is none) else. ret_exchange is always set. */
SUSPENDS NODISCARD int exchange_in(struct session *session,
                                   const struct exchange_request *request,
                                   struct arena *arena, struct exchange *ret_exchange,
                                   struct error *err);

/* The same in a session of its own. -1 as session_run and exchange_in. */
NODISCARD int exchange_run(const struct session_target *target,
                           const struct exchange_request *request, struct arena *arena,
                           struct exchange *ret_exchange, struct session_end *ret_end,
                           struct error *err);
