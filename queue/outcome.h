/* The outcome record of a job id: operations with side effects happen once for it, within
 * the record's life, whatever is delivered or enqueued again.
 *
 * The record's text is the mark of the last delivery that ended, `d:CONSUMER:ENTRY:TOKEN:`,
 * and `1` for ok or `0`; where there is an outcome to be told again, LF, the operation, a
 * blank, `1` or `0` for that outcome, LF, and its MessagePack value: what stood under
 * `result` or `error`. It is written in the step that takes an entry off the queue; the
 * first outcome of an operation stays (lua/common.lua). */
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

/* What an earlier entry of the job id with this operation came to; ret_outcome->data is
 * NULL where nothing is kept, or nothing that can be read. Waits for Redis for as long as
 * the lease is live. Lives in the arena. */
SUSPENDS NODISCARD int outcome_read(struct queue *queue, const struct lease *lease,
                                    const char *job_id, const char *op, struct arena *arena,
                                    struct reply_outcome *ret_outcome, struct error *err);
