/* One exchange with a queue: a job is enqueued and, where wanted, its answer awaited. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/address.h"
#include "queue/producer.h"
#include "queue/reply.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

enum {
    EXCHANGE_MARGIN_MS = 2000, /* longer than the job's own time, so that the answer
                                  deadline_exceeded still arrives */
    EXCHANGE_CONNECT_MS = 5000
};

struct exchange_request {
    struct address address;
    const char *queue;
    const void *job;
    size_t job_bytes;
    const char *job_id;
    const char *reply_to; /* NULL: the default stream */
    bool waits;
    bool expires;        /* the job's deadline ends with timeout_ms */
    uint64_t timeout_ms; /* the margin comes on top */
};

struct exchange {
    struct producer_ticket ticket; /* of the job, once it is on the stream */
    struct reply reply;            /* where it was waited for */
    /* A name is still being looked up in the thread pool, which nothing can take back: the
     * process has to be left with _exit(), or it would wait for the resolver. */
    bool is_stuck;
};

/* Connects, enqueues, waits, disconnects, on a loop of its own; never longer than
 * timeout_ms and the margin, and no longer than EXCHANGE_CONNECT_MS, nor timeout_ms, for a
 * connection. The reply lives in the arena. -1: ERROR_TIMEOUT or ERROR_QUEUE_UNAVAILABLE
 * where there is no answer, with a message that says what to look at and holds no password;
 * internal, configuration or malformed_job (the answer is none) else. ret_exchange is
 * always set. */
NODISCARD int exchange_run(const struct exchange_request *request, struct arena *arena,
                           struct exchange *ret_exchange, struct error *err);
