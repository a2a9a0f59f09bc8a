/* Packed by msgpack-c straight into the buffer. */
#include "ctl/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <msgpack.h>

#include "ctl/pack.h"
#include "ctl/request_launch.h"

static const struct {
    enum command command;
    enum job_op op;
} operations[] = {
    {COMMAND_ATTACH, JOB_ATTACH},
    {COMMAND_STATUS, JOB_STATUS},
    {COMMAND_READ_OUTPUT, JOB_READ_OUTPUT},
    {COMMAND_DEPLOY, JOB_DEPLOY},
    {COMMAND_RELAUNCH, JOB_RELAUNCH},
    {COMMAND_CANCEL, JOB_CANCEL},
    {COMMAND_LOGS, JOB_ATTACH},
    {COMMAND_STOP, JOB_STOP},
    {COMMAND_DESTROY, JOB_DESTROY},
    {COMMAND_INFO, JOB_INFO},
};

bool request_op(enum command command, enum job_op *ret_op)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (operations[i].command == command) {
            *ret_op = operations[i].op;
            return true;
        }
    }
    return false;
}

int request_make_id(char id[REQUEST_ID_SIZE], struct error *err)
{
    unsigned char random[16];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return error_set(err, ERROR_INTERNAL, "no random bytes for a job id: %s",
                         strerror(errno));
    int length = snprintf(id, REQUEST_ID_SIZE, "ctl-");
    for (size_t i = 0; i < sizeof(random); i++)
        length +=
            snprintf(id + length, REQUEST_ID_SIZE - (size_t)length, "%02x", random[i]);
    return 0;
}

/* The packer drops what its writer says, so it is kept here. */
struct writer {
    struct buffer *out;
    int failed;
};

static int append_packed(void *arg, const char *data, size_t size)
{
    struct writer *writer = arg;
    if (!writer->failed)
        writer->failed = buffer_append(writer->out, data, size);
    return writer->failed;
}

static size_t pack_read(msgpack_packer *packer, const struct request_read *read)
{
    if (!read)
        return 0;
    if (packer) {
        pack_text(packer, "read");
        (void)msgpack_pack_map(packer, 2);
        pack_text(packer, "stdout");
        (void)msgpack_pack_int64(packer, read->stdout_offset);
        pack_text(packer, "stderr");
        (void)msgpack_pack_int64(packer, read->stderr_offset);
    }
    return 1;
}

static void pack_sandbox(msgpack_packer *packer, const struct options *options)
{
    pack_text(packer, "sandbox");
    (void)msgpack_pack_map(packer, 2 + options->setting_count);
    (void)pack_key_text(packer, "provider", options->provider);
    (void)pack_key_text(packer, "id", options->sandbox);
    for (size_t i = 0; i < options->setting_count; i++) {
        const struct options_setting *setting = &options->settings[i];
        pack_text_n(packer, setting->name, setting->name_bytes);
        pack_text(packer, setting->value);
    }
}

static size_t pack_optional(msgpack_packer *packer, const struct request *request)
{
    const struct options *options = request->options;
    return pack_key_text(packer, "execution_id", options->execution_id) +
           pack_key_text(packer, "remote_dir", options->remote_dir) +
           pack_key_true(packer, "wake", options->wake) + pack_read(packer, request->read) +
           pack_key_text(packer, "stream", options->stream) +
           pack_key_number(packer, "offset", options->offset) +
           pack_key_number(packer, "max_bytes", options->max_bytes) +
           pack_key_number(packer, "termination_grace_ms", options->grace_ms) +
           pack_key_number(packer, "attempts", options->attempts) +
           pack_key_number(packer, "delay_ms", options->delay_ms) +
           pack_key_number(packer, "timeout_ms", options->timeout_ms) +
           pack_key_number(packer, "deadline_ms", request->deadline_unix_ms) +
           pack_key_true(packer, "progress", request->progress) +
           (request->payload ? request_launch_pack(packer, options, request->payload) : 0);
}

static void pack_job(msgpack_packer *packer, const struct request *request, enum job_op op)
{
    (void)msgpack_pack_map(packer, 4 + pack_optional(NULL, request));
    (void)pack_key_number(packer, "v", JOB_VERSION);
    (void)pack_key_text(packer, "id", request->id);
    (void)pack_key_text(packer, "op", job_op_name(op));
    pack_sandbox(packer, request->options);
    (void)pack_optional(packer, request);
}

int request_pack(const struct request *request, struct arena *arena, struct buffer *out,
                 struct error *err)
{
    enum job_op op = JOB_STATUS;
    struct job job;
    struct writer writer = {.out = out};
    msgpack_packer packer;
    size_t before = out->size;
    if (!request_op(request->options->command, &op))
        return error_set(err, ERROR_INTERNAL, "the command is no operation");
    msgpack_packer_init(&packer, &writer, append_packed);
    pack_job(&packer, request, op);
    if (writer.failed == -EMSGSIZE)
        return error_set(err, ERROR_CONFIGURATION,
                         "archive, input and all the rest are more than the %zu bytes that "
                         "a job can have; a larger archive is given by --url or "
                         "--artifact-dir",
                         out->max_bytes);
    if (writer.failed)
        return error_set_memory(err, "a job");
    if (job_read(out->data + before, out->size - before, arena, &job, err) != 0)
        return -1;
    return job_read_arguments(&job, arena, err);
}
