/* The launch of an execution: its launch.sh, which runs in the sandbox, records there how
 * it goes, and can be run again (remote/launch.sh). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "execution/limits.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

/* The second line of a launch.sh of ours begins with it. */
#define LAUNCH_MARK "# attachd launch"

struct launch_variable {
    const char *name;
    const char *value; /* may be a secret: it stands in launch.sh, mode 0700, only */
};

struct launch_request {
    const char *working_directory; /* below the remote directory */
    const char *command;
    const char *const *args;
    size_t arg_count;
    const struct launch_variable *env;
    size_t env_count;
    struct limits limits;
    uint64_t execution_timeout_ms; /* 0: none */
    uint64_t termination_grace_ms;
};

/* The text of launch.sh. It names neither the execution nor its directory. */
NODISCARD int launch_compose(const struct launch_request *request, struct arena *arena,
                             const char **ret_text, size_t *ret_bytes, struct error *err);
