/* Whether a command may be sent to a sandbox: decided before every command, by what the
 * provider's own view says where it can be had for nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "execution/status.h"
#include "providers/provider.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

/* What holds for every command that concerns an execution, in this order: the capability
 * execute_command, before anything in the job is read; the execution's id; the directory
 * (NULL: the default), which the provider may refuse too. Sends nothing. */
NODISCARD int ready_check_target(struct sandbox *sandbox, const char *execution_id,
                                 const char *remote_dir, struct error *err);

struct ready_request {
    bool wake;     /* a stopped sandbox may be started */
    bool must_run; /* a sandbox that does not run is an error, not an answer */
};

struct ready {
    bool may_send;
    int64_t expires_at_ms; /* the sandbox's end; -1: none, or not known */
    struct status status;  /* the answer where no command may be sent; else zeroed */
};

/* Looks where looking is free, and wakes a stopped sandbox where `wake` is set. A stopped
 * sandbox is an answer (provider_unavailable with its state) or, with must_run, the error
 * sandbox_stopped; one that will not come back is sandbox_not_found.
 *
 * A wake that fails is an answer too (provider_unavailable with the message), or with
 * must_run the wake's error. A view that cannot be had does not hide what a command can
 * tell: unless it says sandbox_not_found, unauthorized or cancelled, the command may be
 * sent. The exception is a sandbox that a command would start (TRAIT_EXEC_WAKES), of which
 * nothing says that it runs: without `wake` the answer is the view's error or, where there
 * is no free view at all, provider_unavailable (with must_run: capability_unavailable,
 * probe). Texts live in the arena. */
SUSPENDS NODISCARD int ready_check(struct sandbox *sandbox,
                                   const struct ready_request *request, struct arena *arena,
                                   struct ready *ret_ready, struct error *err);

/* Whether probing costs nothing and starts nothing. */
bool ready_can_probe(const struct sandbox *sandbox);

/* -1 with sandbox_not_found where a sandbox in that state will not come back; else 0. */
NODISCARD int ready_refuse_gone(const struct sandbox *sandbox, enum sandbox_state state,
                                struct error *err);
