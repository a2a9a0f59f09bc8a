/* The reap script and its answer. */
#include "queue/reaper.h"

#include "queue/refusal.h"
#include "queue/script.h"

enum { CALL_ARENA_BYTES = 16 * 1024 };

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
    if (batch_read_rows(reply, ret_batch) != 0)
        return error_set_memory(err, "the entries recovered");
    ret_batch->reply = reply;
    reply = NULL;
    return 0;
}
