/* The outcome record of a job id: operations with side effects happen once for it, within
 * the record's life, whatever is delivered or enqueued again.
 *
 * The record's text is the mark of the delivery that ended (lua/common.lua), `1` for ok or
 * `0`, and where there is an outcome to be told again LF and its MessagePack value. It is
 * written by the finish script, in the step that takes the entry off the queue. */
#pragma once

#include "queue/lease.h"
#include "queue/queue.h"
#include "queue/reply.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

enum { OUTCOME_MAX_BYTES = 1024 * 1024 }; /* a larger one is not kept */

/* Whether an error is an outcome to be told again: something may have happened before it,
 * and another try is not wanted. */
bool outcome_keeps_error(const struct error *err);

/* What an earlier entry of the job id came to; ret_outcome->data is NULL where nothing is
 * kept. Waits for Redis for as long as the lease is live. Lives in the arena. */
SUSPENDS NODISCARD int outcome_read(struct queue *queue, const struct lease *lease,
                                    const char *job_id, struct arena *arena,
                                    struct reply_outcome *ret_outcome, struct error *err);
