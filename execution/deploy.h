/* Deploy and relaunch: making an execution and starting it, in at most three round trips
 * where nobody else is at work in the sandbox: begin (remote/begin.sh), the upload, apply
 * (remote/apply.sh).
 *
 * Doing it again for the same job does no harm, wherever an earlier try was cut off: the
 * execution is claimed by the job's id before anything else, two tries exclude each other
 * by the execution's lock, and what has been launched is only looked at. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "execution/attach.h"
#include "execution/launch.h"
#include "providers/provider.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"
#include "runtime/span.h"

struct deploy_variable {
    struct span name;
    struct span value; /* a secret: never shown */
};

struct deploy_input {
    bool given;
    bool is_file;     /* else standard input */
    struct span path; /* below the remote directory */
    struct span data; /* lent */
};

/* What is to be made of the sandbox's directory; nothing is checked yet. Numbers are as the
 * job has them: they may be negative, infinite or none. */
struct deploy_request {
    const char *job_id;
    const char *execution_id;      /* NULL is refused like an empty one */
    const char *remote_dir;        /* NULL: the default, resolved inside the sandbox */
    const char *from_execution_id; /* relaunch: whose recorded launch is run again */
    bool again;                    /* relaunch: the launch's own members are not read */
    bool wake;

    struct span command;
    const struct span *args;
    size_t arg_count;
    const struct deploy_variable *env;
    size_t env_count;
    struct span working_directory;
    const struct limits_entry *limits;
    size_t limit_count;
    struct deploy_input input;
    double input_limit_bytes;
    double startup_timeout_ms;
    bool has_execution_timeout;
    double execution_timeout_ms;
    double termination_grace_ms;
    double install_timeout_ms;
    const char *install_command;

    /* Told as the work goes on, from the job's task; NULL: nobody listens. */
    void (*on_progress)(void *arg, const char *phase, uint64_t bytes, uint64_t total_bytes,
                        const char *line);
    void *on_progress_arg;
};

/* A request whose values are known to be good. Texts live in the arena. */
struct deploy_plan {
    const struct deploy_request *request;
    struct launch_request launch; /* not for relaunch */
    const char *input_path;       /* NULL: standard input */
    uint64_t startup_timeout_ms;
    uint64_t install_timeout_ms;
};

/* Checks a request, the first failure in the original's order: the capability,
 * execution_id, command, args, env, working_directory, input, the numbers, the limits.
 * Sends nothing. */
NODISCARD int deploy_check(const struct sandbox *sandbox,
                           const struct deploy_request *request, struct arena *arena,
                           struct deploy_plan *ret_plan, struct error *err);

/* Where the archive comes from, once the plan is good. */
struct deploy_artifact {
    const struct file_source *source; /* NULL: there is none */
    const char *install_hash;         /* NULL or empty: nothing is installed */
};

/* Deploys. Fills the handle that attach would give. Errors: capability_unavailable,
 * invalid_argument (execution_id where the id is somebody else's), sandbox_not_found,
 * sandbox_stopped, deploy_failed with its phase (upload, install, launch, startup),
 * timeout, cancelled, provider_unavailable. */
SUSPENDS NODISCARD int deploy_run(struct sandbox *sandbox, const struct deploy_plan *plan,
                                  const struct deploy_artifact *artifact,
                                  struct arena *arena, struct attach_result *ret_result,
                                  struct error *err);
