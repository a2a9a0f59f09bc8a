/* What an error answer of Redis means. Only its first word is looked at: the rest differs
 * between versions. */
#pragma once

#include "runtime/error.h"

enum refusal {
    REFUSAL_NONE,     /* not an error */
    REFUSAL_NO_GROUP, /* NOGROUP, UNBLOCKED: stream or group is gone, or the role changed */
    REFUSAL_NO_SCRIPT, /* NOSCRIPT: to be sent again with its text */
    REFUSAL_WRONG_TYPE,
    REFUSAL_BUSY_GROUP, /* BUSYGROUP: the group is there already */
    REFUSAL_WRONG_NODE, /* READONLY, MASTERDOWN */
    REFUSAL_UNWELL,     /* LOADING, BUSY, MISCONF, OOM, NOREPLICAS: wait and send again */
    REFUSAL_DENIED,     /* NOAUTH, WRONGPASS, NOPERM */
    REFUSAL_CLUSTER,    /* MOVED, ASK, TRYAGAIN, CLUSTERDOWN, CROSSSLOT */
    REFUSAL_OTHER,
};

struct redisReply;

/* The class of an answer; REFUSAL_NONE where it is no error (or NULL). */
enum refusal refusal_of(const struct redisReply *reply);

/* Whether the same call may succeed later without anybody's doing. */
bool refusal_passes(enum refusal refusal);

/* Fills err with queue_unavailable and the answer's text, cut. Returns -1. */
int refusal_set_error(const struct redisReply *reply, const char *what, struct error *err);
