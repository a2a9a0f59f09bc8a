/* The keys of one queue. All carry the same hash tag, so every script stays in one slot. */
#pragma once

#include <stdbool.h>

#include "runtime/attributes.h"
#include "runtime/error.h"

enum { KEY_MAX = 288 }; /* "attachd:{" + 128 + "}:progress:" + 128 + NUL */

#define KEYS_GROUP "workers" /* the consumer group */

struct keys {
    char queue[129];
    char jobs[KEY_MAX];
    char replies[KEY_MAX];
    char delayed[KEY_MAX];
    char body[KEY_MAX];
    char dead[KEY_MAX];
};

/* The keys of the queue named `queue`. ERROR_CONFIGURATION where the name is not fit. */
NODISCARD int keys_init(struct keys *keys, const char *queue, struct error *err);

/* The reply stream for reply_to (NULL: the default one), the outcome record of a job, and
 * the stream of its progress. The names must be fit (job_is_name). */
void keys_reply(const struct keys *keys, const char *reply_to, char key[KEY_MAX]);
void keys_done(const struct keys *keys, const char *job_id, char key[KEY_MAX]);
void keys_progress(const struct keys *keys, const char *job_id, char key[KEY_MAX]);
