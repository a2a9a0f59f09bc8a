/* Looking at an execution: what is checked before a command is sent, the one command, and
 * how its end becomes a result or an error. */
#include "execution/attach.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "execution/layout.h"
#include "execution/look.h"

static const char WOULD_WAKE[] =
    "looking inside would start this sandbox, and wake was not asked for";

static int check_request(struct sandbox *sandbox, const struct attach_request *request,
                         struct error *err)
{
    if (sandbox_require(sandbox, CAPABILITY_EXECUTE_COMMAND, err) != 0)
        return -1;
    if (layout_check_execution_id(request->execution_id, err) != 0)
        return -1;
    if (layout_check_remote_dir(request->remote_dir, err) != 0)
        return -1;
    if (output_check(&request->stdout_request, err) != 0)
        return -1;
    if (output_check(&request->stderr_request, err) != 0)
        return -1;
    if (!request->remote_dir)
        return 0;
    return sandbox_check_directory(sandbox, request->remote_dir, err);
}

static bool can_look_freely(const struct sandbox *sandbox)
{
    return sandbox_can(sandbox, CAPABILITY_PROBE) && !(sandbox->traits & TRAIT_PROBE_WAKES);
}

static bool is_gone(enum sandbox_state state)
{
    return state == SANDBOX_DESTROYED || state == SANDBOX_DESTROYING;
}

static bool is_stopped(enum sandbox_state state)
{
    return state == SANDBOX_STOPPED || state == SANDBOX_STOPPING;
}

static int refuse_gone(const struct sandbox *sandbox, enum sandbox_state state,
                       struct error *err)
{
    return error_set(err, ERROR_SANDBOX_NOT_FOUND,
                     "sandbox %.100s is %s and will not come back", sandbox->id,
                     sandbox_state_name(state));
}

/* Errors of a view or of a wake after which no command is worth sending. */
static bool settles(enum error_code code)
{
    return code == ERROR_SANDBOX_NOT_FOUND || code == ERROR_UNAUTHORIZED ||
           code == ERROR_CANCELLED;
}

/* What the provider's view says about sending the command. */
enum decision { DECISION_ERROR = -1, DECISION_SEND, DECISION_ANSWERED };

/* Answers without a command. */
static int answer_unavailable(enum sandbox_state state, const char *message,
                              struct attach_result *result)
{
    result->status = (struct status){.state = STATUS_PROVIDER_UNAVAILABLE,
                                     .provider_state = sandbox_state_name(state),
                                     .message = message};
    return DECISION_ANSWERED;
}

/* A failed wake: the sandbox is as stopped as before. */
static int answer_failed_wake(const struct attach_request *request,
                              const struct sandbox_info *info, const struct error *failure,
                              struct arena *arena, struct attach_result *result,
                              struct error *err)
{
    bool is_late = failure->code == ERROR_TIMEOUT;
    if (request->output_required || is_late || settles(failure->code)) {
        *err = *failure;
        return DECISION_ERROR;
    }
    const char *message = arena_text(arena, failure->message);
    if (!message)
        return error_set_memory(err, "a message");
    return answer_unavailable(info->state, message, result);
}

static int decide_stopped(struct sandbox *sandbox, const struct attach_request *request,
                          struct sandbox_info *info, struct arena *arena,
                          struct attach_result *result, struct error *err)
{
    if (request->wake && sandbox_can(sandbox, CAPABILITY_WAKE)) {
        struct error failure = {0};
        if (sandbox_wake(sandbox, &failure) != 0)
            return answer_failed_wake(request, info, &failure, arena, result, err);
        /* Waking may have given it a new end; one more free look tells. */
        result->expires_at_ms = -1;
        if (sandbox_probe(sandbox, arena, info, &failure) == 0)
            result->expires_at_ms = info->expires_at_ms;
        return DECISION_SEND;
    }
    if (request->output_required)
        return error_set(err, ERROR_SANDBOX_STOPPED, "sandbox %.100s is %s", sandbox->id,
                         sandbox_state_name(info->state));
    return answer_unavailable(info->state, NULL, result);
}

/* No free view: a command may start the machine. */
static int decide_unseen(struct sandbox *sandbox, const struct attach_request *request,
                         struct attach_result *result, struct error *err)
{
    if (!(sandbox->traits & TRAIT_EXEC_WAKES) || request->wake)
        return DECISION_SEND;
    if (!request->output_required)
        return answer_unavailable(SANDBOX_UNKNOWN, WOULD_WAKE, result);
    (void)error_set(err, ERROR_CAPABILITY_UNAVAILABLE, "%s", WOULD_WAKE);
    (void)snprintf(err->capability, sizeof(err->capability), "%s",
                   capability_name(CAPABILITY_PROBE));
    err->remedy = "ask again with wake: true";
    return DECISION_ERROR;
}

static int decide(struct sandbox *sandbox, const struct attach_request *request,
                  struct arena *arena, struct attach_result *result, struct error *err)
{
    if (!can_look_freely(sandbox))
        return decide_unseen(sandbox, request, result, err);
    struct sandbox_info info = {0};
    struct error failure = {0};
    if (sandbox_probe(sandbox, arena, &info, &failure) != 0) {
        bool may_wake = (sandbox->traits & TRAIT_EXEC_WAKES) && !request->wake;
        if (!may_wake && !settles(failure.code))
            return DECISION_SEND;
        *err = failure;
        return DECISION_ERROR;
    }
    result->expires_at_ms = info.expires_at_ms;
    if (is_gone(info.state))
        return refuse_gone(sandbox, info.state, err);
    if (is_stopped(info.state))
        return decide_stopped(sandbox, request, &info, arena, result, err);
    return DECISION_SEND;
}

/* The end of a command's standard error, for a person. */
static const char *last_words(const struct exec_result *exec, struct arena *arena)
{
    enum { LAST_WORDS_BYTES = 4000 };
    const struct exec_output *output = exec->err.size > 0 ? &exec->err : &exec->out;
    size_t size = output->size < LAST_WORDS_BYTES ? output->size : LAST_WORDS_BYTES;
    return arena_text_n(arena, output->data + output->size - size, size);
}

static int refuse_without_shell(struct error *err)
{
    (void)error_set(err, ERROR_CAPABILITY_UNAVAILABLE,
                    "The sandbox has no shell (sh), which running commands in it needs.");
    (void)snprintf(err->capability, sizeof(err->capability), "%s",
                   capability_name(CAPABILITY_EXECUTE_COMMAND));
    err->remedy = "use an image with a POSIX shell at /bin/sh (busybox is enough)";
    return -1;
}

static bool means_no_shell(int exit_code)
{
    return exit_code == 127 || exit_code == 126;
}

/* The command could not be started, or its end not be learnt. */
static int map_exec_error(struct error *err)
{
    if (err->code == ERROR_COMMAND_FAILED && err->has_exit_code &&
        means_no_shell(err->exit_code))
        return refuse_without_shell(err);
    if (err->code == ERROR_OUTCOME_UNKNOWN) {
        /* Nothing is changed by looking twice. */
        err->code = ERROR_PROVIDER_UNAVAILABLE;
        err->retryable = true;
    }
    return -1;
}

/* The command ended without a whole answer, which `err` says already. */
static int map_exec_end(const struct exec_result *exec, struct arena *arena,
                        struct error *err)
{
    if (exec->end == EXEC_TIMED_OUT)
        return error_set(err, ERROR_TIMEOUT, "looking at the execution took too long");
    if (exec->end == EXEC_SIGNALED)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "the look at the execution was ended by signal %d", exec->signal);
    if (exec->exit_code == 0)
        return -1;
    if (means_no_shell(exec->exit_code))
        (void)refuse_without_shell(err);
    else
        (void)error_set(err, ERROR_COMMAND_FAILED,
                        "looking at the execution failed with exit code %d",
                        exec->exit_code);
    err->has_exit_code = true;
    err->exit_code = exec->exit_code;
    err->detail = last_words(exec, arena);
    return -1;
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
    return is_cut ? map_exec_end(&exec, arena, err) : -1;
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
    struct attach_result result = {.expires_at_ms = -1};
    int decision = decide(sandbox, request, arena, &result, err);
    if (decision == DECISION_ERROR)
        return -1;
    if (decision == DECISION_SEND) {
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
    if (can_look_freely(sandbox)) {
        if (sandbox_probe(sandbox, arena, &info, err) != 0)
            return -1;
        if (is_gone(info.state))
            return refuse_gone(sandbox, info.state, err);
    }
    ret_result->info = info;
    return 0;
}
