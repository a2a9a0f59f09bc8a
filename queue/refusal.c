/* One table: first word of an error answer, class. */
#include "queue/refusal.h"

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *word;
    enum refusal refusal;
} refusals[] = {
    {"NOGROUP", REFUSAL_NO_GROUP},      {"UNBLOCKED", REFUSAL_NO_GROUP},
    {"NOSCRIPT", REFUSAL_NO_SCRIPT},    {"WRONGTYPE", REFUSAL_WRONG_TYPE},
    {"BUSYGROUP", REFUSAL_BUSY_GROUP},  {"READONLY", REFUSAL_WRONG_NODE},
    {"MASTERDOWN", REFUSAL_WRONG_NODE}, {"NOREPLICAS", REFUSAL_UNWELL},
    {"LOADING", REFUSAL_UNWELL},        {"BUSY", REFUSAL_UNWELL},
    {"MISCONF", REFUSAL_UNWELL},        {"OOM", REFUSAL_UNWELL},
    {"NOAUTH", REFUSAL_DENIED},         {"WRONGPASS", REFUSAL_DENIED},
    {"NOPERM", REFUSAL_DENIED},         {"MOVED", REFUSAL_CLUSTER},
    {"ASK", REFUSAL_CLUSTER},           {"TRYAGAIN", REFUSAL_CLUSTER},
    {"CLUSTERDOWN", REFUSAL_CLUSTER},   {"CROSSSLOT", REFUSAL_CLUSTER},
};

enum refusal refusal_of(const struct redisReply *reply)
{
    if (!reply || reply->type != REDIS_REPLY_ERROR)
        return REFUSAL_NONE;
    size_t length = strcspn(reply->str, " ");
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const char *word = refusals[i].word;
        if (strlen(word) == length && memcmp(word, reply->str, length) == 0)
            return refusals[i].refusal;
    }
    return REFUSAL_OTHER;
}

bool refusal_passes(enum refusal refusal)
{
    return refusal == REFUSAL_UNWELL || refusal == REFUSAL_WRONG_NODE ||
           refusal == REFUSAL_CLUSTER || refusal == REFUSAL_NO_GROUP ||
           refusal == REFUSAL_DENIED;
}

int refusal_set_error(const struct redisReply *reply, const char *what, struct error *err)
{
    return error_set(err, ERROR_QUEUE_UNAVAILABLE, "Redis refused to %s: %.200s", what,
                     reply->str);
}
