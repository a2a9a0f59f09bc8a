/* Attach, status, read_output and info: looking at an execution. Each is at most one
 * command in the sandbox (execution/remote/attach.sh). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "execution/output.h"
#include "execution/status.h"
#include "providers/provider.h"
#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/task.h"

struct attach_request {
    const char *execution_id; /* checked here; may be NULL, which is refused */
    const char *remote_dir;   /* NULL: the default, resolved inside the sandbox */
    bool wake;                /* a stopped sandbox may be started */
    bool must_run;       /* a stopped sandbox is the error sandbox_stopped, not an answer */
    uint64_t timeout_ms; /* for the command; 0: only the task's deadline */
    struct output_request stdout_request;
    struct output_request stderr_request;
    const char *request_id;
};

/* One observation made by one command, the status first, so that eof never hides a tail. */
struct attach_result {
    const char *remote_dir; /* resolved; NULL where no command ran */
    int64_t expires_at_ms;  /* -1: none */
    struct status status;
    struct output_piece stdout_piece; /* present where it was asked for and a command ran */
    struct output_piece stderr_piece;
    bool has_stdout;
    bool has_stderr;
};

/* Looks at the execution. First the capability check (execute_command), before anything in
 * the request is read; then the request; then whether a command may be sent at all
 * (ready_check): where not, that is the answer. Then one command. Results live in the
 * arena.
 *
 * Errors: capability_unavailable (execute_command, also where the sandbox has no shell; the
 * name of a tool that reading output needs), invalid_argument, sandbox_not_found,
 * sandbox_stopped, timeout, cancelled, provider_unavailable (also for an answer that was
 * cut, and where the provider calls the outcome unknown: looking again is safe),
 * command_failed (the program could not do its work). */
SUSPENDS int attach_look(struct sandbox *sandbox, const struct attach_request *request,
                         struct arena *arena, struct attach_result *ret_result,
                         struct error *err);

struct info_result {
    struct sandbox_info info;
};

/* The provider's own view, without a command. A provider that cannot look, or that would
 * boot the machine by looking, gives state unknown. sandbox_not_found where the sandbox
 * will not come back; otherwise the errors of the provider's view. */
SUSPENDS int attach_info(struct sandbox *sandbox, struct arena *arena,
                         struct info_result *ret_result, struct error *err);
