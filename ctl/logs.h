/* The outputs of an execution written as they come: one attach after another, in one
 * session. */
#pragma once

#include "ctl/options.h"
#include "ctl/run.h"
#include "queue/address.h"
#include "runtime/error.h"

/* Writes through output->flush, which it needs. Workers and a Redis that are away for a
 * while are waited for once there was an answer, and said once. EXIT_ANSWER_OK: all was
 * written that was wanted, or nobody reads it any more; every other status comes with an
 * error, but for EXIT_INTERRUPTED and, where a worker's answer is an error and was shown,
 * EXIT_ANSWER_ERROR. */
enum exit_status logs_run(const struct options *options, const struct address *address,
                          struct run_output *output, struct error *err);
