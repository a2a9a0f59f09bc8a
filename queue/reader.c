/* XREADGROUP on the connection that may block. */
#include "queue/reader.h"

#include "queue/refusal.h"

enum { CALL_ARENA_BYTES = 16 * 1024 };

SUSPENDS static int handle_refusal(struct queue *queue, const redisReply *reply,
                                   struct error *err)
{
    if (refusal_of(reply) != REFUSAL_NO_GROUP)
        return refusal_set_error(reply, "read jobs", err);
    return queue_join(queue, err) == 0 ? 1 : -1;
}

int reader_read(struct queue *queue, int count, uint64_t block_ms, struct batch *ret_batch,
                struct error *err)
{
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    if (!arena)
        return error_set_memory(err, "a read");
    call_init(&call, arena, 12);
    call_add_text(&call, "XREADGROUP");
    call_add_text(&call, "GROUP");
    call_add_text(&call, KEYS_GROUP);
    call_add_text(&call, queue->consumer);
    call_add_text(&call, "COUNT");
    call_add_int(&call, count > 0 ? count : 1);
    call_add_text(&call, "BLOCK");
    call_add_int(&call, block_ms > 0 ? (int64_t)block_ms : 1);
    call_add_text(&call, "STREAMS");
    call_add_text(&call, queue->keys.jobs);
    call_add_text(&call, ">");
    int result = connection_call(queue->reads, &call, block_ms, &reply);
    if (result)
        return queue_set_error(result, "read jobs", err);
    *ret_batch = (struct batch){0};
    if (reply->type == REDIS_REPLY_ERROR)
        return handle_refusal(queue, reply, err);
    if (batch_read_entries(reply, ret_batch) != 0)
        return error_set_memory(err, "the entries read");
    ret_batch->reply = reply;
    reply = NULL;
    return 0;
}

void reader_unblock(struct queue *queue)
{
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    int64_t id = connection_client_id(queue->reads);
    if (!arena || id == 0)
        return;
    call_init(&call, arena, 4);
    call_add_text(&call, "CLIENT");
    call_add_text(&call, "UNBLOCK");
    call_add_int(&call, id);
    (void)connection_call(queue->commands, &call, 0, &reply);
}
