/* The table of operations: what a job's `op` does, and how its result is written. */
#pragma once

#include <msgpack.h>

#include "providers/provider.h"
#include "queue/job.h"
#include "queue/queue.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"
#include "worker/config.h"

struct operation_result {
    void (*write)(msgpack_packer *packer, const void *arg); /* packs exactly one value */
    const void *arg;                                        /* in the job's arena */
};

/* 0, or capability_unavailable where this kind of sandbox lacks what the operation cannot
 * do without; checked before anything else that is particular to it. */
int operation_require(enum job_op op, const struct provider *provider, struct error *err);

struct operation_request {
    const struct job *job;
    struct sandbox *sandbox;
    const struct config *config; /* what the operator allows */
    struct queue *queue;         /* for the progress of a job that wants it told */
};

/* Runs the job's operation in the sandbox. Results live in the arena. */
SUSPENDS NODISCARD int operation_run(const struct operation_request *request,
                                     struct arena *arena,
                                     struct operation_result *ret_result,
                                     struct error *err);

/* The names of what the sandbox can do, or, where `sandbox` is NULL, of what its kind can;
 * NULL-ended, in the arena. NULL: out of memory. */
const char *const *operation_capabilities(const struct provider *provider,
                                          const struct sandbox *sandbox,
                                          struct arena *arena);
