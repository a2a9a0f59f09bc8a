/* The one command that ends an execution, and what is made of its answer. */
#include "execution/cancel.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "execution/attach.h"
#include "execution/ending.h"
#include "execution/layout.h"
#include "execution/look.h"
#include "execution/ready.h"
#include "execution/remote.h"

extern const char remote_cancel_sh[];

enum {
    MS_PER_TICK = 10, /* the program counts in hundredths of a second */
    LOOKS = 16        /* that it makes at most, one after the other */
};

static const double GRACE_MAX_MS = 7.0 * 24 * 3600 * 1000;

static int check_request(struct sandbox *sandbox, const struct cancel_request *request,
                         struct error *err)
{
    if (ready_check_target(sandbox, request->execution_id, request->remote_dir, err) != 0)
        return -1;
    if (layout_check_above_zero("termination_grace_ms", "terminationGraceMs",
                                request->grace_ms, err) != 0)
        return -1;
    if (request->grace_ms > GRACE_MAX_MS)
        return error_set_field(err, "termination_grace_ms",
                               "termination_grace_ms is longer than a week");
    double needed_ms = request->grace_ms + CANCEL_EXTRA_MS;
    if (request->attempt_ms > 0 && (double)request->attempt_ms < needed_ms)
        return error_set_field(err, "timeout_ms",
                               "timeout_ms must be at least %.0f: termination_grace_ms and "
                               "%d more",
                               ceil(needed_ms), CANCEL_EXTRA_MS);
    return 0;
}

static int compose(const struct sandbox *sandbox, const struct cancel_request *request,
                   const struct look_request *look_request, struct arena *arena,
                   const char **ret_script, struct error *err)
{
    char grace[24];
    (void)snprintf(grace, sizeof(grace), "%" PRIu64,
                   (uint64_t)ceil(request->grace_ms / MS_PER_TICK));
    const char *arguments[] = {look_request->nonce,
                               request->remote_dir ? request->remote_dir : "",
                               request->execution_id, grace, NULL};
    return remote_compose(remote_cancel_sh, arguments,
                          sandbox->provider->limits.max_script_bytes, arena, ret_script,
                          err);
}

static int judge(const struct cancel_request *request, const struct look *look,
                 struct arena *arena, struct status *ret_status, struct error *err)
{
    const char *remote_dir;
    if (!request->remote_dir && layout_remote_dir(look->home, arena, &remote_dir, err) != 0)
        return -1;
    if (status_judge(&look->observation, request->execution_id, arena, ret_status) != 0)
        return error_set_memory(err, "a status");
    return 0;
}

static int send_command(struct sandbox *sandbox, const struct cancel_request *request,
                        struct arena *arena, struct status *ret_status, struct error *err)
{
    static const char doing[] = "cancelling the execution";
    struct look_request look_request = {
        .remote_dir = request->remote_dir,
        .execution_id = request->execution_id,
    };
    remote_nonce(look_request.nonce);
    struct exec_request exec_request = {
        .timeout_ms = (uint64_t)ceil(request->grace_ms) + CANCEL_EXTRA_MS,
        .output_limit_bytes = LOOKS * look_answer_bytes(&look_request),
        .request_id = request->request_id,
    };
    if (compose(sandbox, request, &look_request, arena, &exec_request.script, err) != 0)
        return -1;
    struct exec_result exec = {0};
    struct look look = {0};
    if (sandbox_exec(sandbox, &exec_request, arena, &exec, err) != 0)
        return ending_map_error(err);
    if (exec.out.dropped_bytes > 0)
        return error_set(err, ERROR_COMMAND_FAILED,
                         "the sandbox printed more than was asked for");
    if (look_parse(exec.out.data, exec.out.size, &look_request, arena, &look, err) == 0)
        return judge(request, &look, arena, ret_status, err);
    bool is_cut = err->code == ERROR_PROVIDER_UNAVAILABLE;
    return is_cut ? ending_map(&exec, doing, arena, err) : -1;
}

/* The command may or may not have run. An end is an end, whoever brought it about. */
static int settle(struct sandbox *sandbox, const struct cancel_request *request,
                  struct arena *arena, struct status *ret_status)
{
    const struct attach_request look = {
        .execution_id = request->execution_id,
        .remote_dir = request->remote_dir,
        .must_run = true,
        .request_id = request->request_id,
    };
    struct attach_result result = {0};
    struct error ignored = {0};
    if (attach_look(sandbox, &look, arena, &result, &ignored) != 0 ||
        !status_is_terminal(&result.status))
        return -1;
    *ret_status = result.status;
    return 0;
}

int cancel_execution(struct sandbox *sandbox, const struct cancel_request *request,
                     struct arena *arena, struct status *ret_status, struct error *err)
{
    const struct ready_request ready_request = {.wake = request->wake, .must_run = true};
    struct ready ready;
    struct error failure = {0};
    if (check_request(sandbox, request, err) != 0 ||
        ready_check(sandbox, &ready_request, arena, &ready, err) != 0)
        return -1;
    if (send_command(sandbox, request, arena, ret_status, &failure) == 0)
        return 0;
    if (failure.code == ERROR_OUTCOME_UNKNOWN &&
        settle(sandbox, request, arena, ret_status) == 0)
        return 0;
    if (err)
        *err = failure;
    return -1;
}
