/* Files are read whole: a job is one message. */
#include "ctl/payload.h"

#include <errno.h>

#include "ctl/file.h"
#include "queue/message.h"

void payload_init(struct payload *payload, struct arena *arena,
                  const char *(*get)(const char *variable))
{
    buffer_init(&payload->archive, MESSAGE_MAX_BYTES);
    buffer_init(&payload->input, MESSAGE_MAX_BYTES);
    environment_init(&payload->environment, arena, get);
}

void payload_done(struct payload *payload)
{
    buffer_done(&payload->archive);
    buffer_done(&payload->input);
}

static int read_archive(struct buffer *archive, const char *path, struct error *err)
{
    int failed = file_read(path, archive, err);
    if (failed == -EMSGSIZE)
        return error_set(err, ERROR_CONFIGURATION,
                         "the archive is longer than the %d bytes that a job can have; one "
                         "that is larger is given by --url or --artifact-dir",
                         MESSAGE_MAX_BYTES);
    return failed ? -1 : 0;
}

/* The variables point into the text, so it becomes the arena's. */
static int read_env_file(struct environment *environment, const char *path,
                         struct error *err)
{
    buffer_scoped struct buffer text;
    buffer_init(&text, MESSAGE_MAX_BYTES);
    if (file_read(path, &text, err) != 0)
        return -1;
    const char *copy = arena_text_n(environment->arena, text.data, text.size);
    if (!copy)
        return error_set_memory(err, "an environment");
    return environment_add_lines(environment, path, copy, text.size, err);
}

int payload_read(struct payload *payload, const struct options_launch *launch,
                 struct error *err)
{
    const char *input = launch->stdin_file ? launch->stdin_file : launch->input_file;
    if (launch->archive && read_archive(&payload->archive, launch->archive, err) != 0)
        return -1;
    if (input && file_read(input, &payload->input, err) != 0)
        return -1;
    for (size_t i = 0; i < launch->env_files.count; i++) {
        if (read_env_file(&payload->environment, launch->env_files.items[i], err) != 0)
            return -1;
    }
    for (size_t i = 0; i < launch->env.count; i++) {
        if (environment_add(&payload->environment, launch->env.items[i], err) != 0)
            return -1;
    }
    return 0;
}
