/* Reading answers. The nonce in front of each line keeps a sandbox's noise, and what a tool
 * printed, from passing for one. */
#include "execution/answer.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX_BYTES = 4000 };

/* Adds a line to the message; the beginning is kept where it grows too long. */
static int add_message(struct answer *answer, const char *line, struct arena *arena)
{
    if (!answer->message) {
        answer->message = line;
        return 0;
    }
    if (strlen(answer->message) + strlen(line) > MESSAGE_MAX_BYTES)
        return 0;
    answer->message = arena_printf(arena, "%s\n%s", answer->message, line);
    return answer->message ? 0 : -1;
}

static int take_value(struct answer *answer, const char *key, const char *value,
                      struct arena *arena)
{
    const struct {
        const char *key;
        const char **member;
    } texts[] = {
        {"result", &answer->result}, {"remote-dir", &answer->remote_dir},
        {"lock", &answer->lock},     {"tool", &answer->tool},
        {"phase", &answer->phase},   {"what", &answer->what},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(key, texts[i].key) == 0) {
            *texts[i].member = value;
            return 0;
        }
    }
    if (strcmp(key, "late") == 0)
        answer->late = true;
    if (strcmp(key, "exit-code") == 0) {
        answer->has_exit_code = true;
        answer->exit_code = (int)strtol(value, NULL, 10);
    }
    return strcmp(key, "message") == 0 ? add_message(answer, value, arena) : 0;
}

/* A line behind its nonce. */
static int take_line(struct answer *answer, const char *line, size_t size,
                     struct arena *arena)
{
    char *text = arena_text_n(arena, line, size);
    if (!text)
        return -1;
    char *space = strchr(text, ' ');
    if (!space)
        return 0;
    *space = '\0';
    return take_value(answer, text, space + 1, arena);
}

int answer_read(const char *data, size_t size, const char *nonce, struct arena *arena,
                struct answer *ret_answer, struct error *err)
{
    struct answer answer = {0};
    size_t nonce_bytes = strlen(nonce);
    const char *end = data + size;
    for (const char *line = data; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        if (!newline) /* cut */
            break;
        size_t bytes = (size_t)(newline - line);
        if (bytes > nonce_bytes && memcmp(line, nonce, nonce_bytes) == 0 &&
            line[nonce_bytes] == ' ' &&
            take_line(&answer, line + nonce_bytes + 1, bytes - nonce_bytes - 1, arena) != 0)
            return error_set_memory(err, "an answer");
        line = newline + 1;
    }
    if (!answer.result)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "the sandbox's answer is cut or garbled");
    *ret_answer = answer;
    return 0;
}
