/* The reap script and its answer. */
#include "queue/reaper.h"

#include <stdlib.h>

#include "queue/refusal.h"
#include "queue/script.h"

enum { CALL_ARENA_BYTES = 16 * 1024 };

/* [[entry, token, idle, owner, fields or reason], ...]; token 0: it was buried. */
static int read_rows(const redisReply *reply, struct batch *batch)
{
    batch->deliveries = calloc(reply->elements + 1, sizeof(*batch->deliveries));
    if (!batch->deliveries)
        return -1;
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *row = reply->element[i];
        if (row->type != REDIS_REPLY_ARRAY || row->elements != 5)
            continue;
        if (row->element[1]->integer == 0) {
            batch->buried_count++;
            continue;
        }
        struct delivery *delivery = &batch->deliveries[batch->count];
        if (delivery_read(row->element[0], row->element[4], row->element[1]->integer,
                          delivery) != 0)
            continue;
        delivery->was_recovered = true;
        batch->count++;
    }
    return 0;
}

int reaper_reap(struct queue *queue, int count, struct batch *ret_batch, struct error *err)
{
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    if (!arena)
        return error_set_memory(err, "a reap");
    script_begin(&call, SCRIPT_REAP, 2, arena);
    call_add_text(&call, queue->keys.jobs);
    call_add_text(&call, queue->keys.dead);
    call_add_text(&call, KEYS_GROUP);
    call_add_text(&call, queue->consumer);
    call_add_int(&call, (int64_t)queue->options.lease_ms);
    call_add_int(&call, count);
    call_add_int(&call, queue->options.max_deliveries + REAPER_HOPELESS_AFTER);
    call_add_int(&call, queue->options.dead_maxlen);
    int result = script_run(queue->commands, SCRIPT_REAP, &call, &reply);
    if (result)
        return queue_set_error(result, "recover jobs", err);
    if (refusal_of(reply) == REFUSAL_NO_GROUP)
        return queue_join(queue, err);
    if (reply->type == REDIS_REPLY_ERROR)
        return refusal_set_error(reply, "recover jobs", err);
    *ret_batch = (struct batch){0};
    if (reply->type == REDIS_REPLY_ARRAY && read_rows(reply, ret_batch) != 0)
        return error_set_memory(err, "the entries recovered");
    ret_batch->reply = reply;
    reply = NULL;
    return 0;
}
