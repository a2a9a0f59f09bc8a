/* Jobs become requests of execution/, their results become MessagePack. */
#include "worker/operation.h"

#include <string.h>

#include "execution/artifact.h"
#include "execution/attach.h"
#include "execution/cancel.h"
#include "execution/deploy.h"
#include "execution/lifecycle.h"
#include "queue/progress.h"
#include "queue/reply.h"

/* What a writer of a result needs to know. */
struct answer_parts {
    const struct job *job;
    const struct sandbox *sandbox;
    struct attach_result attach;
    struct sandbox_info info;
    struct destroy_result destroy;
    const char *const *capabilities;
};

const char *const *operation_capabilities(const struct provider *provider,
                                          const struct sandbox *sandbox,
                                          struct arena *arena)
{
    const char **names = arena_calloc(arena, CAPABILITY_COUNT + 1, sizeof(*names));
    size_t count = 0;
    if (!names)
        return NULL;
    for (int i = 0; i < CAPABILITY_COUNT; i++) {
        enum capability capability = (enum capability)i;
        if (sandbox ? sandbox_can(sandbox, capability) : provider_can(provider, capability))
            names[count++] = capability_name(capability);
    }
    return names;
}

static void pack_key(msgpack_packer *packer, const char *key)
{
    reply_pack_text(packer, key);
}

static void pack_names(msgpack_packer *packer, const char *const *names)
{
    size_t count = 0;
    while (names[count])
        count++;
    msgpack_pack_array(packer, count);
    for (size_t i = 0; i < count; i++)
        reply_pack_text(packer, names[i]);
}

static void pack_expiry(msgpack_packer *packer, int64_t expires_at_ms)
{
    pack_key(packer, "expires_at_ms");
    if (expires_at_ms < 0)
        msgpack_pack_nil(packer);
    else
        msgpack_pack_int64(packer, expires_at_ms);
}

/* One optional text member of a status: counted in the first pass, packed in the second. */
static size_t pack_optional(msgpack_packer *packer, const char *key, const char *text)
{
    if (!text)
        return 0;
    if (packer)
        reply_pack_key_text(packer, key, text);
    return 1;
}

static size_t pack_status_members(msgpack_packer *packer, const struct status *status)
{
    size_t count = 0;
    if (status->has_exit_code) {
        count++;
        if (packer)
            reply_pack_key_int(packer, "exit_code", status->exit_code);
    }
    if (status->state == STATUS_RESOURCE_EXHAUSTED) {
        count++;
        if (packer)
            reply_pack_key_int(packer, "limit", status->limit);
    }
    count += pack_optional(packer, "signal", status->signal);
    count += pack_optional(packer, "resource", status->resource);
    count += pack_optional(packer, "phase", status->phase);
    count += pack_optional(packer, "message", status->message);
    count += pack_optional(packer, "reason", status->reason);
    count += pack_optional(packer, "provider_state", status->provider_state);
    return count;
}

static void pack_status(msgpack_packer *packer, const struct status *status)
{
    msgpack_pack_map(packer, 1 + pack_status_members(NULL, status));
    reply_pack_key_text(packer, "state", status_state_name(status->state));
    (void)pack_status_members(packer, status);
}

static void pack_piece(msgpack_packer *packer, const struct output_piece *piece)
{
    msgpack_pack_map(packer, 8);
    reply_pack_key_text(packer, "stream", output_stream_name(piece->stream));
    reply_pack_key_bin(packer, "data", piece->data, piece->size);
    reply_pack_key_int(packer, "offset", (int64_t)piece->offset);
    reply_pack_key_int(packer, "next_offset", (int64_t)piece->next_offset);
    reply_pack_key_int(packer, "total_bytes", (int64_t)piece->total_bytes);
    reply_pack_key_bool(packer, "eof", piece->eof);
    reply_pack_key_bool(packer, "truncated", piece->truncated);
    reply_pack_key_bool(packer, "interrupted", piece->interrupted);
}

static void pack_output(msgpack_packer *packer, const struct attach_result *attach)
{
    msgpack_pack_map(packer, (size_t)attach->has_stdout + (size_t)attach->has_stderr);
    if (attach->has_stdout) {
        pack_key(packer, "stdout");
        pack_piece(packer, &attach->stdout_piece);
    }
    if (attach->has_stderr) {
        pack_key(packer, "stderr");
        pack_piece(packer, &attach->stderr_piece);
    }
}

static void write_handle(msgpack_packer *packer, const void *arg)
{
    const struct answer_parts *parts = arg;
    bool has_output = parts->attach.has_stdout || parts->attach.has_stderr;
    msgpack_pack_map(packer, 7 + (size_t)has_output);
    reply_pack_key_text(packer, "provider", parts->sandbox->provider_name);
    reply_pack_key_text(packer, "sandbox_id", parts->sandbox->id);
    reply_pack_key_text(packer, "execution_id", parts->job->execution_id);
    reply_pack_key_text(packer, "remote_dir", parts->attach.remote_dir);
    pack_expiry(packer, parts->attach.expires_at_ms);
    pack_key(packer, "capabilities");
    pack_names(packer, parts->capabilities);
    pack_key(packer, "status");
    pack_status(packer, &parts->attach.status);
    if (has_output) {
        pack_key(packer, "output");
        pack_output(packer, &parts->attach);
    }
}

static void write_status(msgpack_packer *packer, const void *arg)
{
    const struct answer_parts *parts = arg;
    msgpack_pack_map(packer, 1);
    pack_key(packer, "status");
    pack_status(packer, &parts->attach.status);
}

static void write_piece(msgpack_packer *packer, const void *arg)
{
    const struct answer_parts *parts = arg;
    pack_piece(packer, parts->attach.has_stdout ? &parts->attach.stdout_piece
                                                : &parts->attach.stderr_piece);
}

static void write_info(msgpack_packer *packer, const void *arg)
{
    const struct answer_parts *parts = arg;
    msgpack_pack_map(packer, 4);
    reply_pack_key_text(packer, "sandbox_id", parts->sandbox->id);
    reply_pack_key_text(packer, "provider_state", sandbox_state_name(parts->info.state));
    pack_expiry(packer, parts->info.expires_at_ms);
    pack_key(packer, "capabilities");
    pack_names(packer, parts->capabilities);
}

static void write_stopped(msgpack_packer *packer, const void *arg)
{
    (void)arg;
    msgpack_pack_map(packer, 1);
    reply_pack_key_text(packer, "state", sandbox_state_name(SANDBOX_STOPPED));
}

static void write_destroy(msgpack_packer *packer, const void *arg)
{
    const struct destroy_result *destroy = &((const struct answer_parts *)arg)->destroy;
    msgpack_pack_map(packer, 2 + (size_t)(destroy->message != NULL));
    reply_pack_key_text(packer, "state", destroy_state_name(destroy->state));
    reply_pack_key_int(packer, "attempts", destroy->attempts);
    (void)pack_optional(packer, "message", destroy->message);
}

static struct output_request output_request_of(const struct job_read_stream *stream)
{
    return (struct output_request){
        .wanted = stream->wanted, .offset = stream->offset, .max_bytes = stream->max_bytes};
}

SUSPENDS static int run_look(const struct operation_request *wanted, struct arena *arena,
                             struct answer_parts *parts, struct error *err)
{
    const struct job *job = wanted->job;
    const struct attach_request request = {
        .execution_id = job->execution_id,
        .remote_dir = job->remote_dir,
        .wake = job->wake,
        .must_run = job->op == JOB_READ_OUTPUT,
        .stdout_request = output_request_of(&job->read_stdout),
        .stderr_request = output_request_of(&job->read_stderr),
        .request_id = job->id,
    };
    return attach_look(wanted->sandbox, &request, arena, &parts->attach, err);
}

SUSPENDS static int run_cancel(const struct operation_request *wanted, struct arena *arena,
                               struct answer_parts *parts, struct error *err)
{
    const struct job *job = wanted->job;
    const struct cancel_request request = {
        .execution_id = job->execution_id,
        .remote_dir = job->remote_dir,
        .wake = job->wake,
        .grace_ms = job->termination_grace_ms,
        .attempt_ms = job->timeout_ms,
        .request_id = job->id,
    };
    return cancel_execution(wanted->sandbox, &request, arena, &parts->attach.status, err);
}

SUSPENDS static int run_info(const struct operation_request *request, struct arena *arena,
                             struct answer_parts *parts, struct error *err)
{
    struct info_result result;
    if (attach_info(request->sandbox, arena, &result, err) != 0)
        return -1;
    parts->info = result.info;
    return 0;
}

SUSPENDS static int run_stop(const struct operation_request *request, struct arena *arena,
                             struct answer_parts *parts, struct error *err)
{
    (void)arena;
    (void)parts;
    return lifecycle_stop(request->sandbox, err);
}

SUSPENDS static int run_destroy(const struct operation_request *request,
                                struct arena *arena, struct answer_parts *parts,
                                struct error *err)
{
    const struct job_destroy *job = &request->job->destroy;
    const struct destroy_request wanted = {job->attempts, job->delay_ms};
    return lifecycle_destroy(request->sandbox, &wanted, arena, &parts->destroy, err);
}

/* ---- deploy and relaunch ---- */

static int copy_env(const struct job_deploy *job, struct arena *arena,
                    struct deploy_request *request)
{
    struct deploy_variable *env = arena_calloc(arena, job->env_count + 1, sizeof(*env));
    struct limits_entry *limits =
        arena_calloc(arena, job->limit_count + 1, sizeof(*limits));
    if (!env || !limits)
        return -1;
    for (size_t i = 0; i < job->env_count; i++)
        env[i] = (struct deploy_variable){job->env[i].name, job->env[i].value};
    for (size_t i = 0; i < job->limit_count; i++)
        limits[i] = (struct limits_entry){job->limits[i].name, job->limits[i].is_number,
                                          job->limits[i].value};
    request->env = env;
    request->env_count = job->env_count;
    request->limits = limits;
    request->limit_count = job->limit_count;
    return 0;
}

static int deploy_request_of(const struct job *job, struct arena *arena,
                             struct deploy_request *ret_request, struct error *err)
{
    const struct job_deploy *deploy = job->deploy;
    struct deploy_request request = {
        .job_id = job->id,
        .execution_id = job->execution_id,
        .remote_dir = job->remote_dir,
        .from_execution_id = deploy->from_execution_id,
        .again = job->op == JOB_RELAUNCH,
        .wake = job->wake,
        .command = deploy->command,
        .args = deploy->args,
        .arg_count = deploy->arg_count,
        .working_directory = deploy->working_directory,
        .input = {deploy->input.given, deploy->input.is_file, deploy->input.path,
                  deploy->input.data},
        .input_limit_bytes = deploy->input_limit_bytes,
        .startup_timeout_ms = deploy->startup_timeout_ms,
        .has_execution_timeout = deploy->has_execution_timeout,
        .execution_timeout_ms = deploy->execution_timeout_ms,
        .termination_grace_ms = job->termination_grace_ms,
        .install_timeout_ms = deploy->install_timeout_ms,
        .install_command = deploy->install_command,
    };
    if (copy_env(deploy, arena, &request) != 0)
        return error_set_memory(err, "a deploy");
    *ret_request = request;
    return 0;
}

static struct artifact_limits artifact_limits_of(const struct config *config)
{
    return (struct artifact_limits){.max_bytes = (uint64_t)config->artifact_max_bytes,
                                    .unpacked_max_bytes =
                                        (uint64_t)config->artifact_unpacked_max_bytes};
}

SUSPENDS static int get_artifact(const struct job_deploy *deploy,
                                 const struct config *config, struct arena *arena,
                                 struct artifact **ret_artifact, struct error *err)
{
    const struct job_artifact *origin = &deploy->artifact;
    const struct artifact_limits limits = artifact_limits_of(config);
    const struct artifact_address address = {
        .url = origin->url, .sha256 = origin->sha256, .hosts = config->artifact_hosts};
    switch (origin->kind) {
    case JOB_ARTIFACT_DATA:
        return artifact_from_data(origin->data.data, origin->data.size, &limits,
                                  deploy->install_command, arena, ret_artifact, err);
    case JOB_ARTIFACT_DIR:
        return artifact_from_dir(config->artifact_root, origin->dir, &limits,
                                 deploy->install_command, arena, ret_artifact, err);
    case JOB_ARTIFACT_URL:
        return artifact_from_url(&address, &limits, deploy->install_command, arena,
                                 ret_artifact, err);
    case JOB_ARTIFACT_NONE:
        break;
    }
    return error_set_field(err, "artifact",
                           "deploy needs an artifact: {data}, {dir} or {url, sha256}");
}

static void tell_progress(void *arg, const char *phase, uint64_t bytes,
                          uint64_t total_bytes, const char *line)
{
    struct progress_entry entry;
    progress_entry_set(&entry, phase, bytes, total_bytes, line, line ? strlen(line) : 0);
    progress_add(arg, &entry);
}

SUSPENDS static int run_deploy(const struct operation_request *request, struct arena *arena,
                               struct answer_parts *parts, struct error *err)
{
    const struct job *job = request->job;
    struct deploy_request wanted;
    struct deploy_plan plan;
    struct artifact *artifact = NULL;
    struct deploy_artifact uploaded = {0};
    struct progress progress;
    if (deploy_request_of(job, arena, &wanted, err) != 0)
        return -1;
    if (job->progress) {
        progress_init(&progress, request->queue, job->id);
        wanted.on_progress = tell_progress;
        wanted.on_progress_arg = &progress;
    }
    if (deploy_check(request->sandbox, &wanted, arena, &plan, err) != 0)
        return -1;
    if (job->op == JOB_DEPLOY) {
        if (get_artifact(job->deploy, request->config, arena, &artifact, err) != 0)
            return -1;
        uploaded = (struct deploy_artifact){&artifact->source, artifact->install_hash};
    }
    int failed = deploy_run(request->sandbox, &plan, &uploaded, arena, &parts->attach, err);
    artifact_done(artifact);
    return failed;
}

static const struct {
    enum capability needs; /* of the kind of sandbox; CAPABILITY_COUNT: nothing */
    SUSPENDS int (*run)(const struct operation_request *request, struct arena *arena,
                        struct answer_parts *parts, struct error *err);
    void (*write)(msgpack_packer *packer, const void *arg);
} operations[] = {
    [JOB_ATTACH] = {CAPABILITY_EXECUTE_COMMAND, run_look, write_handle},
    [JOB_STATUS] = {CAPABILITY_EXECUTE_COMMAND, run_look, write_status},
    [JOB_READ_OUTPUT] = {CAPABILITY_EXECUTE_COMMAND, run_look, write_piece},
    [JOB_CANCEL] = {CAPABILITY_EXECUTE_COMMAND, run_cancel, write_status},
    [JOB_INFO] = {CAPABILITY_COUNT, run_info, write_info},
    [JOB_DEPLOY] = {CAPABILITY_EXECUTE_COMMAND, run_deploy, write_handle},
    [JOB_RELAUNCH] = {CAPABILITY_EXECUTE_COMMAND, run_deploy, write_handle},
    [JOB_STOP] = {CAPABILITY_STOP, run_stop, write_stopped},
    [JOB_DESTROY] = {CAPABILITY_COUNT, run_destroy, write_destroy},
};

int operation_require(enum job_op op, const struct provider *provider, struct error *err)
{
    enum capability needs = operations[op].needs;
    return needs == CAPABILITY_COUNT ? 0 : provider_require(provider, needs, err);
}

int operation_run(const struct operation_request *request, struct arena *arena,
                  struct operation_result *ret_result, struct error *err)
{
    const struct sandbox *sandbox = request->sandbox;
    enum job_op op = request->job->op;
    struct answer_parts *parts = arena_calloc(arena, 1, sizeof(*parts));
    if (!parts)
        return error_set_memory(err, "a result");
    parts->job = request->job;
    parts->sandbox = sandbox;
    parts->capabilities = operation_capabilities(sandbox->provider, sandbox, arena);
    if (!parts->capabilities)
        return error_set_memory(err, "a result");
    if (operations[op].run(request, arena, parts, err) != 0)
        return -1;
    *ret_result = (struct operation_result){operations[op].write, parts};
    return 0;
}
