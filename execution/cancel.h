/* Cancel: ending an execution by one command in the sandbox (execution/remote/cancel.sh).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "execution/status.h"
#include "providers/provider.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

struct cancel_request {
    const char *execution_id; /* checked here; may be NULL, which is refused */
    const char *remote_dir;   /* NULL: the default, resolved inside the sandbox */
    bool wake;                /* a stopped sandbox may be started */
    double grace_ms;          /* between TERM and KILL */
    uint64_t attempt_ms;      /* the time that there is for it; 0: as much as it takes */
    const char *request_id;
};

/* What the command takes besides the grace. */
enum { CANCEL_EXTRA_MS = 10000 };

/* Ends the execution where it runs or starts: TERM to its process group, KILL after the
 * grace. ret_status is what it is then, in the arena: cancelled; an end that it came to by
 * itself, also after the TERM; or its state as before where nothing could be ended. Only a
 * process that is known to be the worker is signalled, and nothing is called cancelled that
 * may still run. Doing it twice does no harm.
 *
 * The request is checked before anything is sent, the capability first
 * (ready_check_target); invalid_argument on timeout_ms where attempt_ms is less than the
 * grace and CANCEL_EXTRA_MS. A sandbox that does not run is an error, as of ready_check
 * with must_run. Where the provider calls the outcome unknown, one look settles it if the
 * execution has come to an end. Errors besides: capability_unavailable (a shell, or a tool
 * by its name), timeout, provider_unavailable, command_failed, outcome_unknown. */
SUSPENDS NODISCARD int cancel_execution(struct sandbox *sandbox,
                                        const struct cancel_request *request,
                                        struct arena *arena, struct status *ret_status,
                                        struct error *err);
