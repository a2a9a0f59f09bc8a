/* The keys of a job that deploys or launches again: read for their types and sizes. What
 * the values may be is checked by execution/deploy, whose messages and order callers match
 * on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/message.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"
#include "runtime/span.h"

enum {
    JOB_DEPLOY_MAX_ARGS = 4096,
    JOB_DEPLOY_MAX_ENV = 4096,
    JOB_DEPLOY_MAX_LIMITS = 64,
    JOB_DEPLOY_TEXT_MAX = 128 * 1024, /* an argument, as the kernel takes it */
};

struct job_variable {
    struct span name;
    struct span value;
};

struct job_limit {
    const char *name; /* as the job gave it, printable ASCII or '?' */
    bool is_number;
    double value;
};

enum job_artifact_kind {
    JOB_ARTIFACT_NONE,
    JOB_ARTIFACT_DATA,
    JOB_ARTIFACT_DIR,
    JOB_ARTIFACT_URL
};

struct job_artifact {
    enum job_artifact_kind kind;
    struct span data;
    const char *dir;
    const char *url;
    const char *sha256; /* may be NULL */
};

struct job_input {
    bool given;
    bool is_file; /* else standard input */
    struct span path;
    struct span data;
};

/* Spans point into the job's body. A number that is left out has its default. */
struct job_deploy {
    struct span command; /* absent: data is NULL */
    const struct span *args;
    size_t arg_count;
    const struct job_variable *env;
    size_t env_count;
    struct span working_directory;
    struct job_artifact artifact;
    struct job_input input;
    double input_limit_bytes;
    const char *install_command;
    double install_timeout_ms;
    double startup_timeout_ms;
    bool has_execution_timeout;
    double execution_timeout_ms;
    const struct job_limit *limits;
    size_t limit_count;
    const char *from_execution_id; /* relaunch; NULL: left out */
};

/* Reads the keys of deploy, or with `again` those of relaunch. invalid_argument with the
 * field, or internal. */
NODISCARD int job_deploy_read(const struct message *map, bool again, struct arena *arena,
                              struct job_deploy *ret_deploy, struct error *err);
