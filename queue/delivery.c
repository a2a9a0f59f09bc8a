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

/* [[stream, [[id, [name, value, ...]], ...]]] */
int batch_read_entries(const redisReply *reply, struct batch *ret_batch)
{
    *ret_batch = (struct batch){0};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return 0;
    const redisReply *stream = reply->element[0];
    if (stream->type != REDIS_REPLY_ARRAY || stream->elements != 2)
        return 0;
    const redisReply *entries = stream->element[1];
    if (entries->type != REDIS_REPLY_ARRAY || entries->elements == 0)
        return 0;
    ret_batch->deliveries = calloc(entries->elements, sizeof(*ret_batch->deliveries));
    if (!ret_batch->deliveries)
        return -1;
    for (size_t i = 0; i < entries->elements; i++) {
        const redisReply *entry = entries->element[i];
        if (entry->type != REDIS_REPLY_ARRAY || entry->elements != 2)
            continue;
        /* What `>` gives was never delivered before: its delivery count is 1. */
        if (delivery_read(entry->element[0], entry->element[1], 1,
                          &ret_batch->deliveries[ret_batch->count]) == 0)
            ret_batch->count++;
    }
    return 0;
}

/* [[entry, token, idle, owner, fields or reason], ...]; token 0: it was buried. */
int batch_read_rows(const redisReply *reply, struct batch *ret_batch)
{
    *ret_batch = (struct batch){0};
    if (reply->type != REDIS_REPLY_ARRAY)
        return 0;
    ret_batch->deliveries = calloc(reply->elements + 1, sizeof(*ret_batch->deliveries));
    if (!ret_batch->deliveries)
        return -1;
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *row = reply->element[i];
        if (row->type != REDIS_REPLY_ARRAY || row->elements != 5)
            continue;
        if (row->element[1]->type != REDIS_REPLY_INTEGER)
            continue;
        if (row->element[1]->integer <= 0) {
            ret_batch->buried_count += row->element[1]->integer == 0;
            ret_batch->unburied_count += row->element[1]->integer < 0;
            continue;
        }
        if (delivery_read(row->element[0], row->element[4], row->element[1]->integer,
                          &ret_batch->deliveries[ret_batch->count]) == 0)
            ret_batch->count++;
    }
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
