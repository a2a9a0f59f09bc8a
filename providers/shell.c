/* Quoting for the shell, the only place that does it. */
#include "providers/shell.h"

#include <string.h>

int shell_append_quoted(struct buffer *buffer, const char *text)
{
    int failed = buffer_append(buffer, "'", 1);
    while (!failed && *text) {
        size_t plain = strcspn(text, "'");
        failed = buffer_append(buffer, text, plain);
        text += plain;
        if (!failed && *text) {
            failed = buffer_append_text(buffer, "'\\''");
            text++;
        }
    }
    return failed ? failed : buffer_append(buffer, "'", 1);
}
