/* XADD of a job, XREAD of replies. */
#include "queue/producer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "queue/refusal.h"
#include "runtime/deadline.h"

enum { CALL_ARENA_BYTES = 16 * 1024, BLOCK_MS = 1000, REPLIES_AT_ONCE = 64 };

/* The last entry of the reply stream now: XREAD's `$` would be taken anew with every call.
 */
SUSPENDS static int last_reply(struct queue *queue, const char *key, struct arena *arena,
                               struct producer_ticket *ticket, struct error *err)
{
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    call_init(&call, arena, 8);
    call_add_text(&call, "XREVRANGE");
    call_add_text(&call, key);
    call_add_text(&call, "+");
    call_add_text(&call, "-");
    call_add_text(&call, "COUNT");
    call_add_text(&call, "1");
    int result = connection_call(queue->commands, &call, 0, &reply);
    if (result)
        return queue_set_error(result, "look at the replies", err);
    if (reply->type == REDIS_REPLY_ERROR)
        return refusal_set_error(reply, "look at the replies", err);
    const char *entry = "0-0";
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 1)
        entry = reply->element[0]->element[0]->str;
    (void)snprintf(ticket->after, sizeof(ticket->after), "%s", entry);
    return 0;
}

int producer_enqueue(struct queue *queue, const void *job, size_t bytes,
                     const char *reply_to, struct producer_ticket *ret_ticket,
                     struct error *err)
{
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    redis_reply_scoped redisReply *reply = NULL;
    struct producer_ticket ticket = {0};
    char key[KEY_MAX];
    struct call call;
    if (!arena)
        return error_set_memory(err, "a job");
    int result = connection_wait_up(queue->commands);
    if (result)
        return queue_set_error(result, "enqueue a job", err);
    keys_reply(&queue->keys, reply_to, key);
    if (last_reply(queue, key, arena, &ticket, err) != 0)
        return -1;
    call_init(&call, arena, 8);
    call_add_text(&call, "XADD");
    call_add_text(&call, queue->keys.jobs);
    call_add_text(&call, "*");
    call_add_text(&call, "job");
    call_add(&call, job, bytes);
    result = connection_call(queue->commands, &call, 0, &reply);
    if (result)
        return queue_set_error(result, "enqueue a job", err);
    if (reply->type != REDIS_REPLY_STRING)
        return refusal_set_error(reply, "enqueue a job", err);
    (void)snprintf(ticket.entry, sizeof(ticket.entry), "%s", reply->str);
    *ret_ticket = ticket;
    return 0;
}

/* Looks for the job's reply in what XREAD gave; moves the ticket on. 1: found. */
static int find_reply(const redisReply *answer, const char *job_id,
                      struct producer_ticket *ticket, const redisReply **ret_value)
{
    if (answer->type != REDIS_REPLY_ARRAY || answer->elements == 0)
        return 0;
    const redisReply *entries = answer->element[0]->element[1];
    for (size_t i = 0; i < entries->elements; i++) {
        const redisReply *entry = entries->element[i];
        const redisReply *fields = entry->element[1];
        const redisReply *value = NULL;
        bool is_ours = false;
        (void)snprintf(ticket->after, sizeof(ticket->after), "%s", entry->element[0]->str);
        for (size_t j = 0; j + 1 < fields->elements; j += 2) {
            if (strcmp(fields->element[j]->str, "reply") == 0)
                value = fields->element[j + 1];
            if (strcmp(fields->element[j]->str, "id") == 0)
                is_ours = strcmp(fields->element[j + 1]->str, job_id) == 0;
        }
        if (is_ours && value) {
            *ret_value = value;
            return 1;
        }
    }
    return 0;
}

/* One XREAD. 1: found and read, 0: not yet, -1: error. */
SUSPENDS static int wait_once(struct queue *queue, const char *key, const char *job_id,
                              struct producer_ticket *ticket, struct arena *arena,
                              struct reply *ret_reply, struct error *err)
{
    arena_scoped struct arena *call_arena = arena_new(CALL_ARENA_BYTES);
    redis_reply_scoped redisReply *answer = NULL;
    const redisReply *value = NULL;
    struct call call;
    if (!call_arena)
        return error_set_memory(err, "a wait");
    uint64_t left_ms = deadline_left_ms();
    call_init(&call, call_arena, 8);
    call_add_text(&call, "XREAD");
    call_add_text(&call, "COUNT");
    call_add_int(&call, REPLIES_AT_ONCE);
    call_add_text(&call, "BLOCK");
    call_add_int(&call, left_ms < BLOCK_MS ? (int64_t)left_ms + 1 : BLOCK_MS);
    call_add_text(&call, "STREAMS");
    call_add_text(&call, key);
    call_add_text(&call, ticket->after);
    int result = connection_wait_up(queue->commands);
    if (result == 0)
        result = connection_call(queue->commands, &call, BLOCK_MS, &answer);
    if (result == -ECONNRESET || result == -ENOTCONN)
        return 0; /* reading again does no harm */
    if (result)
        return queue_set_error(result, "wait for a reply", err);
    if (answer->type == REDIS_REPLY_ERROR)
        return refusal_set_error(answer, "wait for a reply", err);
    if (!find_reply(answer, job_id, ticket, &value))
        return 0;
    const char *copy = arena_copy(arena, value->str, value->len);
    if (!copy)
        return error_set_memory(err, "a reply");
    return reply_read(copy, value->len, arena, ret_reply, err) == 0 ? 1 : -1;
}

int producer_wait(struct queue *queue, const char *job_id, const char *reply_to,
                  struct producer_ticket *ticket, struct arena *arena,
                  struct reply *ret_reply, struct error *err)
{
    char key[KEY_MAX];
    int found = 0;
    keys_reply(&queue->keys, reply_to, key);
    while (found == 0)
        found = wait_once(queue, key, job_id, ticket, arena, ret_reply, err);
    return found > 0 ? 0 : -1;
}
