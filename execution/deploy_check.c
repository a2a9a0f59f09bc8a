/* What a deploy may ask for. Messages and their order are the original's: callers match on
 * them. */
#include "execution/deploy.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "execution/layout.h"
#include "execution/limits.h"

static bool holds(const struct span *text, const char *bytes, size_t count)
{
    for (size_t i = 0; i < text->size; i++) {
        if (memchr(bytes, text->data[i], count))
            return true;
    }
    return false;
}

static int check_command(const struct span *command, struct error *err)
{
    if (command->size > 0 && !holds(command, "\0\r\n", 3))
        return 0;
    return error_set_field(err, "command",
                           "Worker command must be a non-empty executable path.");
}

static int check_args(const struct deploy_request *request, struct error *err)
{
    for (size_t i = 0; i < request->arg_count; i++) {
        if (holds(&request->args[i], "", 1))
            return error_set_field(err, "args",
                                   "Worker arguments must not contain NUL bytes.");
    }
    return 0;
}

static bool is_variable_name(const struct span *name)
{
    for (size_t i = 0; i < name->size; i++) {
        char c = name->data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && !(i > 0 && c >= '0' && c <= '9'))
            return false;
    }
    return name->size > 0;
}

static int check_env(const struct deploy_request *request, struct error *err)
{
    for (size_t i = 0; i < request->env_count; i++) {
        const struct span *name = &request->env[i].name;
        if (!is_variable_name(name))
            return error_set_field(err, "env",
                                   "Invalid worker environment variable name: %.*s",
                                   name->size < 256 ? (int)name->size : 256, name->data);
    }
    /* What a script cannot hold; the original breaks on it later. */
    for (size_t i = 0; i < request->env_count; i++) {
        const struct deploy_variable *variable = &request->env[i];
        if (holds(&variable->value, "", 1))
            return error_set_field(err, "env",
                                   "The value of the environment variable %.*s contains a "
                                   "NUL byte.",
                                   (int)variable->name.size, variable->name.data);
    }
    return 0;
}

/* Whether the path stays below where it begins, as the original's POSIX normalisation
 * judges: a name that merely begins with two dots counts as leading out when it stands
 * first. */
static bool stays_below(const struct span *path)
{
    int depth = 0;
    bool begins_with_dots = false;
    if (path->size == 0 || path->data[0] == '/' || holds(path, "", 1))
        return false;
    for (size_t at = 0; at < path->size;) {
        const char *part = path->data + at;
        const char *slash = memchr(part, '/', path->size - at);
        size_t bytes = slash ? (size_t)(slash - part) : path->size - at;
        at += bytes + 1;
        if (bytes == 0 || (bytes == 1 && part[0] == '.'))
            continue;
        if (bytes == 2 && memcmp(part, "..", 2) == 0) {
            if (--depth < 0)
                return false;
            continue;
        }
        if (depth++ == 0)
            begins_with_dots = bytes >= 2 && memcmp(part, "..", 2) == 0;
    }
    return depth == 0 || !begins_with_dots;
}

static int check_paths(const struct deploy_request *request, struct error *err)
{
    if (!request->again && !stays_below(&request->working_directory))
        return error_set_field(
            err, "working_directory",
            "Worker workingDirectory must stay within the deployed artifact root.");
    if (request->input.given && request->input.is_file &&
        !stays_below(&request->input.path))
        return error_set_field(
            err, "input.path",
            "Worker input file path must stay within the deployed artifact root.");
    return 0;
}

static int check_numbers(const struct deploy_request *request, struct error *err)
{
    if (layout_check_above_zero("input_limit_bytes", "inputLimitBytes",
                                request->input_limit_bytes, err) != 0 ||
        layout_check_above_zero("startup_timeout_ms", "startupTimeoutMs",
                                request->startup_timeout_ms, err) != 0)
        return -1;
    if (request->has_execution_timeout &&
        layout_check_above_zero("execution_timeout_ms", "executionTimeoutMs",
                                request->execution_timeout_ms, err) != 0)
        return -1;
    if (layout_check_above_zero("termination_grace_ms", "terminationGraceMs",
                                request->termination_grace_ms, err) != 0)
        return -1;
    /* The original does not look at this one, and waits for ever or not at all. */
    return layout_check_above_zero("install_timeout_ms", "installTimeoutMs",
                                   request->install_timeout_ms, err);
}

static int check_input_size(const struct deploy_request *request, struct error *err)
{
    if (!request->input.given ||
        (double)request->input.data.size <= request->input_limit_bytes)
        return 0;
    return error_set_field(err, "input",
                           "Worker input exceeds inputLimitBytes (%zu > %.17g).",
                           request->input.data.size, request->input_limit_bytes);
}

/* Rounded up, so that no time above zero becomes none; a day of milliseconds at the most a
 * shell can count is far above. */
static uint64_t whole_ms(double ms)
{
    const double most_ms = 1e12;
    return (uint64_t)ceil(ms < most_ms ? ms : most_ms);
}

static int copy_launch(const struct deploy_request *request, struct arena *arena,
                       struct launch_request *launch, struct error *err)
{
    const char **args = arena_calloc(arena, request->arg_count + 1, sizeof(*args));
    struct launch_variable *env = arena_calloc(arena, request->env_count + 1, sizeof(*env));
    launch->command = arena_text_n(arena, request->command.data, request->command.size);
    launch->working_directory = arena_text_n(arena, request->working_directory.data,
                                             request->working_directory.size);
    if (!args || !env || !launch->command || !launch->working_directory)
        return error_set_memory(err, "a launch");
    for (size_t i = 0; i < request->arg_count; i++) {
        args[i] = arena_text_n(arena, request->args[i].data, request->args[i].size);
        if (!args[i])
            return error_set_memory(err, "a launch");
    }
    for (size_t i = 0; i < request->env_count; i++) {
        const struct deploy_variable *variable = &request->env[i];
        env[i].name = arena_text_n(arena, variable->name.data, variable->name.size);
        env[i].value = arena_text_n(arena, variable->value.data, variable->value.size);
        if (!env[i].name || !env[i].value)
            return error_set_memory(err, "a launch");
    }
    launch->args = args;
    launch->arg_count = request->arg_count;
    launch->env = env;
    launch->env_count = request->env_count;
    launch->termination_grace_ms = whole_ms(request->termination_grace_ms);
    if (request->has_execution_timeout)
        launch->execution_timeout_ms = whole_ms(request->execution_timeout_ms);
    return 0;
}

static int check_launch(const struct deploy_request *request, struct error *err)
{
    if (check_command(&request->command, err) != 0 || check_args(request, err) != 0)
        return -1;
    return check_env(request, err);
}

static int check_from(const struct deploy_request *request, struct error *err)
{
    if (!layout_is_execution_id(request->from_execution_id))
        return error_set_field(err, "from_execution_id",
                               "from_execution_id must name the execution whose launch is "
                               "to be run again");
    if (strcmp(request->from_execution_id, request->execution_id) == 0)
        return error_set_field(err, "execution_id", "Relaunch requires a new executionId.");
    return 0;
}

int deploy_check(const struct sandbox *sandbox, const struct deploy_request *request,
                 struct arena *arena, struct deploy_plan *ret_plan, struct error *err)
{
    struct deploy_plan plan = {.request = request};
    if (sandbox_require(sandbox, CAPABILITY_EXECUTE_COMMAND, err) != 0 ||
        layout_check_execution_id(request->execution_id, err) != 0)
        return -1;
    if ((request->again ? check_from(request, err) : check_launch(request, err)) != 0 ||
        check_paths(request, err) != 0 || check_numbers(request, err) != 0)
        return -1;
    if (!request->again &&
        limits_check(request->limits, request->limit_count, &plan.launch.limits, err) != 0)
        return -1;
    if (check_input_size(request, err) != 0 ||
        layout_check_remote_dir(request->remote_dir, err) != 0 ||
        sandbox_require(sandbox, CAPABILITY_BACKGROUND_PROCESSES, err) != 0)
        return -1;
    if (!request->again && copy_launch(request, arena, &plan.launch, err) != 0)
        return -1;
    if (request->input.given && request->input.is_file) {
        plan.input_path =
            arena_text_n(arena, request->input.path.data, request->input.path.size);
        if (!plan.input_path)
            return error_set_memory(err, "a path");
    }
    plan.startup_timeout_ms = whole_ms(request->startup_timeout_ms);
    plan.install_timeout_ms = whole_ms(request->install_timeout_ms);
    *ret_plan = plan;
    return 0;
}
