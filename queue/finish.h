/* Ending a delivery: a reply, or a dead letter, together with taking the entry off the
 * queue, in one step that first checks that the delivery is still ours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "queue/lease.h"
#include "queue/queue.h"
#include "queue/reply.h"

enum finish {
    FINISH_DONE,
    FINISH_FENCED,       /* the delivery is not ours any more: the outcome was dropped */
    FINISH_UNANSWERABLE, /* the reply stream's key holds something else; nothing was changed
                          */
};

struct finish_reply {
    const char *job_id;
    const char *reply_to; /* NULL: the default stream */
    bool ok;
    const char *data; /* the reply's bytes */
    size_t size;
    const struct reply_outcome *outcome; /* what later entries of the job id are told; NULL:
                                            they run again, or are told what an
                                            earlier one came to */
};

/* Sends it until Redis has said how it went: over lost answers, reconnects, and times when
 * Redis is not well, for as long as the lease is live. -1: cancelled, or refused for good
 * (queue_unavailable); the entry then stays pending and is recovered. */
SUSPENDS NODISCARD int finish_with_reply(struct queue *queue, const struct lease *lease,
                                         const struct finish_reply *reply,
                                         enum finish *ret_finish, struct error *err);

struct finish_letter {
    const char *reason; /* malformed, unsupported_version, crash_loop, ... */
    const char *error;  /* text, at most an error's message */
    int attempt;
    const char *job_id;               /* NULL: it could not be read */
    const struct finish_reply *reply; /* NULL: no reply is possible */
};

/* As finish_with_reply, into the dead letters. */
SUSPENDS NODISCARD int finish_with_letter(struct queue *queue, const struct lease *lease,
                                          const struct finish_letter *letter,
                                          enum finish *ret_finish, struct error *err);
