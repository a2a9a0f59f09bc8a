/* A job as attachctl asks for it: its MessagePack bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/options.h"
#include "ctl/payload.h"
#include "queue/job.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/buffer.h"
#include "runtime/error.h"

enum { REQUEST_ID_SIZE = sizeof("ctl-") + 32 };

/* A job id of this program's own: "ctl-" and 128 random bits in hex. -1: no randomness. */
NODISCARD int request_make_id(char id[REQUEST_ID_SIZE], struct error *err);

/* Whether the command asks for something in a sandbox, and which operation it is. */
bool request_op(enum command command, enum job_op *ret_op);

/* The outputs that an attach reads too: each from its offset on. */
struct request_read {
    int64_t stdout_offset;
    int64_t stderr_offset;
};

/* What becomes a job. */
struct request {
    const struct options *options;
    const struct request_read *read; /* NULL: none is read */
    const struct payload *payload;   /* of what launches something; else NULL */
    const char *id;
    int64_t deadline_unix_ms; /* 0: none */
    bool progress;            /* is the worker to tell how far it is */
};

/* Appends the job's bytes. What the options leave out stays out of the job, so that the
 * workers' defaults hold. The bytes are read again as a worker would (job.h): -1 with the
 * error that this gave, configuration where they are more than the buffer holds, or
 * internal where memory ran out. */
NODISCARD int request_pack(const struct request *request, struct arena *arena,
                           struct buffer *out, struct error *err);
