/* Scripts for a sandbox's shell, made of an embedded program and quoted arguments. */
#include "execution/remote.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "providers/shell.h"
#include "runtime/buffer.h"
#include "runtime/random.h"

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

int remote_compose(const char *program, const char *const *arguments, size_t max_bytes,
                   struct arena *arena, const char **ret_script, struct error *err)
{
    buffer_scoped struct buffer head;
    size_t program_bytes = strlen(program);
    buffer_init(&head, max_bytes < SIZE_MAX / 2 ? max_bytes : SIZE_MAX / 2);
    int failed = append_arguments(&head, arguments);
    if (failed == -EMSGSIZE || (!failed && head.size + program_bytes > max_bytes))
        return error_set(err, ERROR_INVALID_ARGUMENT,
                         "the script is longer than the provider takes (%zu bytes)",
                         max_bytes);
    char *script = failed ? NULL : arena_alloc(arena, head.size + program_bytes + 1);
    if (!script)
        return error_set_memory(err, "a script");
    memcpy(script, head.data, head.size);
    memcpy(script + head.size, program, program_bytes + 1);
    *ret_script = script;
    return 0;
}

void remote_nonce(char ret_nonce[REMOTE_NONCE_LENGTH + 1])
{
    random_hex(ret_nonce, REMOTE_NONCE_LENGTH / 2);
}
