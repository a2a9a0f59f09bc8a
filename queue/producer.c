/* XADD of a job, XREAD of replies. */
#include "queue/producer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/refusal.h"
#include "runtime/deadline.h"

enum {
    CALL_ARENA_BYTES = 16 * 1024,
    BLOCK_MS = 1000,
    REPLIES_AT_ONCE = 64,
    SLOWEST_BYTES_PER_MS = 64, /* of a way to Redis that a job with an archive can take */
};

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
    result = connection_call(queue->commands, &call, bytes / SLOWEST_BYTES_PER_MS, &reply);
    if (result)
        return queue_set_error(result, "enqueue a job", err);
    if (reply->type != REDIS_REPLY_STRING)
        return refusal_set_error(reply, "enqueue a job", err);
    (void)snprintf(ticket.entry, sizeof(ticket.entry), "%s", reply->str);
    *ret_ticket = ticket;
    return 0;
}

/* One wait over its tries. */
struct wait {
    struct queue *queue;
    const struct producer_follow *follow;
    struct producer_ticket *ticket;
    struct arena *arena; /* of the reply */
    char reply_key[KEY_MAX];
    char progress_key[KEY_MAX]; /* empty: not looked at */
};

/* The entries of one stream in what XREAD gave; NULL: none. */
static const redisReply *entries_of(const redisReply *answer, const char *key)
{
    for (size_t i = 0; answer->type == REDIS_REPLY_ARRAY && i < answer->elements; i++) {
        const redisReply *stream = answer->element[i];
        if (strcmp(stream->element[0]->str, key) == 0)
            return stream->element[1];
    }
    return NULL;
}

/* The reply, where the entry is the job's; else NULL. */
static const redisReply *reply_in(const redisReply *fields, const char *job_id)
{
    const redisReply *value = NULL;
    bool is_ours = false;
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        if (strcmp(fields->element[i]->str, "reply") == 0)
            value = fields->element[i + 1];
        if (strcmp(fields->element[i]->str, "id") == 0)
            is_ours = strcmp(fields->element[i + 1]->str, job_id) == 0;
    }
    return is_ours ? value : NULL;
}

/* Looks for the job's reply in what XREAD gave; moves the ticket on. NULL: not there. */
static const redisReply *find_reply(struct wait *wait, const redisReply *answer)
{
    struct producer_ticket *ticket = wait->ticket;
    const redisReply *entries = entries_of(answer, wait->reply_key);
    for (size_t i = 0; entries && i < entries->elements; i++) {
        const redisReply *entry = entries->element[i];
        (void)snprintf(ticket->after, sizeof(ticket->after), "%s", entry->element[0]->str);
        const redisReply *value = reply_in(entry->element[1], wait->follow->job_id);
        if (value)
            return value;
    }
    return NULL;
}

static void tell_progress(struct wait *wait, const redisReply *answer)
{
    struct producer_ticket *ticket = wait->ticket;
    const redisReply *entries =
        wait->progress_key[0] ? entries_of(answer, wait->progress_key) : NULL;
    for (size_t i = 0; entries && i < entries->elements; i++) {
        const redisReply *entry = entries->element[i];
        struct progress_entry progress;
        (void)snprintf(ticket->progress_after, sizeof(ticket->progress_after), "%s",
                       entry->element[0]->str);
        if (progress_read(entry->element[1], &progress) == 0)
            wait->follow->on_progress(wait->follow->on_progress_arg, &progress);
    }
}

/* Entry ids are the server's time: what is older than the job's entry is of an earlier job
 * of the same id. The job may begin in the very millisecond in which it was enqueued. */
static void begin_progress(struct producer_ticket *ticket)
{
    unsigned long long ms = strtoull(ticket->entry, NULL, 10);
    if (ticket->progress_after[0])
        return;
    (void)snprintf(ticket->progress_after, sizeof(ticket->progress_after), "%llu-%llu",
                   ms ? ms - 1 : 0, ms ? ULLONG_MAX : 0);
}

static void make_read(struct call *call, const struct wait *wait, struct arena *arena)
{
    uint64_t left_ms = deadline_left_ms();
    call_init(call, arena, 12);
    call_add_text(call, "XREAD");
    call_add_text(call, "COUNT");
    call_add_int(call, REPLIES_AT_ONCE);
    call_add_text(call, "BLOCK");
    call_add_int(call, left_ms < BLOCK_MS ? (int64_t)left_ms + 1 : BLOCK_MS);
    call_add_text(call, "STREAMS");
    call_add_text(call, wait->reply_key);
    if (wait->progress_key[0])
        call_add_text(call, wait->progress_key);
    call_add_text(call, wait->ticket->after);
    if (wait->progress_key[0])
        call_add_text(call, wait->ticket->progress_after);
}

/* One XREAD. 1: found and read, 0: not yet, -1: error. */
SUSPENDS static int wait_once(struct wait *wait, struct reply *ret_reply, struct error *err)
{
    arena_scoped struct arena *call_arena = arena_new(CALL_ARENA_BYTES);
    redis_reply_scoped redisReply *answer = NULL;
    struct call call;
    if (!call_arena)
        return error_set_memory(err, "a wait");
    make_read(&call, wait, call_arena);
    int result = connection_wait_up(wait->queue->commands);
    if (result == 0)
        result = connection_call(wait->queue->commands, &call, BLOCK_MS, &answer);
    if (result == -ECONNRESET || result == -ENOTCONN)
        return 0; /* reading again does no harm */
    if (result)
        return queue_set_error(result, "wait for a reply", err);
    if (answer->type == REDIS_REPLY_ERROR && wait->progress_key[0]) {
        wait->progress_key[0] = '\0'; /* the reply is worth more */
        return 0;
    }
    if (answer->type == REDIS_REPLY_ERROR)
        return refusal_set_error(answer, "wait for a reply", err);
    tell_progress(wait, answer);
    const redisReply *value = find_reply(wait, answer);
    if (!value)
        return 0;
    const char *copy = arena_copy(wait->arena, value->str, value->len);
    if (!copy)
        return error_set_memory(err, "a reply");
    return reply_read(copy, value->len, wait->arena, ret_reply, err) == 0 ? 1 : -1;
}

int producer_follow(struct queue *queue, const struct producer_follow *follow,
                    struct producer_ticket *ticket, struct arena *arena,
                    struct reply *ret_reply, struct error *err)
{
    struct wait wait = {.queue = queue, .follow = follow, .ticket = ticket, .arena = arena};
    int found = 0;
    keys_reply(&queue->keys, follow->reply_to, wait.reply_key);
    begin_progress(ticket);
    if (follow->on_progress)
        keys_progress(&queue->keys, follow->job_id, wait.progress_key);
    while (found == 0)
        found = wait_once(&wait, ret_reply, err);
    return found > 0 ? 0 : -1;
}

int producer_wait(struct queue *queue, const char *job_id, const char *reply_to,
                  struct producer_ticket *ticket, struct arena *arena,
                  struct reply *ret_reply, struct error *err)
{
    const struct producer_follow follow = {.job_id = job_id, .reply_to = reply_to};
    return producer_follow(queue, &follow, ticket, arena, ret_reply, err);
}
