/* Stop and destroy, with the answers that the original gives. */
#include "execution/lifecycle.h"

#include <math.h>

#include "runtime/deadline.h"

const char *destroy_state_name(enum destroy_state state)
{
    static const char *const names[] = {
#define DESTROY_STATE_NAME(state, name) [state] = (name),
        DESTROY_STATES(DESTROY_STATE_NAME)
#undef DESTROY_STATE_NAME
    };
    return names[state];
}

int lifecycle_stop(struct sandbox *sandbox, struct error *err)
{
    return sandbox_stop(sandbox, err);
}

/* Whether the next attempt would fail the same way, or comes too late. A timeout of the
 * provider's own leaves time for another. */
static bool settles(enum error_code code)
{
    return code == ERROR_UNAUTHORIZED || code == ERROR_INVALID_ARGUMENT ||
           code == ERROR_CANCELLED || code == ERROR_DEADLINE_EXCEEDED ||
           (code == ERROR_TIMEOUT && deadline_left_ms() == 0);
}

/* 1 where another attempt is due, 0 where the result stands, -1 for an error. */
SUSPENDS static int try_once(struct sandbox *sandbox, struct destroy_result *result,
                             struct error *err)
{
    result->attempts++;
    if (sandbox_destroy(sandbox, err) == 0 || err->code == ERROR_SANDBOX_NOT_FOUND) {
        result->state = DESTROY_DESTROYED;
        return 0;
    }
    return settles(err->code) ? -1 : 1;
}

int lifecycle_destroy(struct sandbox *sandbox, const struct destroy_request *request,
                      struct arena *arena, struct destroy_result *ret_result,
                      struct error *err)
{
    struct destroy_result result = {.state = DESTROY_UNSUPPORTED};
    struct error failure = {0};
    uint32_t most = (uint32_t)fmin(fmax(1, floor(request->attempts)), (double)UINT32_MAX);
    int again = sandbox_can(sandbox, CAPABILITY_DESTROY);
    while (again > 0 && result.attempts < most) {
        int slept = result.attempts ? task_sleep(request->delay_ms) : 0;
        if (slept)
            return error_set_wait(err, slept, "destroy the sandbox");
        again = try_once(sandbox, &result, &failure);
    }
    if (again < 0) {
        if (err)
            *err = failure;
        return -1;
    }
    if (again > 0) {
        result.state = DESTROY_EXHAUSTED;
        result.message = arena_text(arena, failure.message);
        if (!result.message)
            return error_set_memory(err, "a message");
    }
    *ret_result = result;
    return 0;
}
