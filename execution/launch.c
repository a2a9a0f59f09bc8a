/* The settings of a launch.sh, as quoted text in front of the program they are for. */
#include "execution/launch.h"

#include "providers/shell.h"
#include "runtime/buffer.h"

extern const char remote_launch_sh[];

enum { LAUNCH_MAX_BYTES = 32 * 1024 * 1024 };

static int append_setting(struct buffer *text, const char *name, const char *value)
{
    int failed = buffer_append_format(text, "%s=", name);
    if (!failed)
        failed = shell_append_quoted(text, value);
    return failed ? failed : buffer_append_text(text, "\n");
}

/* Empty where there is none. */
static int append_number(struct buffer *text, const char *name, uint64_t value)
{
    if (value == 0)
        return buffer_append_format(text, "%s=''\n", name);
    return buffer_append_format(text, "%s=%llu\n", name, (unsigned long long)value);
}

static int append_settings(struct buffer *text, const struct launch_request *request)
{
    const struct limits *limits = &request->limits;
    int failed = append_setting(text, "working_directory", request->working_directory);
    if (!failed)
        failed = append_number(text, "cpu_seconds", limits->cpu_time_seconds);
    if (!failed)
        failed = append_number(text, "address_bytes", limits->address_space_bytes);
    if (!failed)
        failed = append_number(text, "file_bytes", limits->file_size_bytes);
    if (!failed)
        failed = append_number(text, "open_files", limits->open_files);
    if (!failed)
        failed = append_number(text, "timeout_ms", request->execution_timeout_ms);
    return failed ? failed : append_number(text, "grace_ms", request->termination_grace_ms);
}

/* The environment is exported in the shell that becomes the program: as arguments of env
 * its values would stand in the list of processes. */
static int append_workload(struct buffer *text, const struct launch_request *request)
{
    int failed = buffer_append_text(text, "workload() {\n");
    for (size_t i = 0; !failed && i < request->env_count; i++) {
        failed = buffer_append_text(text, "export ");
        if (!failed)
            failed = append_setting(text, request->env[i].name, request->env[i].value);
    }
    if (!failed)
        failed = buffer_append_text(text, "exec ");
    if (!failed)
        failed = shell_append_quoted(text, request->command);
    for (size_t i = 0; !failed && i < request->arg_count; i++) {
        failed = buffer_append_text(text, " ");
        if (!failed)
            failed = shell_append_quoted(text, request->args[i]);
    }
    return failed ? failed : buffer_append_text(text, "\n}\n");
}

int launch_compose(const struct launch_request *request, struct arena *arena,
                   const char **ret_text, size_t *ret_bytes, struct error *err)
{
    buffer_scoped struct buffer text;
    buffer_init(&text, LAUNCH_MAX_BYTES);
    int failed = buffer_append_text(&text, "#!/bin/sh\n" LAUNCH_MARK " 1\n");
    if (!failed)
        failed = append_settings(&text, request);
    if (!failed)
        failed = append_workload(&text, request);
    if (!failed)
        failed = buffer_append_text(&text, remote_launch_sh);
    const char *copy = failed ? NULL : arena_text_n(arena, text.data, text.size);
    if (!copy)
        return error_set_memory(err, "a launch");
    *ret_text = copy;
    *ret_bytes = text.size;
    return 0;
}
