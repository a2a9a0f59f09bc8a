/* Commands' ends as errors. */
#include "execution/ending.h"

#include <stdbool.h>
#include <stdio.h>

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

int ending_map_error(struct error *err)
{
    if (err->code == ERROR_COMMAND_FAILED && err->has_exit_code &&
        means_no_shell(err->exit_code))
        return refuse_without_shell(err);
    return -1;
}

int ending_map(const struct exec_result *exec, const char *doing, struct arena *arena,
               struct error *err)
{
    if (exec->end == EXEC_TIMED_OUT)
        return error_set(err, ERROR_TIMEOUT, "%s took too long", doing);
    if (exec->end == EXEC_SIGNALED)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE, "%s was ended by signal %d",
                         doing, exec->signal);
    if (exec->exit_code == 0)
        return -1;
    if (means_no_shell(exec->exit_code))
        (void)refuse_without_shell(err);
    else
        (void)error_set(err, ERROR_COMMAND_FAILED, "%s failed with exit code %d", doing,
                        exec->exit_code);
    err->has_exit_code = true;
    err->exit_code = exec->exit_code;
    err->detail = last_words(exec, arena);
    return -1;
}
