/* Looking at an execution: what is checked in a request, the one command, and how its
 * answer becomes a result. */
#include "execution/attach.h"

#include "execution/ending.h"
#include "execution/layout.h"
#include "execution/look.h"
#include "execution/ready.h"

static int check_request(struct sandbox *sandbox, const struct attach_request *request,
                         struct error *err)
{
    if (ready_check_target(sandbox, request->execution_id, request->remote_dir, err) != 0)
        return -1;
    if (output_check(&request->stdout_request, err) != 0)
        return -1;
    return output_check(&request->stderr_request, err);
}

/* The command could not be started, or its end not be learnt. */
static int map_exec_error(struct error *err)
{
    if (err->code == ERROR_OUTCOME_UNKNOWN) {
        /* Nothing is changed by looking twice. */
        err->code = ERROR_PROVIDER_UNAVAILABLE;
        err->retryable = true;
    }
    return ending_map_error(err);
}

static int send_command(struct sandbox *sandbox, const struct attach_request *request,
                        struct look_request *look_request, struct arena *arena,
                        struct look *ret_look, struct error *err)
{
    *look_request = (struct look_request){
        .remote_dir = request->remote_dir,
        .execution_id = request->execution_id,
        .base64 = !(sandbox->traits & TRAIT_BINARY_SAFE),
        .stdout_request = request->stdout_request,
        .stderr_request = request->stderr_request,
    };
    remote_nonce(look_request->nonce);
    struct exec_request exec_request = {
        .timeout_ms = request->timeout_ms,
        .output_limit_bytes = look_answer_bytes(look_request),
        .request_id = request->request_id,
    };
    size_t limit = sandbox->provider->limits.max_script_bytes;
    if (look_compose(look_request, limit, arena, &exec_request.script, err) != 0)
        return -1;
    struct exec_result exec = {0};
    if (sandbox_exec(sandbox, &exec_request, arena, &exec, err) != 0)
        return map_exec_error(err);
    if (exec.out.dropped_bytes > 0)
        return error_set(err, ERROR_COMMAND_FAILED,
                         "the sandbox printed more than was asked for");
    if (look_parse(exec.out.data, exec.out.size, look_request, arena, ret_look, err) == 0)
        return 0;
    bool is_cut = err->code == ERROR_PROVIDER_UNAVAILABLE;
    return is_cut ? ending_map(&exec, "looking at the execution", arena, err) : -1;
}

static void fill_output(const struct look *look, enum output_stream stream,
                        const struct output_request *request,
                        const struct attach_result *result, struct output_piece *piece)
{
    const struct look_output *output = &look->outputs[stream];
    piece->stream = stream;
    output_judge(&result->status, request->offset, output->total_bytes,
                 output->data ? output->data : "", output->size, piece);
}

static int judge(const struct attach_request *request, const struct look *look,
                 struct arena *arena, struct attach_result *result, struct error *err)
{
    result->remote_dir = request->remote_dir;
    if (!request->remote_dir &&
        layout_remote_dir(look->home, arena, &result->remote_dir, err) != 0)
        return -1;
    if (status_judge(&look->observation, request->execution_id, arena, &result->status) !=
        0)
        return error_set_memory(err, "a status");
    result->has_stdout = request->stdout_request.wanted;
    result->has_stderr = request->stderr_request.wanted;
    if (result->has_stdout)
        fill_output(look, OUTPUT_STDOUT, &request->stdout_request, result,
                    &result->stdout_piece);
    if (result->has_stderr)
        fill_output(look, OUTPUT_STDERR, &request->stderr_request, result,
                    &result->stderr_piece);
    return 0;
}

int attach_look(struct sandbox *sandbox, const struct attach_request *request,
                struct arena *arena, struct attach_result *ret_result, struct error *err)
{
    struct error ignored;
    if (!err)
        err = &ignored;
    if (check_request(sandbox, request, err) != 0)
        return -1;
    const struct ready_request ready_request = {request->wake, request->must_run};
    struct ready ready;
    if (ready_check(sandbox, &ready_request, arena, &ready, err) != 0)
        return -1;
    struct attach_result result = {.expires_at_ms = ready.expires_at_ms,
                                   .status = ready.status};
    if (ready.may_send) {
        struct look_request look_request = {0};
        struct look look = {0};
        if (send_command(sandbox, request, &look_request, arena, &look, err) != 0)
            return -1;
        if (judge(request, &look, arena, &result, err) != 0)
            return -1;
    }
    *ret_result = result;
    return 0;
}

int attach_info(struct sandbox *sandbox, struct arena *arena,
                struct info_result *ret_result, struct error *err)
{
    struct sandbox_info info = {
        .state = SANDBOX_UNKNOWN, .expires_at_ms = -1, .provider_id = sandbox->id};
    if (ready_can_probe(sandbox)) {
        if (sandbox_probe(sandbox, arena, &info, err) != 0)
            return -1;
        if (ready_refuse_gone(sandbox, info.state, err) != 0)
            return -1;
    }
    ret_result->info = info;
    return 0;
}
