/* Packed by msgpack-c straight into the buffer. */
#include "ctl/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <msgpack.h>

static const struct {
    enum command command;
    enum job_op op;
} operations[] = {
    {COMMAND_ATTACH, JOB_ATTACH},
    {COMMAND_STATUS, JOB_STATUS},
    {COMMAND_READ_OUTPUT, JOB_READ_OUTPUT},
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

static int append_packed(void *arg, const char *data, size_t size)
{
    return buffer_append(arg, data, size);
}

static void pack_text_n(msgpack_packer *packer, const char *text, size_t size)
{
    (void)msgpack_pack_str_with_body(packer, text, size);
}

static void pack_text(msgpack_packer *packer, const char *text)
{
    pack_text_n(packer, text, strlen(text));
}

/* Optional members are counted with a NULL packer first, since a map begins with its size.
 */
static size_t pack_key_text(msgpack_packer *packer, const char *key, const char *text)
{
    if (!text)
        return 0;
    if (packer) {
        pack_text(packer, key);
        pack_text(packer, text);
    }
    return 1;
}

/* Zero stands for left out: so are the protocol's defaults. */
static size_t pack_key_number(msgpack_packer *packer, const char *key, int64_t number)
{
    if (number == 0)
        return 0;
    if (packer) {
        pack_text(packer, key);
        (void)msgpack_pack_int64(packer, number);
    }
    return 1;
}

static size_t pack_key_true(msgpack_packer *packer, const char *key, bool wanted)
{
    if (!wanted)
        return 0;
    if (packer) {
        pack_text(packer, key);
        (void)msgpack_pack_true(packer);
    }
    return 1;
}

/* Both outputs from their first byte. */
static size_t pack_read(msgpack_packer *packer, bool wanted)
{
    if (!wanted)
        return 0;
    if (packer) {
        pack_text(packer, "read");
        (void)msgpack_pack_map(packer, 2);
        pack_text(packer, "stdout");
        (void)msgpack_pack_int64(packer, 0);
        pack_text(packer, "stderr");
        (void)msgpack_pack_int64(packer, 0);
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

static size_t pack_optional(msgpack_packer *packer, const struct options *options,
                            int64_t deadline_unix_ms)
{
    return pack_key_text(packer, "execution_id", options->execution_id) +
           pack_key_text(packer, "remote_dir", options->remote_dir) +
           pack_key_true(packer, "wake", options->wake) + pack_read(packer, options->read) +
           pack_key_text(packer, "stream", options->stream) +
           pack_key_number(packer, "offset", options->offset) +
           pack_key_number(packer, "max_bytes", options->max_bytes) +
           pack_key_number(packer, "timeout_ms", options->timeout_ms) +
           pack_key_number(packer, "deadline_ms", deadline_unix_ms);
}

static void pack_job(msgpack_packer *packer, const struct options *options, enum job_op op,
                     const char *id, int64_t deadline_unix_ms)
{
    (void)msgpack_pack_map(packer, 4 + pack_optional(NULL, options, deadline_unix_ms));
    (void)pack_key_number(packer, "v", JOB_VERSION);
    (void)pack_key_text(packer, "id", id);
    (void)pack_key_text(packer, "op", job_op_name(op));
    pack_sandbox(packer, options);
    (void)pack_optional(packer, options, deadline_unix_ms);
}

int request_pack(const struct options *options, const char *id, int64_t deadline_unix_ms,
                 struct arena *arena, struct buffer *out, struct error *err)
{
    enum job_op op = JOB_STATUS;
    struct job job;
    msgpack_packer packer;
    size_t before = out->size;
    if (!request_op(options->command, &op))
        return error_set(err, ERROR_INTERNAL, "the command is no operation");
    msgpack_packer_init(&packer, out, append_packed);
    pack_job(&packer, options, op, id, deadline_unix_ms);
    /* The packer drops what the buffer says; a job that does not read back shows it. */
    if (out->size == before)
        return error_set_memory(err, "a job");
    if (job_read(out->data + before, out->size - before, arena, &job, err) != 0)
        return -1;
    return job_read_arguments(&job, arena, err);
}
