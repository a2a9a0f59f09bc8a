/* A job as it stands in the `job` field of a stream entry.
 *
 * Reading goes in two steps, since the capability error of the provider comes before
 * anything that is wrong with the rest: job_read takes the envelope, job_read_arguments the
 * remaining keys once the provider is known to be able. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/job_deploy.h"
#include "queue/message.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

/* op, name on the wire, whether execution_id is required, default timeout_ms, whether it
 * has side effects (and so happens once for a job id, outcome.h) */
#define JOB_OPS(X)                                                                         \
    X(JOB_ATTACH, "attach", true, 30000, false)                                            \
    X(JOB_STATUS, "status", true, 30000, false)                                            \
    X(JOB_READ_OUTPUT, "read_output", true, 30000, false)                                  \
    X(JOB_CANCEL, "cancel", true, 30000, true)                                             \
    X(JOB_INFO, "info", false, 30000, false)                                               \
    X(JOB_DEPLOY, "deploy", true, 900000, true)                                            \
    X(JOB_RELAUNCH, "relaunch", true, 900000, true)                                        \
    X(JOB_STOP, "stop", false, 30000, true)                                                \
    X(JOB_DESTROY, "destroy", false, 30000, true)

enum job_op {
#define JOB_OP_ENUM(op, name, needs_execution, timeout_ms, has_effects) op,
    JOB_OPS(JOB_OP_ENUM)
#undef JOB_OP_ENUM
};

enum { JOB_VERSION = 1, JOB_ID_MAX = 128, JOB_MAX_SANDBOX_KEYS = 32 };
enum { JOB_READ_MAX_BYTES = 16 * 1024 * 1024 };
enum { JOB_DESTROY_MAX_ATTEMPTS = 100, JOB_DESTROY_MAX_DELAY_MS = 60 * 60 * 1000 };

struct job_sandbox_key {
    const char *name;
    const char *value; /* texts as they are; integers and booleans written out */
};

/* For attach a stream is wanted when its key stands in `read`; read_output wants the one.
 */
struct job_read_stream {
    bool wanted;
    uint64_t offset;    /* at most INT64_MAX */
    uint64_t max_bytes; /* 1 to JOB_READ_MAX_BYTES, for each stream */
};

struct job_destroy {
    double attempts;   /* finite, at most 100, default 3; less than 1 counts as 1 */
    uint64_t delay_ms; /* between two attempts; at most an hour, default 250 */
};

/* Texts live in the arena; NULL: absent. */
struct job {
    /* the envelope, by job_read */
    const char *id;          /* set as soon as it could be read, also when job_read fails */
    const char *reply_to;    /* likewise; only ever a name that is fit for a key */
    const char *op_name;     /* likewise; as the job gave it, cut at 64 bytes */
    const char *traceparent; /* likewise */
    enum job_op op;
    const char *provider;
    const char *sandbox_id;
    struct job_sandbox_key *sandbox_keys;
    size_t sandbox_key_count;
    int64_t deadline_unix_ms; /* 0: none */
    uint64_t timeout_ms;
    int max_attempts;          /* 1 to 50, default 8 */
    bool progress;             /* whether the producer wants to follow the job */
    const struct message *map; /* the whole tree, for job_read_arguments */

    /* by job_read_arguments */
    const char *execution_id;
    const char *remote_dir;
    double termination_grace_ms; /* default 5000; finite and above zero */
    bool wake;
    struct job_read_stream read_stdout;
    struct job_read_stream read_stderr;
    const struct job_deploy *deploy; /* of deploy and relaunch */
    struct job_destroy destroy;      /* of destroy */
};

const char *job_op_name(enum job_op op);
bool job_op_from_name(const char *name, enum job_op *ret_op);
bool job_op_needs_execution(enum job_op op);
bool job_op_has_effects(enum job_op op);
/* timeout_ms of a job that has none. */
uint64_t job_op_timeout_ms(enum job_op op);

/* [A-Za-z0-9][A-Za-z0-9._:-]{0,127}: what queues, job ids and reply streams may be called.
 */
bool job_is_name(const char *text, size_t bytes);

/* Reads the envelope. The body must outlive the job. A key whose value is nil counts as
 * left out, here and in job_read_arguments.
 *
 * On failure ret_job is filled as far as it could be read: where ret_job->id is set the
 * error can be replied, else the entry can only be a dead letter. Order of the checks:
 * well-formed MessagePack, a map, no key twice, v, id, reply_to, op, sandbox, the rest.
 * Errors: malformed_job (no map, bad bytes, keys twice, no id or one that is no name),
 * unsupported_version, unknown_operation, invalid_argument; `field` names the key by its
 * path (sandbox.id). internal where memory ran out: then the id may be missing although the
 * job has one. */
NODISCARD int job_read(const void *body, size_t bytes, struct arena *arena,
                       struct job *ret_job, struct error *err);

/* Reads the keys that belong to the operation: the values' types and ranges, not what they
 * mean (execution/ checks that). An execution_id or remote_dir that is missing stays NULL.
 * On failure the job is as it was: invalid_argument with `field`, or internal. */
NODISCARD int job_read_arguments(struct job *job, struct arena *arena, struct error *err);
