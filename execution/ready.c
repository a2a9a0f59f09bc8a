/* What is asked of a provider before a command is sent, and what its answers mean. */
#include "execution/ready.h"

#include <stdio.h>

#include "execution/layout.h"

static const char WOULD_WAKE[] =
    "looking inside would start this sandbox, and wake was not asked for";

int ready_check_target(struct sandbox *sandbox, const char *execution_id,
                       const char *remote_dir, struct error *err)
{
    if (sandbox_require(sandbox, CAPABILITY_EXECUTE_COMMAND, err) != 0)
        return -1;
    if (layout_check_execution_id(execution_id, err) != 0)
        return -1;
    if (layout_check_remote_dir(remote_dir, err) != 0)
        return -1;
    return remote_dir ? sandbox_check_directory(sandbox, remote_dir, err) : 0;
}

bool ready_can_probe(const struct sandbox *sandbox)
{
    return sandbox_can(sandbox, CAPABILITY_PROBE) && !(sandbox->traits & TRAIT_PROBE_WAKES);
}

int ready_refuse_gone(const struct sandbox *sandbox, enum sandbox_state state,
                      struct error *err)
{
    if (state != SANDBOX_DESTROYED && state != SANDBOX_DESTROYING)
        return 0;
    return error_set(err, ERROR_SANDBOX_NOT_FOUND,
                     "sandbox %.100s is %s and will not come back", sandbox->id,
                     sandbox_state_name(state));
}

static bool is_stopped(enum sandbox_state state)
{
    return state == SANDBOX_STOPPED || state == SANDBOX_STOPPING;
}

/* Errors of a view or of a wake after which no command is worth sending. */
static bool settles(enum error_code code)
{
    return code == ERROR_SANDBOX_NOT_FOUND || code == ERROR_UNAUTHORIZED ||
           code == ERROR_CANCELLED;
}

static int answer_unavailable(enum sandbox_state state, const char *message,
                              struct ready *ready)
{
    ready->status = (struct status){.state = STATUS_PROVIDER_UNAVAILABLE,
                                    .provider_state = sandbox_state_name(state),
                                    .message = message};
    return 0;
}

static int send_it(struct ready *ready)
{
    ready->may_send = true;
    return 0;
}

/* A failed wake: the sandbox is as stopped as before. */
static int answer_failed_wake(const struct ready_request *request, enum sandbox_state state,
                              const struct error *failure, struct arena *arena,
                              struct ready *ready, struct error *err)
{
    bool is_late = failure->code == ERROR_TIMEOUT;
    if (request->must_run || is_late || settles(failure->code)) {
        *err = *failure;
        return -1;
    }
    const char *message = arena_text(arena, failure->message);
    if (!message)
        return error_set_memory(err, "a message");
    return answer_unavailable(state, message, ready);
}

static int decide_stopped(struct sandbox *sandbox, const struct ready_request *request,
                          struct sandbox_info *info, struct arena *arena,
                          struct ready *ready, struct error *err)
{
    if (request->wake && sandbox_can(sandbox, CAPABILITY_WAKE)) {
        struct error failure = {0};
        if (sandbox_wake(sandbox, &failure) != 0)
            return answer_failed_wake(request, info->state, &failure, arena, ready, err);
        /* Waking may have given it a new end; one more free look tells. */
        ready->expires_at_ms = -1;
        if (sandbox_probe(sandbox, arena, info, &failure) == 0)
            ready->expires_at_ms = info->expires_at_ms;
        return send_it(ready);
    }
    if (request->must_run)
        return error_set(err, ERROR_SANDBOX_STOPPED, "sandbox %.100s is %s", sandbox->id,
                         sandbox_state_name(info->state));
    return answer_unavailable(info->state, NULL, ready);
}

/* No free view: a command may start the machine. */
static int decide_unseen(struct sandbox *sandbox, const struct ready_request *request,
                         struct ready *ready, struct error *err)
{
    if (!(sandbox->traits & TRAIT_EXEC_WAKES) || request->wake)
        return send_it(ready);
    if (!request->must_run)
        return answer_unavailable(SANDBOX_UNKNOWN, WOULD_WAKE, ready);
    (void)error_set(err, ERROR_CAPABILITY_UNAVAILABLE, "%s", WOULD_WAKE);
    (void)snprintf(err->capability, sizeof(err->capability), "%s",
                   capability_name(CAPABILITY_PROBE));
    err->remedy = "ask again with wake: true";
    return -1;
}

static int decide(struct sandbox *sandbox, const struct ready_request *request,
                  struct arena *arena, struct ready *ready, struct error *err)
{
    if (!ready_can_probe(sandbox))
        return decide_unseen(sandbox, request, ready, err);
    struct sandbox_info info = {0};
    struct error failure = {0};
    if (sandbox_probe(sandbox, arena, &info, &failure) != 0) {
        bool may_wake = (sandbox->traits & TRAIT_EXEC_WAKES) && !request->wake;
        if (!may_wake && !settles(failure.code))
            return send_it(ready);
        *err = failure;
        return -1;
    }
    ready->expires_at_ms = info.expires_at_ms;
    if (ready_refuse_gone(sandbox, info.state, err) != 0)
        return -1;
    if (is_stopped(info.state))
        return decide_stopped(sandbox, request, &info, arena, ready, err);
    return send_it(ready);
}

int ready_check(struct sandbox *sandbox, const struct ready_request *request,
                struct arena *arena, struct ready *ret_ready, struct error *err)
{
    struct ready ready = {.expires_at_ms = -1};
    if (decide(sandbox, request, arena, &ready, err) != 0)
        return -1;
    *ret_ready = ready;
    return 0;
}
