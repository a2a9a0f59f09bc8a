/* One function for each key that is no plain value. */
#include "ctl/request_launch.h"

#include "ctl/pack.h"

static size_t pack_artifact(msgpack_packer *packer, const struct options_launch *launch,
                            const struct payload *payload)
{
    if (!launch->archive && !launch->artifact_dir && !launch->url)
        return 0;
    if (!packer)
        return 1;
    pack_text(packer, "artifact");
    (void)msgpack_pack_map(packer, launch->url ? 2 : 1);
    if (launch->archive) {
        pack_text(packer, "data");
        pack_bytes(packer, payload->archive.data, payload->archive.size);
    }
    (void)pack_key_text(packer, "dir", launch->artifact_dir);
    (void)pack_key_text(packer, "url", launch->url);
    (void)pack_key_text(packer, "sha256", launch->sha256);
    return 1;
}

static size_t pack_args(msgpack_packer *packer, const struct options *options)
{
    if (options->arg_count == 0)
        return 0;
    if (!packer)
        return 1;
    pack_text(packer, "args");
    (void)msgpack_pack_array(packer, options->arg_count);
    for (size_t i = 0; i < options->arg_count; i++)
        pack_text(packer, options->args[i]);
    return 1;
}

static size_t pack_env(msgpack_packer *packer, const struct environment *environment)
{
    if (environment->count == 0)
        return 0;
    if (!packer)
        return 1;
    pack_text(packer, "env");
    (void)msgpack_pack_map(packer, environment->count);
    for (size_t i = 0; i < environment->count; i++) {
        const struct job_variable *variable = &environment->variables[i];
        pack_text_n(packer, variable->name.data, variable->name.size);
        pack_text_n(packer, variable->value.data, variable->value.size);
    }
    return 1;
}

static size_t pack_input(msgpack_packer *packer, const struct options_launch *launch,
                         const struct buffer *input)
{
    if (!launch->stdin_file && !launch->input_file)
        return 0;
    if (!packer)
        return 1;
    pack_text(packer, "input");
    (void)msgpack_pack_map(packer, launch->stdin_file ? 2 : 3);
    (void)pack_key_text(packer, "type", launch->stdin_file ? "stdin" : "file");
    (void)pack_key_text(packer, "path", launch->input_path);
    pack_text(packer, "data");
    pack_bytes(packer, input->data, input->size);
    return 1;
}

static size_t pack_limit_pairs(msgpack_packer *packer, const struct options_launch *launch)
{
    return pack_key_number(packer, "cpu_time_seconds", launch->cpu_seconds) +
           pack_key_number(packer, "address_space_bytes", launch->memory_bytes) +
           pack_key_number(packer, "file_size_bytes", launch->file_size_bytes) +
           pack_key_number(packer, "open_files", launch->open_files);
}

static size_t pack_limits(msgpack_packer *packer, const struct options_launch *launch)
{
    size_t count = pack_limit_pairs(NULL, launch);
    if (count == 0)
        return 0;
    if (!packer)
        return 1;
    pack_text(packer, "resource_limits");
    (void)msgpack_pack_map(packer, count);
    (void)pack_limit_pairs(packer, launch);
    return 1;
}

static size_t pack_numbers(msgpack_packer *packer, const struct options_launch *launch)
{
    return pack_key_number(packer, "input_limit_bytes", launch->input_limit_bytes) +
           pack_key_number(packer, "install_timeout_ms", launch->install_timeout_ms) +
           pack_key_number(packer, "startup_timeout_ms", launch->startup_timeout_ms) +
           pack_key_number(packer, "execution_timeout_ms", launch->execution_timeout_ms);
}

size_t request_launch_pack(msgpack_packer *packer, const struct options *options,
                           const struct payload *payload)
{
    const struct options_launch *launch = &options->launch;
    const char *command = options->command == COMMAND_DEPLOY ? options->operand : NULL;
    return pack_key_text(packer, "command", command) + pack_args(packer, options) +
           pack_env(packer, &payload->environment) +
           pack_key_text(packer, "working_directory", launch->working_directory) +
           pack_key_text(packer, "install_command", launch->install_command) +
           pack_key_text(packer, "from_execution_id", launch->from) +
           pack_input(packer, launch, &payload->input) + pack_numbers(packer, launch) +
           pack_limits(packer, launch) + pack_artifact(packer, launch, payload);
}
