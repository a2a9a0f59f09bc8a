/* Scripts for a sandbox's shell, made of an embedded program and quoted arguments. */
#include "execution/remote.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "providers/shell.h"
#include "runtime/buffer.h"

static int append_arguments(struct buffer *script, const char *const *arguments)
{
    int failed = buffer_append_text(script, "set --");
    for (; !failed && *arguments; arguments++) {
        failed = buffer_append(script, " ", 1);
        if (!failed)
            failed = shell_append_quoted(script, *arguments);
    }
    return failed ? failed : buffer_append(script, "\n", 1);
}

static int append_program(struct buffer *script, const char *program)
{
    while (*program) {
        program += strspn(program, " \t");
        size_t line = strcspn(program, "\n");
        size_t whole = line + (program[line] == '\n');
        if (line > 0 && program[0] != '#') {
            int failed = buffer_append(script, program, whole);
            if (failed)
                return failed;
        }
        program += whole;
    }
    return 0;
}

int remote_compose(const char *program, const char *const *arguments, size_t max_bytes,
                   struct arena *arena, const char **ret_script, struct error *err)
{
    buffer_scoped struct buffer script;
    buffer_init(&script, max_bytes < SIZE_MAX / 2 ? max_bytes : SIZE_MAX / 2);
    int failed = append_arguments(&script, arguments);
    if (!failed)
        failed = append_program(&script, program);
    if (failed == -EMSGSIZE)
        return error_set(err, ERROR_INVALID_ARGUMENT,
                         "the script is longer than the provider takes (%zu bytes)",
                         max_bytes);
    const char *copy = failed ? NULL : arena_text_n(arena, script.data, script.size);
    if (!copy)
        return error_set_memory(err, "a script");
    *ret_script = copy;
    return 0;
}

int remote_nonce(char ret_nonce[REMOTE_NONCE_LENGTH + 1], struct error *err)
{
    unsigned char bytes[REMOTE_NONCE_LENGTH / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return error_set(err, ERROR_INTERNAL, "no random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(ret_nonce + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}
