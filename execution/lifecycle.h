/* Stopping and destroying a sandbox: the whole of it, with every execution in it. Nothing
 * is sent into it, so no command and no execution id is needed. */
#pragma once

#include <stdint.h>

#include "providers/provider.h"
#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/task.h"

/* Stopped, and its processes ended, when it returns 0; what it holds stays, and it can be
 * woken. Stopping what is stopped does no harm. Errors: capability_unavailable (stop), and
 * those of the provider. */
SUSPENDS int lifecycle_stop(struct sandbox *sandbox, struct error *err);

/* state, its name in replies */
#define DESTROY_STATES(X)                                                                  \
    X(DESTROY_DESTROYED, "destroyed")                                                      \
    X(DESTROY_UNSUPPORTED, "unsupported")                                                  \
    X(DESTROY_EXHAUSTED, "exhausted")

enum destroy_state {
#define DESTROY_STATE_ENUM(state, name) state,
    DESTROY_STATES(DESTROY_STATE_ENUM)
#undef DESTROY_STATE_ENUM
};

const char *destroy_state_name(enum destroy_state state);

struct destroy_request {
    double attempts;   /* rounded down, and 1 at least; finite */
    uint64_t delay_ms; /* between two of them */
};

struct destroy_result {
    enum destroy_state state;
    uint32_t attempts;   /* made */
    const char *message; /* of exhausted: the last failure, in the arena; else NULL */
};

/* Tries until it is destroyed or the attempts are used up: that is an answer, not an error,
 * as in the original, and so is a provider that cannot destroy. A sandbox that is gone
 * counts as destroyed, so that destroying twice does no harm.
 *
 * Errors: what another attempt cannot mend (unauthorized, invalid_argument), and the ends
 * of the task itself (timeout, cancelled). */
SUSPENDS int lifecycle_destroy(struct sandbox *sandbox,
                               const struct destroy_request *request, struct arena *arena,
                               struct destroy_result *ret_result, struct error *err);
