/* What becomes of a job: the only place that decides between a reply and a dead letter, and
 * writes it. */
#pragma once

#include "runtime/attributes.h"
#include "runtime/error.h"
#include "worker/operation.h"
#include "worker/slot.h"

/* Writes the job's result, or err where result is NULL, ends the delivery and logs one
 * line. `sandbox` may be NULL. Never fails: what cannot be written is logged and left to be
 * recovered. */
SUSPENDS void answer_job(struct slot *slot, const struct operation_result *result,
                         const struct sandbox *sandbox, const struct error *err);
