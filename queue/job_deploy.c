/* The keys of deploy and relaunch. Messages never hold a value: it may be a secret. */
#include "queue/job_deploy.h"

#include <stdio.h>
#include <string.h>

enum { INPUT_LIMIT_BYTES = 16 * 1024 * 1024, INSTALL_TIMEOUT_MS = 600000 };
enum { STARTUP_TIMEOUT_MS = 10000, COMMAND_TEXT_MAX = 64 * 1024, NAME_TEXT_MAX = 4096 };
enum { SHOWN_NAME_BYTES = 64 };

static const char DEFAULT_INSTALL[] = "npm install --omit=dev";

static int read_span(const struct message *value, const char *field, size_t max_bytes,
                     struct span *ret_span, struct error *err)
{
    if (value->type != MESSAGE_TEXT)
        return error_set_field(err, field, "%s must be a text", field);
    if (value->text.size > max_bytes)
        return error_set_field(err, field, "%s is longer than %zu bytes", field, max_bytes);
    *ret_span = (struct span){value->text.data, value->text.size};
    return 0;
}

static int read_optional_span(const struct message *map, const char *key, size_t max_bytes,
                              struct span *ret_span, struct error *err)
{
    const struct message *value = message_given(map, key);
    return value ? read_span(value, key, max_bytes, ret_span, err) : 0;
}

static int read_args(const struct message *map, struct arena *arena,
                     struct job_deploy *deploy, struct error *err)
{
    const struct message *list = message_given(map, "args");
    if (!list)
        return 0;
    if (list->type != MESSAGE_ARRAY)
        return error_set_field(err, "args", "args must be an array of texts");
    if (list->array.count > JOB_DEPLOY_MAX_ARGS)
        return error_set_field(err, "args", "there are more than %d args",
                               JOB_DEPLOY_MAX_ARGS);
    struct span *args = arena_calloc(arena, list->array.count, sizeof(*args));
    if (!args)
        return error_set_memory(err, "arguments");
    for (size_t i = 0; i < list->array.count; i++) {
        if (read_span(&list->array.items[i], "args", JOB_DEPLOY_TEXT_MAX, &args[i], err) !=
            0)
            return -1;
    }
    deploy->args = args;
    deploy->arg_count = list->array.count;
    return 0;
}

static int read_env(const struct message *map, struct arena *arena,
                    struct job_deploy *deploy, struct error *err)
{
    const struct message *env = message_given(map, "env");
    if (!env)
        return 0;
    if (env->type != MESSAGE_MAP)
        return error_set_field(err, "env", "env must be a map of texts");
    if (env->map.count > JOB_DEPLOY_MAX_ENV)
        return error_set_field(err, "env", "env has more than %d names",
                               JOB_DEPLOY_MAX_ENV);
    struct job_variable *variables =
        arena_calloc(arena, env->map.count, sizeof(*variables));
    if (!variables)
        return error_set_memory(err, "an environment");
    for (size_t i = 0; i < env->map.count; i++) {
        const struct message_pair *pair = &env->map.pairs[i];
        if (read_span(&pair->key, "env", NAME_TEXT_MAX, &variables[i].name, err) != 0 ||
            read_span(&pair->value, "env", JOB_DEPLOY_TEXT_MAX, &variables[i].value, err) !=
                0)
            return -1;
    }
    deploy->env = variables;
    deploy->env_count = env->map.count;
    return 0;
}

/* For messages: foreign bytes made harmless. */
static const char *shown_name(const struct message *key, struct arena *arena)
{
    if (key->type != MESSAGE_TEXT)
        return "?";
    size_t size = key->text.size < SHOWN_NAME_BYTES ? key->text.size : SHOWN_NAME_BYTES;
    char *name = arena_text_n(arena, key->text.data, size);
    for (size_t i = 0; name && i < size; i++) {
        if (name[i] < ' ' || name[i] > '~')
            name[i] = '?';
    }
    return name;
}

static int read_limits(const struct message *map, struct arena *arena,
                       struct job_deploy *deploy, struct error *err)
{
    const struct message *limits = message_given(map, "resource_limits");
    if (!limits)
        return 0;
    if (limits->type != MESSAGE_MAP)
        return error_set_field(err, "resource_limits", "resource_limits must be a map");
    if (limits->map.count > JOB_DEPLOY_MAX_LIMITS)
        return error_set_field(err, "resource_limits", "there are more than %d limits",
                               JOB_DEPLOY_MAX_LIMITS);
    struct job_limit *rows = arena_calloc(arena, limits->map.count, sizeof(*rows));
    if (!rows)
        return error_set_memory(err, "resource limits");
    for (size_t i = 0; i < limits->map.count; i++) {
        const struct message_pair *pair = &limits->map.pairs[i];
        rows[i].name = shown_name(&pair->key, arena);
        if (!rows[i].name)
            return error_set_memory(err, "resource limits");
        rows[i].is_number =
            message_number(&pair->value, "resource_limits", &rows[i].value, NULL) == 0;
    }
    deploy->limits = rows;
    deploy->limit_count = limits->map.count;
    return 0;
}

static int read_artifact(const struct message *map, struct arena *arena,
                         struct job_artifact *artifact, struct error *err)
{
    const struct message *value = message_given(map, "artifact");
    if (!value)
        return 0;
    if (value->type != MESSAGE_MAP)
        return error_set_field(err, "artifact", "artifact must be a map");
    const struct message *data = message_given(value, "data");
    const struct message *dir = message_given(value, "dir");
    const struct message *url = message_given(value, "url");
    const struct message *sha256 = message_given(value, "sha256");
    if (!!data + !!dir + !!url != 1)
        return error_set_field(err, "artifact",
                               "artifact must have one of the keys data, dir and url");
    if (sha256 && message_text(sha256, "artifact.sha256", NAME_TEXT_MAX, arena,
                               &artifact->sha256, err) != 0)
        return -1;
    if (data) {
        artifact->kind = JOB_ARTIFACT_DATA;
        return read_span(data, "artifact.data", MESSAGE_MAX_BYTES, &artifact->data, err);
    }
    artifact->kind = dir ? JOB_ARTIFACT_DIR : JOB_ARTIFACT_URL;
    if (dir)
        return message_text(dir, "artifact.dir", NAME_TEXT_MAX, arena, &artifact->dir, err);
    return message_text(url, "artifact.url", NAME_TEXT_MAX, arena, &artifact->url, err);
}

static int read_input(const struct message *map, struct job_input *input, struct error *err)
{
    const struct message *value = message_given(map, "input");
    if (!value)
        return 0;
    if (value->type != MESSAGE_MAP)
        return error_set_field(err, "input", "input must be a map");
    const struct message *type = message_given(value, "type");
    const struct message *path = message_given(value, "path");
    const struct message *data = message_given(value, "data");
    input->is_file = message_is_text(type, "file");
    if (!input->is_file && !message_is_text(type, "stdin"))
        return error_set_field(err, "input.type",
                               "input.type must be \"stdin\" or \"file\"");
    if (!data)
        return error_set_field(err, "input.data", "input.data is missing");
    if (input->is_file && path &&
        read_span(path, "input.path", NAME_TEXT_MAX, &input->path, err) != 0)
        return -1;
    input->given = true;
    return read_span(data, "input.data", MESSAGE_MAX_BYTES, &input->data, err);
}

static int read_number(const struct message *map, const char *key, double *number,
                       struct error *err)
{
    const struct message *value = message_given(map, key);
    return value ? message_number(value, key, number, err) : 0;
}

static int read_timeouts(const struct message *map, struct job_deploy *deploy,
                         struct error *err)
{
    deploy->has_execution_timeout = message_given(map, "execution_timeout_ms") != NULL;
    if (read_number(map, "install_timeout_ms", &deploy->install_timeout_ms, err) ||
        read_number(map, "startup_timeout_ms", &deploy->startup_timeout_ms, err) ||
        read_number(map, "execution_timeout_ms", &deploy->execution_timeout_ms, err))
        return -1;
    return 0;
}

static int read_mode(const struct message *map, struct error *err)
{
    const struct message *mode = message_given(map, "mode");
    if (!mode || message_is_text(mode, "worker") || message_is_text(mode, "job"))
        return 0;
    return error_set_field(err, "mode", "mode must be \"worker\" or \"job\"");
}

static int read_launch(const struct message *map, struct arena *arena,
                       struct job_deploy *deploy, struct error *err)
{
    const struct message *install = message_given(map, "install_command");
    if (read_optional_span(map, "command", NAME_TEXT_MAX, &deploy->command, err) ||
        read_args(map, arena, deploy, err) || read_env(map, arena, deploy, err) ||
        read_optional_span(map, "working_directory", NAME_TEXT_MAX,
                           &deploy->working_directory, err) ||
        read_mode(map, err) || read_limits(map, arena, deploy, err) ||
        read_artifact(map, arena, &deploy->artifact, err))
        return -1;
    return install ? message_text(install, "install_command", COMMAND_TEXT_MAX, arena,
                                  &deploy->install_command, err)
                   : 0;
}

int job_deploy_read(const struct message *map, bool again, struct arena *arena,
                    struct job_deploy *ret_deploy, struct error *err)
{
    struct job_deploy deploy = {
        .working_directory = {".", 1},
        .input_limit_bytes = INPUT_LIMIT_BYTES,
        .install_command = DEFAULT_INSTALL,
        .install_timeout_ms = INSTALL_TIMEOUT_MS,
        .startup_timeout_ms = STARTUP_TIMEOUT_MS,
    };
    const struct message *from = message_given(map, "from_execution_id");
    if (read_input(map, &deploy.input, err) ||
        read_number(map, "input_limit_bytes", &deploy.input_limit_bytes, err) ||
        read_timeouts(map, &deploy, err))
        return -1;
    if (again && from &&
        message_text(from, "from_execution_id", NAME_TEXT_MAX, arena,
                     &deploy.from_execution_id, err) != 0)
        return -1;
    if (!again && read_launch(map, arena, &deploy, err) != 0)
        return -1;
    *ret_deploy = deploy;
    return 0;
}
