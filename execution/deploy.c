/* The course of a deploy: begin, upload, apply, with waits for whoever else is at work in
 * the sandbox. What is done there is remote/begin.sh and remote/apply.sh. */
#include "execution/deploy.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "execution/answer.h"
#include "execution/ending.h"
#include "execution/layout.h"
#include "execution/limits.h"
#include "execution/look.h"
#include "execution/ready.h"
#include "execution/remote.h"
#include "execution/status.h"
#include "execution/upload.h"
#include "execution/watch.h"
#include "runtime/clock.h"
#include "runtime/deadline.h"
#include "runtime/log.h"
#include "runtime/random.h"

extern const char remote_begin_sh[];
extern const char remote_abandon_sh[];
extern const char remote_apply_sh[];

enum {
    SCRATCH_BYTES = 1024 * 1024,
    OUTPUT_LIMIT_BYTES = 128 * 1024,
    BEGIN_TIMEOUT_MS = 60000,
    ABANDON_TIMEOUT_MS = 10000,
    EXTRACT_TIMEOUT_MS = 600000,
    /* How often one that waits looks: whoever has waited is woken within it. */
    LOOK_EVERY_MS = 150,
    /* Owners give a sign of life each second. */
    STALE_AFTER_MS = 3500,
    CLAIM_MARGIN_SECONDS = 60,
    CLAIM_SECONDS = 900,
    TRIES = 3,
    NUMBER_SIZE = 24,
};

/* A deploy on its way. */
struct deploy {
    struct sandbox *sandbox;
    const struct deploy_plan *plan;
    const struct deploy_artifact *artifact;
    struct arena *arena; /* the job's */
    const char *remote_dir;
    char bundle_name[REMOTE_NONCE_LENGTH + 1];
    struct bundle bundle;
    uint32_t parts;
    const char *launch_text;
    /* the lock that is waited for */
    char seen[512];
    uint64_t seen_at_ms;
    uint64_t waiting_since_ms; /* 0: not waiting */
};

enum step { STEP_ERROR = -1, STEP_DONE, STEP_BEGIN, STEP_UPLOAD, STEP_APPLY };

static void tell(const struct deploy *deploy, const char *phase, uint64_t bytes,
                 uint64_t total_bytes)
{
    const struct deploy_request *request = deploy->plan->request;
    if (request->on_progress)
        request->on_progress(request->on_progress_arg, phase, bytes, total_bytes, NULL);
}

static void tell_line(void *arg, const char *line)
{
    const struct deploy *deploy = arg;
    const struct deploy_request *request = deploy->plan->request;
    request->on_progress(request->on_progress_arg, "install", 0, 0, line);
}

/* ---- errors ---- */

static const char *phase_title(const char *phase)
{
    return strcmp(phase, "install") == 0  ? "install"
           : strcmp(phase, "launch") == 0 ? "launch"
                                          : "upload";
}

static void set_phase(struct error *err, const char *phase)
{
    (void)snprintf(err->phase, sizeof(err->phase), "%s", phase);
}

/* A step in the sandbox went wrong: message and detail as the original words them. */
static int refuse_failed(const struct deploy *deploy, const struct answer *answer,
                         struct error *err)
{
    const char *phase = phase_title(answer->phase ? answer->phase : "upload");
    const char *what = answer->what ? answer->what : "prepare worker execution";
    const char *text = answer->message ? answer->message : "";
    if (answer->late)
        (void)error_set(err, ERROR_DEPLOY_FAILED,
                        "Worker %s failed: %s took longer than install_timeout_ms", phase,
                        what);
    else if (strcmp(phase, "launch") == 0)
        (void)error_set(err, ERROR_DEPLOY_FAILED, "Worker launch failed: %s",
                        *text ? text : what);
    else if (answer->has_exit_code)
        (void)error_set(err, ERROR_DEPLOY_FAILED,
                        "Worker %s failed: Command failed inside sandbox (exit %d): %s\n%s",
                        phase, answer->exit_code, what, text);
    else
        (void)error_set(err, ERROR_DEPLOY_FAILED,
                        "Worker %s failed: Command failed inside sandbox: %s\n%s", phase,
                        what, text);
    set_phase(err, phase);
    err->detail = *text ? arena_text(deploy->arena, text) : NULL;
    err->has_exit_code = answer->has_exit_code;
    err->exit_code = answer->exit_code;
    return STEP_ERROR;
}

static int refuse_missing(const struct answer *answer, struct error *err)
{
    const char *tool = answer->tool ? answer->tool : "sh";
    (void)error_set(err, ERROR_CAPABILITY_UNAVAILABLE,
                    "The sandbox has no program \"%.64s\", which deploying needs.", tool);
    (void)snprintf(err->capability, sizeof(err->capability), "%.31s", tool);
    err->remedy = "use an image that has it (busybox has all that deploys need)";
    return STEP_ERROR;
}

static int refuse_foreign(const struct deploy *deploy, struct error *err)
{
    (void)error_set_field(err, "execution_id",
                          "execution \"%s\" exists already and was not started by this job",
                          deploy->plan->request->execution_id);
    err->remedy = "choose another execution_id, or attach to this one";
    return STEP_ERROR;
}

static int refuse_locked(const struct deploy *deploy, const char *name, bool foreign,
                         struct error *err)
{
    const char *phase = strcmp(name, "install") == 0 ? "install" : "upload";
    (void)error_set(
        err, ERROR_DEPLOY_FAILED,
        "Worker %s failed: %s lock timeout, somebody else has held it for %llu ms", phase,
        name, (unsigned long long)(clock_boot_ms() - deploy->waiting_since_ms));
    set_phase(err, phase);
    err->retryable = true;
    if (foreign)
        err->remedy = "a deploy of another program holds the lock, or died with it: where "
                      "none is running, remove .mastra-artifact-lock and "
                      ".mastra-install-lock in the remote directory";
    return STEP_ERROR;
}

/* ---- commands ---- */

struct command {
    const char *program;
    const char *const *arguments;
    const char *nonce;
    uint64_t timeout_ms;
    bool checks_limits;
};

/* Runs a program and reads what it says; the facts, if any, are in ret_exec. All of it
 * lives in scratch. */
SUSPENDS static int run_command(const struct deploy *deploy, const struct command *command,
                                struct arena *scratch, struct answer *ret_answer,
                                struct exec_result *ret_exec, struct error *err)
{
    struct exec_request request = {
        .timeout_ms = command->timeout_ms,
        .output_limit_bytes = OUTPUT_LIMIT_BYTES,
        .request_id = deploy->plan->request->job_id,
    };
    size_t limit = deploy->sandbox->provider->limits.max_script_bytes;
    if (remote_compose(command->program, command->arguments, limit, scratch,
                       &request.script, err) != 0)
        return -1;
    if (sandbox_exec(deploy->sandbox, &request, scratch, ret_exec, err) != 0) {
        (void)ending_map_error(err);
        if (err->code == ERROR_OUTCOME_UNKNOWN) {
            /* Every step may be run again. */
            err->code = ERROR_PROVIDER_UNAVAILABLE;
            err->retryable = true;
        }
        return -1;
    }
    if (answer_read(ret_exec->out.data, ret_exec->out.size, command->nonce, scratch,
                    ret_answer, err) == 0)
        return 0;
    if (ret_exec->end == EXEC_EXITED && ret_exec->exit_code == 0)
        return -1;
    if (command->checks_limits && ret_exec->end == EXEC_EXITED &&
        limits_judge(ret_exec, deploy->arena, err) != 0)
        return -1;
    return ending_map(ret_exec, "a step of the deploy", deploy->arena, err);
}

/* What the look at the end of a program saw. */
static int read_facts(const struct deploy *deploy, const char *nonce,
                      const struct exec_result *exec, struct status *ret_status,
                      struct error *err)
{
    struct look_request request = {.remote_dir = deploy->remote_dir,
                                   .execution_id = deploy->plan->request->execution_id};
    struct look look = {0};
    (void)snprintf(request.nonce, sizeof(request.nonce), "%s", nonce);
    if (look_parse(exec->out.data, exec->out.size, &request, deploy->arena, &look, err) !=
        0)
        return -1;
    if (status_judge(&look.observation, request.execution_id, deploy->arena, ret_status) !=
        0)
        return error_set_memory(err, "a status");
    return 0;
}

/* ---- waiting for others ---- */

/* The part of a lock's description that says what was seen of it. */
static const char *seen_part(const char *lock)
{
    const char *space = strchr(lock, ' ');
    space = space ? strchr(space + 1, ' ') : NULL;
    return space ? space + 1 : "";
}

/* What is to be given as STALE: a lock that has stood still for long enough. */
static const char *stale_lock(const struct deploy *deploy)
{
    if (!deploy->seen[0] || clock_boot_ms() - deploy->seen_at_ms < STALE_AFTER_MS)
        return "";
    return seen_part(deploy->seen);
}

SUSPENDS static int wait_for_lock(struct deploy *deploy, const struct answer *answer,
                                  struct error *err)
{
    const char *lock = answer->lock ? answer->lock : "";
    uint64_t now_ms = clock_boot_ms();
    char name[32];
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(lock, " "), lock);
    if (deploy->waiting_since_ms == 0)
        deploy->waiting_since_ms = now_ms;
    if (strncmp(deploy->seen, lock, sizeof(deploy->seen) - 1) != 0) {
        (void)snprintf(deploy->seen, sizeof(deploy->seen), "%s", lock);
        deploy->seen_at_ms = now_ms;
    }
    if (now_ms - deploy->waiting_since_ms > deploy->plan->install_timeout_ms)
        return refuse_locked(deploy, name, strstr(lock, " foreign ") != NULL, err);
    int result = task_sleep(LOOK_EVERY_MS);
    return result ? error_set_wait(err, result, "wait for another deploy") : 0;
}

static void stop_waiting(struct deploy *deploy)
{
    deploy->waiting_since_ms = 0;
    deploy->seen[0] = '\0';
}

/* ---- begin ---- */

static const char *limit_text(uint64_t limit, char text[NUMBER_SIZE])
{
    if (limit == 0)
        return "";
    (void)snprintf(text, NUMBER_SIZE, "%llu", (unsigned long long)limit);
    return text;
}

/* For how long nobody else may take the id: as long as this attempt may last. */
static const char *claim_seconds(char text[NUMBER_SIZE])
{
    uint64_t left_ms = deadline_left_ms();
    uint64_t seconds = left_ms == UINT64_MAX ? CLAIM_SECONDS : left_ms / 1000;
    (void)snprintf(text, NUMBER_SIZE, "%llu",
                   (unsigned long long)(seconds + CLAIM_MARGIN_SECONDS));
    return text;
}

/* The programs that the sandbox has to have, behind the fixed arguments. */
static size_t add_tools(const struct deploy *deploy, const char **arguments, size_t count)
{
    const struct deploy_request *request = deploy->plan->request;
    bool uploads = !request->again || request->input.given;
    arguments[count++] = "setsid";
    arguments[count++] = "sleep";
    arguments[count++] = "chmod";
    arguments[count++] = "cat";
    arguments[count++] = "tr";
    if (request->again)
        arguments[count++] = "cp";
    if (uploads) {
        arguments[count++] = "wc";
        arguments[count++] = "head";
        arguments[count++] = "tail";
        if (!sandbox_can(deploy->sandbox, CAPABILITY_WRITE_FILE))
            arguments[count++] = "base64";
    }
    if (deploy->artifact->source) {
        arguments[count++] = "tar";
        arguments[count++] = "gzip";
    }
    arguments[count] = NULL;
    return count;
}

static int learn_directory(struct deploy *deploy, const struct answer *answer,
                           struct error *err)
{
    if (deploy->remote_dir)
        return 0;
    if (!answer->remote_dir)
        return error_set_field(err, "remote_dir",
                               "Could not resolve the sandbox home directory. Pass "
                               "`remoteDir` explicitly.");
    deploy->remote_dir = arena_text(deploy->arena, answer->remote_dir);
    return deploy->remote_dir ? 0 : error_set_memory(err, "a directory");
}

static int refuse_no_launch(const struct deploy *deploy, struct error *err)
{
    (void)error_set_field(err, "from_execution_id",
                          "execution \"%s\" has no recorded launch of ours to run again",
                          deploy->plan->request->from_execution_id);
    err->remedy = "deploy it instead";
    return STEP_ERROR;
}

SUSPENDS static int after_begin(struct deploy *deploy, const char *nonce,
                                const struct answer *answer, const struct exec_result *exec,
                                struct status *ret_status, struct error *err)
{
    assert(answer->result);
    if (strcmp(answer->result, "missing") == 0)
        return refuse_missing(answer, err);
    if (learn_directory(deploy, answer, err) != 0)
        return STEP_ERROR;
    if (strcmp(answer->result, "busy") == 0)
        return wait_for_lock(deploy, answer, err) == 0 ? STEP_BEGIN : STEP_ERROR;
    stop_waiting(deploy);
    if (strcmp(answer->result, "ready") == 0)
        return STEP_UPLOAD;
    if (strcmp(answer->result, "launched") == 0)
        return read_facts(deploy, nonce, exec, ret_status, err) == 0 ? STEP_DONE
                                                                     : STEP_ERROR;
    if (strcmp(answer->result, "foreign") == 0)
        return refuse_foreign(deploy, err);
    if (strcmp(answer->result, "no-launch") == 0)
        return refuse_no_launch(deploy, err);
    return refuse_failed(deploy, answer, err);
}

SUSPENDS static int begin(struct deploy *deploy, struct status *ret_status,
                          struct error *err)
{
    arena_scoped struct arena *scratch = arena_new(SCRATCH_BYTES);
    const struct deploy_request *request = deploy->plan->request;
    const struct limits *limits = &deploy->plan->launch.limits;
    char nonce[REMOTE_NONCE_LENGTH + 1];
    char numbers[5][NUMBER_SIZE];
    const char *arguments[32] = {
        nonce,
        request->remote_dir ? request->remote_dir : "",
        request->execution_id,
        request->job_id,
        request->again ? request->from_execution_id : "",
        claim_seconds(numbers[0]),
        stale_lock(deploy),
        limit_text(limits->cpu_time_seconds, numbers[1]),
        limit_text(limits->address_space_bytes, numbers[2]),
        limit_text(limits->file_size_bytes, numbers[3]),
        limit_text(limits->open_files, numbers[4]),
    };
    const struct command command = {
        .program = remote_begin_sh,
        .arguments = arguments,
        .nonce = nonce,
        .timeout_ms = BEGIN_TIMEOUT_MS,
        .checks_limits = limits_are_set(limits),
    };
    struct answer answer = {0};
    struct exec_result exec = {0};
    if (!scratch)
        return error_set_memory(err, "a command");
    remote_nonce(nonce);
    (void)add_tools(deploy, arguments, 11);
    if (run_command(deploy, &command, scratch, &answer, &exec, err) != 0)
        return STEP_ERROR;
    return after_begin(deploy, nonce, &answer, &exec, ret_status, err);
}

/* ---- upload ---- */

static void tell_upload(void *arg, uint64_t bytes)
{
    const struct deploy *deploy = arg;
    tell(deploy, "upload", bytes, deploy->bundle.source.bytes);
}

/* What is the sandbox's own trouble with a file is the upload's failure. */
static int refuse_upload(struct error *err)
{
    bool is_ours = err->code == ERROR_PROVIDER_UNAVAILABLE ||
                   err->code == ERROR_COMMAND_FAILED || err->code == ERROR_INVALID_ARGUMENT;
    if (!is_ours)
        return STEP_ERROR;
    bool retryable = err->retryable;
    err->code = ERROR_DEPLOY_FAILED;
    err->field[0] = '\0';
    set_phase(err, "upload");
    (void)error_wrap(err, "Worker upload failed");
    err->retryable = retryable;
    return STEP_ERROR;
}

/* The id is not to stay taken by what never came. Where this fails too, the claim runs out
 * by itself. */
SUSPENDS static void abandon(const struct deploy *deploy, const char *message)
{
    arena_scoped struct arena *scratch = arena_new(SCRATCH_BYTES);
    char nonce[REMOTE_NONCE_LENGTH + 1];
    const char *const arguments[] = {nonce,
                                     deploy->remote_dir,
                                     deploy->plan->request->execution_id,
                                     deploy->plan->request->job_id,
                                     message,
                                     NULL};
    const struct command command = {.program = remote_abandon_sh,
                                    .arguments = arguments,
                                    .nonce = nonce,
                                    .timeout_ms = ABANDON_TIMEOUT_MS};
    struct answer answer;
    struct exec_result exec;
    struct error ignored = {0};
    remote_nonce(nonce);
    if (!scratch || run_command(deploy, &command, scratch, &answer, &exec, &ignored) != 0)
        log_debug("a deploy could not be given up in its sandbox, ignoring",
                  log_text("error", ignored.message));
}

SUSPENDS static int upload(struct deploy *deploy, struct error *err)
{
    const struct deploy_request *request = deploy->plan->request;
    struct upload upload = {
        .source = &deploy->bundle.source,
        .request_id = request->job_id,
        .on_progress = tell_upload,
        .on_progress_arg = deploy,
    };
    remote_nonce(deploy->bundle_name);
    deploy->parts = 0;
    if (deploy->bundle.source.bytes == 0 && !request->input.given)
        return STEP_APPLY;
    upload.path = arena_printf(deploy->arena, "%s/%s/%s/bundle.attachd.%s",
                               deploy->remote_dir, LAYOUT_EXECUTIONS_DIRECTORY,
                               request->execution_id, deploy->bundle_name);
    if (!upload.path)
        return error_set_memory(err, "a path");
    tell_upload(deploy, 0);
    if (upload_send(deploy->sandbox, &upload, &deploy->parts, err) == 0)
        return STEP_APPLY;
    (void)refuse_upload(err);
    if (err->code == ERROR_DEPLOY_FAILED)
        abandon(deploy, err->message);
    return STEP_ERROR;
}

/* ---- apply ---- */

static uint64_t apply_timeout_ms(const struct deploy *deploy)
{
    const char *hash = deploy->artifact->install_hash;
    uint64_t install_ms = hash && *hash ? deploy->plan->install_timeout_ms : 0;
    return EXTRACT_TIMEOUT_MS + install_ms + deploy->plan->startup_timeout_ms;
}

/* The long command, with a look at the installation's output beside it where somebody is to
 * be told. */
SUSPENDS static int run_watched(struct deploy *deploy, const struct command *command,
                                struct arena *scratch, struct answer *ret_answer,
                                struct exec_result *ret_exec, struct error *err)
{
    const struct deploy_request *request = deploy->plan->request;
    const char *hash = deploy->artifact->install_hash;
    bool installs = hash && *hash;
    if (!installs || !request->on_progress) {
        tell(deploy, "start", 0, 0);
        return run_command(deploy, command, scratch, ret_answer, ret_exec, err);
    }
    struct watch watch = {
        .sandbox = deploy->sandbox,
        .path = arena_printf(scratch, "%s/%s/%s/install.attachd", deploy->remote_dir,
                             LAYOUT_EXECUTIONS_DIRECTORY, request->execution_id),
        .on_line = tell_line,
        .on_line_arg = deploy,
    };
    if (!watch.path)
        return error_set_memory(err, "a path");
    tell(deploy, "install", 0, 0);
    watch_begin(&watch);
    int failed = run_command(deploy, command, scratch, ret_answer, ret_exec, err);
    watch_end(&watch);
    if (!failed)
        tell(deploy, "start", 0, 0);
    return failed;
}

SUSPENDS static int after_apply(struct deploy *deploy, const char *nonce,
                                const struct answer *answer, const struct exec_result *exec,
                                struct status *ret_status, struct error *err)
{
    assert(answer->result); /* answer_read gives none without */
    if (strcmp(answer->result, "busy") == 0)
        return wait_for_lock(deploy, answer, err) == 0 ? STEP_APPLY : STEP_ERROR;
    stop_waiting(deploy);
    if (strcmp(answer->result, "launched") == 0)
        return read_facts(deploy, nonce, exec, ret_status, err) == 0 ? STEP_DONE
                                                                     : STEP_ERROR;
    if (strcmp(answer->result, "upload") == 0)
        return STEP_BEGIN;
    if (strcmp(answer->result, "foreign") == 0)
        return refuse_foreign(deploy, err);
    if (strcmp(answer->result, "incapable") == 0) {
        const struct exec_result preflight = {
            .end = EXEC_EXITED,
            .exit_code = 1,
            .err = {answer->message, answer->message ? strlen(answer->message) : 0, 0}};
        return limits_judge(&preflight, deploy->arena, err);
    }
    return refuse_failed(deploy, answer, err);
}

SUSPENDS static int apply(struct deploy *deploy, struct status *ret_status,
                          struct error *err)
{
    arena_scoped struct arena *scratch = arena_new(SCRATCH_BYTES);
    const struct deploy_plan *plan = deploy->plan;
    const struct deploy_request *request = plan->request;
    const struct file_source *archive = deploy->artifact->source;
    const char *hash = deploy->artifact->install_hash;
    char nonce[REMOTE_NONCE_LENGTH + 1];
    char numbers[7][NUMBER_SIZE];
    (void)snprintf(numbers[1], NUMBER_SIZE, "%u", deploy->parts);
    (void)snprintf(numbers[2], NUMBER_SIZE, "%zu", deploy->bundle.launch.size);
    (void)snprintf(numbers[3], NUMBER_SIZE, "%lld",
                   request->input.given ? (long long)request->input.data.size : -1LL);
    (void)snprintf(numbers[4], NUMBER_SIZE, "%llu",
                   (unsigned long long)(archive ? archive->bytes : 0));
    (void)snprintf(numbers[5], NUMBER_SIZE, "%llu",
                   (unsigned long long)(plan->install_timeout_ms + 999) / 1000);
    (void)snprintf(numbers[6], NUMBER_SIZE, "%llu",
                   (unsigned long long)plan->startup_timeout_ms);
    const char *const arguments[] = {
        nonce,
        deploy->remote_dir,
        request->execution_id,
        request->job_id,
        stale_lock(deploy),
        request->again ? request->from_execution_id : "",
        claim_seconds(numbers[0]),
        deploy->bundle_name,
        numbers[1],
        numbers[2],
        numbers[3],
        numbers[4],
        plan->input_path ? plan->input_path : "",
        hash ? hash : "",
        request->again ? "" : request->install_command,
        numbers[5],
        numbers[6],
        NULL,
    };
    const struct command command = {.program = remote_apply_sh,
                                    .arguments = arguments,
                                    .nonce = nonce,
                                    .timeout_ms = apply_timeout_ms(deploy)};
    struct answer answer = {0};
    struct exec_result exec = {0};
    if (!scratch)
        return error_set_memory(err, "a command");
    remote_nonce(nonce);
    if (run_watched(deploy, &command, scratch, &answer, &exec, err) != 0)
        return STEP_ERROR;
    return after_apply(deploy, nonce, &answer, &exec, ret_status, err);
}

/* ---- the whole ---- */

SUSPENDS static int run_steps(struct deploy *deploy, struct status *ret_status,
                              struct error *err)
{
    int tries = TRIES;
    int step = STEP_BEGIN;
    while (step != STEP_DONE) {
        switch (step) {
        case STEP_BEGIN:
            step = begin(deploy, ret_status, err);
            break;
        case STEP_UPLOAD:
            if (tries-- == 0)
                return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                                 "what is uploaded does not stay in the sandbox");
            step = upload(deploy, err);
            break;
        case STEP_APPLY:
            step = apply(deploy, ret_status, err);
            break;
        default:
            return -1;
        }
    }
    return 0;
}

/* Whether it runs, or ran: whatever came of it later is its status, not the deploy's
 * failure. */
static int judge_start(const struct status *status, struct error *err)
{
    bool is_late = status->state == STATUS_TIMED_OUT && status->phase &&
                   strcmp(status->phase, "startup") == 0;
    if (!is_late && status->state != STATUS_FAILED && status->state != STATUS_UNKNOWN)
        return 0;
    (void)error_set(err, ERROR_DEPLOY_FAILED, "Worker %s during startup%s%s",
                    status_state_name(status->state), status->message ? ": " : ".",
                    status->message ? status->message : "");
    set_phase(err, "startup");
    return -1;
}

static int prepare(struct deploy *deploy, struct error *err)
{
    const struct deploy_request *request = deploy->plan->request;
    struct span launch = {0};
    struct span input = {0};
    if (!request->again) {
        if (launch_compose(&deploy->plan->launch, deploy->arena, &launch.data, &launch.size,
                           err) != 0)
            return -1;
    }
    if (request->input.given)
        input = request->input.data;
    bundle_init(&deploy->bundle, launch, input, deploy->artifact->source);
    return 0;
}

int deploy_run(struct sandbox *sandbox, const struct deploy_plan *plan,
               const struct deploy_artifact *artifact, struct arena *arena,
               struct attach_result *ret_result, struct error *err)
{
    struct attach_result result = {0};
    struct deploy *deploy = arena_calloc(arena, 1, sizeof(*deploy));
    if (!deploy)
        return error_set_memory(err, "a deploy");
    *deploy = (struct deploy){.sandbox = sandbox,
                              .plan = plan,
                              .artifact = artifact,
                              .arena = arena,
                              .remote_dir = plan->request->remote_dir};
    const struct ready_request wanted = {.wake = plan->request->wake, .must_run = true};
    struct ready ready;
    if (prepare(deploy, err) != 0 ||
        ready_check(sandbox, &wanted, arena, &ready, err) != 0 ||
        run_steps(deploy, &result.status, err) != 0 ||
        judge_start(&result.status, err) != 0)
        return -1;
    result.expires_at_ms = ready.expires_at_ms;
    result.remote_dir = deploy->remote_dir;
    *ret_result = result;
    return 0;
}
