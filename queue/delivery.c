/* Reading stream entries. What stands in one is foreign: anybody may XADD. */
#include "queue/delivery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ATTEMPT_MOST = 1000000 };

static bool is_text(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_STRING;
}

/* A field's decimal number; `otherwise` where it is none or out of range. */
static int64_t number_of(const redisReply *value, int64_t most, int64_t otherwise)
{
    char *end = NULL;
    if (value->len == 0 || value->len > 19 || value->str[0] < '0' || value->str[0] > '9')
        return otherwise;
    errno = 0;
    long long number = strtoll(value->str, &end, 10);
    if (errno != 0 || *end != '\0' || number > most)
        return otherwise;
    return number;
}

int delivery_read(const redisReply *id, const redisReply *fields, int64_t token,
                  struct delivery *ret_delivery)
{
    struct delivery delivery = {.token = token, .attempt = 1};
    if (!is_text(id) || id->len >= sizeof(delivery.entry))
        return -1;
    memcpy(delivery.entry, id->str, id->len + 1);
    /* An id begins with the server's clock at the time of XADD. */
    delivery.enqueued_unix_ms = (int64_t)strtoll(delivery.entry, NULL, 10);
    if (!fields || fields->type != REDIS_REPLY_ARRAY)
        fields = NULL;
    for (size_t i = 0; fields && i + 1 < fields->elements; i += 2) {
        const redisReply *name = fields->element[i];
        const redisReply *value = fields->element[i + 1];
        if (!is_text(name) || !is_text(value))
            continue;
        if (strcmp(name->str, "job") == 0) {
            delivery.job = value->str;
            delivery.job_bytes = value->len;
        } else if (strcmp(name->str, "attempt") == 0) {
            delivery.attempt = (int)number_of(value, ATTEMPT_MOST, 1);
        } else if (strcmp(name->str, "enqueued_ms") == 0) {
            delivery.enqueued_unix_ms =
                number_of(value, INT64_MAX, delivery.enqueued_unix_ms);
        }
    }
    *ret_delivery = delivery;
    return 0;
}

int delivery_copy(const struct delivery *delivery, struct arena *arena,
                  struct delivery *ret_delivery)
{
    const char *job = NULL;
    if (delivery->job) {
        job = arena_copy(arena, delivery->job, delivery->job_bytes);
        if (!job)
            return -1;
    }
    *ret_delivery = *delivery;
    ret_delivery->job = job;
    return 0;
}

void batch_done(struct batch *batch)
{
    if (batch->reply)
        freeReplyObject(batch->reply);
    free(batch->deliveries);
    *batch = (struct batch){0};
}

void batch_cleanup(struct batch *batch)
{
    batch_done(batch);
}
