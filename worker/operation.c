/* Jobs become requests of execution/, their results become MessagePack. */
#include "worker/operation.h"

#include <string.h>

#include "execution/attach.h"
#include "execution/cancel.h"
#include "queue/reply.h"

/* What a writer of a result needs to know. */
struct answer_parts {
    const struct job *job;
    const struct sandbox *sandbox;
    struct attach_result attach;
    struct sandbox_info info;
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

static struct output_request output_request_of(const struct job_read_stream *stream)
{
    return (struct output_request){
        .wanted = stream->wanted, .offset = stream->offset, .max_bytes = stream->max_bytes};
}

SUSPENDS static int run_look(const struct job *job, struct sandbox *sandbox,
                             struct arena *arena, struct answer_parts *parts,
                             struct error *err)
{
    const struct attach_request request = {
        .execution_id = job->execution_id,
        .remote_dir = job->remote_dir,
        .wake = job->wake,
        .must_run = job->op == JOB_READ_OUTPUT,
        .stdout_request = output_request_of(&job->read_stdout),
        .stderr_request = output_request_of(&job->read_stderr),
        .request_id = job->id,
    };
    return attach_look(sandbox, &request, arena, &parts->attach, err);
}

SUSPENDS static int run_cancel(const struct job *job, struct sandbox *sandbox,
                               struct arena *arena, struct answer_parts *parts,
                               struct error *err)
{
    const struct cancel_request request = {
        .execution_id = job->execution_id,
        .remote_dir = job->remote_dir,
        .wake = job->wake,
        .grace_ms = job->termination_grace_ms,
        .attempt_ms = job->timeout_ms,
        .request_id = job->id,
    };
    return cancel_execution(sandbox, &request, arena, &parts->attach.status, err);
}

SUSPENDS static int run_info(const struct job *job, struct sandbox *sandbox,
                             struct arena *arena, struct answer_parts *parts,
                             struct error *err)
{
    struct info_result result;
    (void)job;
    if (attach_info(sandbox, arena, &result, err) != 0)
        return -1;
    parts->info = result.info;
    return 0;
}

static const struct {
    bool needs_exec;
    SUSPENDS int (*run)(const struct job *job, struct sandbox *sandbox, struct arena *arena,
                        struct answer_parts *parts, struct error *err);
    void (*write)(msgpack_packer *packer, const void *arg);
} operations[] = {
    [JOB_ATTACH] = {true, run_look, write_handle},
    [JOB_STATUS] = {true, run_look, write_status},
    [JOB_READ_OUTPUT] = {true, run_look, write_piece},
    [JOB_CANCEL] = {true, run_cancel, write_status},
    [JOB_INFO] = {false, run_info, write_info},
};

bool operation_needs_exec(enum job_op op)
{
    return operations[op].needs_exec;
}

int operation_run(const struct job *job, struct sandbox *sandbox, struct arena *arena,
                  struct operation_result *ret_result, struct error *err)
{
    struct answer_parts *parts = arena_calloc(arena, 1, sizeof(*parts));
    if (!parts)
        return error_set_memory(err, "a result");
    parts->job = job;
    parts->sandbox = sandbox;
    parts->capabilities = operation_capabilities(sandbox->provider, sandbox, arena);
    if (!parts->capabilities)
        return error_set_memory(err, "a result");
    if (operations[job->op].run(job, sandbox, arena, parts, err) != 0)
        return -1;
    *ret_result = (struct operation_result){operations[job->op].write, parts};
    return 0;
}
