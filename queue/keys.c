/* Key names as docs/protocol.md lists them. */
#include "queue/keys.h"

#include <stdio.h>
#include <string.h>

#include "queue/job.h"

static void make(char key[KEY_MAX], const char *queue, const char *rest, const char *name)
{
    (void)snprintf(key, KEY_MAX, "attachd:{%s}:%s%s", queue, rest, name);
}

int keys_init(struct keys *keys, const char *queue, struct error *err)
{
    if (!job_is_name(queue, strlen(queue)))
        return error_set(
            err, ERROR_CONFIGURATION,
            "a queue's name is 1 to 128 letters, digits, dots, underscores, colons "
            "or hyphens, and begins with a letter or digit");
    (void)snprintf(keys->queue, sizeof(keys->queue), "%s", queue);
    make(keys->jobs, queue, "jobs", "");
    make(keys->replies, queue, "replies", "");
    make(keys->delayed, queue, "delayed", "");
    make(keys->body, queue, "body", "");
    make(keys->dead, queue, "dead", "");
    return 0;
}

void keys_reply(const struct keys *keys, const char *reply_to, char key[KEY_MAX])
{
    if (reply_to)
        make(key, keys->queue, "replies:", reply_to);
    else
        make(key, keys->queue, "replies", "");
}

void keys_done(const struct keys *keys, const char *job_id, char key[KEY_MAX])
{
    make(key, keys->queue, "done:", job_id);
}

void keys_progress(const struct keys *keys, const char *job_id, char key[KEY_MAX])
{
    make(key, keys->queue, "progress:", job_id);
}
