/* The finish and dead-letter scripts, sent until they are answered. Sending again is safe:
 * the script knows its own earlier work by the mark in the outcome record. */
#include "queue/finish.h"

#include <errno.h>
#include <string.h>

#include "queue/outcome.h"
#include "queue/refusal.h"
#include "queue/script.h"
#include "runtime/clock.h"
#include "runtime/deadline.h"
#include "runtime/task.h"

enum { CALL_ARENA_BYTES = 64 * 1024, PAUSE_MS = 200, PIECE_MS = 250 };

/* Whether to send again after an answer that settles nothing; waits a little first. 0:
 * again. */
SUSPENDS static int pause_or_give_up(const redisReply *reply, const char *what,
                                     struct error *err)
{
    if (!refusal_passes(refusal_of(reply)))
        return refusal_set_error(reply, what, err);
    int result = task_sleep(PAUSE_MS);
    return result ? error_set_wait(err, result, what) : 0;
}

/* What the script's answer settles. 1: nothing yet, send again; 0: settled; -1: refused for
 * good. */
SUSPENDS static int read_answer(const redisReply *reply, const char *what,
                                enum finish *ret_finish, struct error *err)
{
    if (reply->type == REDIS_REPLY_INTEGER) {
        *ret_finish = reply->integer ? FINISH_DONE : FINISH_FENCED;
        return 0;
    }
    switch (refusal_of(reply)) {
    case REFUSAL_NO_GROUP: /* stream and group are gone, and our delivery with them */
        *ret_finish = FINISH_FENCED;
        return 0;
    case REFUSAL_WRONG_TYPE:
        *ret_finish = FINISH_UNANSWERABLE;
        return 0;
    case REFUSAL_NONE:
    case REFUSAL_NO_SCRIPT:
    case REFUSAL_BUSY_GROUP:
    case REFUSAL_WRONG_NODE:
    case REFUSAL_UNWELL:
    case REFUSAL_DENIED:
    case REFUSAL_CLUSTER:
    case REFUSAL_OTHER:
        break;
    }
    return pause_or_give_up(reply, what, err) == 0 ? 1 : -1;
}

/* Waits for Redis, but only as long as the lease lives; in short pieces, since a lease can
 * be lost meanwhile. */
SUSPENDS static int wait_up_a_while(struct queue *queue, const struct lease *lease)
{
    uint64_t left_ms = lease_left_ms(lease, queue->options.lease_ms, clock_boot_ms());
    struct deadline piece;
    deadline_enter(&piece, left_ms < PIECE_MS ? left_ms : PIECE_MS);
    int result = connection_wait_up(queue->commands);
    deadline_leave(&piece);
    return result;
}

/* Sends it once. 1: send again; 0: settled; -1: error. */
SUSPENDS static int run_once(struct queue *queue, const struct lease *lease,
                             enum script script, const struct call *call, const char *what,
                             enum finish *ret_finish, struct error *err)
{
    redis_reply_scoped redisReply *reply = NULL;
    struct call copy = *call; /* script_run may turn the head into EVAL */
    int result = wait_up_a_while(queue, lease);
    if (result == -ETIMEDOUT)
        return 1; /* the caller looks at the lease */
    if (result)
        return queue_set_error(result, what, err);
    result = script_run(queue->commands, script, &copy, &reply);
    if (result == -ECONNRESET || result == -ENOTCONN)
        return 1;
    if (result)
        return queue_set_error(result, what, err);
    return read_answer(reply, what, ret_finish, err);
}

SUSPENDS static int run_until_answered(struct queue *queue, const struct lease *lease,
                                       enum script script, const struct call *call,
                                       const char *what, enum finish *ret_finish,
                                       struct error *err)
{
    while (lease_is_live(lease, queue->options.lease_ms, clock_boot_ms())) {
        int again = run_once(queue, lease, script, call, what, ret_finish, err);
        if (again <= 0)
            return again;
    }
    *ret_finish = FINISH_FENCED;
    return 0;
}

/* group, consumer, entry, token: what every fence looks at. */
static void add_fence(struct call *call, const struct queue *queue,
                      const struct lease *lease)
{
    call_add_text(call, KEYS_GROUP);
    call_add_text(call, queue->consumer);
    call_add_text(call, lease->entry);
    call_add_int(call, lease->token);
}

/* What the outcome record keeps beside the mark: its head and the value, two arguments. */
static int add_outcome(struct call *call, const struct reply_outcome *outcome)
{
    bool is_kept = outcome && outcome->size <= OUTCOME_MAX_BYTES;
    const char *head =
        is_kept ? arena_printf(call->arena, "%s %d", outcome->op, outcome->ok) : "";
    if (!head)
        return -ENOMEM;
    call_add_text(call, head);
    call_add(call, is_kept ? outcome->data : "", is_kept ? outcome->size : 0);
    return 0;
}

int finish_with_reply(struct queue *queue, const struct lease *lease,
                      const struct finish_reply *reply, enum finish *ret_finish,
                      struct error *err)
{
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    char reply_key[KEY_MAX];
    char done_key[KEY_MAX];
    struct call call;
    if (!arena)
        return error_set_memory(err, "a reply");
    keys_reply(&queue->keys, reply->reply_to, reply_key);
    keys_done(&queue->keys, reply->job_id, done_key);
    script_begin(&call, SCRIPT_FINISH, 3, arena);
    call_add_text(&call, queue->keys.jobs);
    call_add_text(&call, reply_key);
    call_add_text(&call, done_key);
    add_fence(&call, queue, lease);
    call_add_int(&call, queue->options.reply_maxlen);
    call_add_int(&call, (int64_t)queue->options.record_ttl_ms);
    call_add_text(&call, reply->job_id);
    call_add_text(&call, reply->ok ? "1" : "0");
    call_add(&call, reply->data, reply->size);
    if (add_outcome(&call, reply->outcome) != 0)
        return error_set_memory(err, "a reply");
    return run_until_answered(queue, lease, SCRIPT_FINISH, &call, "answer a job",
                              ret_finish, err);
}

static void add_pair(struct call *call, const char *name, const char *value)
{
    call_add_text(call, name);
    call_add_text(call, value);
}

static void add_letter_fields(struct call *call, const struct queue *queue,
                              const struct lease *lease, const struct finish_letter *letter)
{
    if (letter->job_id)
        add_pair(call, "id", letter->job_id);
    add_pair(call, "reason", letter->reason);
    add_pair(call, "error", letter->error);
    call_add_text(call, "attempt");
    call_add_int(call, letter->attempt);
    call_add_text(call, "deliveries");
    call_add_int(call, lease->token);
    add_pair(call, "owner", queue->consumer);
    add_pair(call, "entry", lease->entry);
    call_add_text(call, "dead_ms");
    call_add_int(call, clock_unix_ms());
}

int finish_with_letter(struct queue *queue, const struct lease *lease,
                       const struct finish_letter *letter, enum finish *ret_finish,
                       struct error *err)
{
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    const struct finish_reply *reply = letter->reply;
    char reply_key[KEY_MAX];
    char done_key[KEY_MAX];
    struct call call;
    if (!arena)
        return error_set_memory(err, "a dead letter");
    keys_reply(&queue->keys, reply ? reply->reply_to : NULL, reply_key);
    /* Without a job id there is no record; the key is named all the same and left alone. */
    keys_done(&queue->keys, letter->job_id ? letter->job_id : "-", done_key);
    script_begin(&call, SCRIPT_DEAD_LETTER, 4, arena);
    call_add_text(&call, queue->keys.jobs);
    call_add_text(&call, queue->keys.dead);
    call_add_text(&call, reply_key);
    call_add_text(&call, done_key);
    add_fence(&call, queue, lease);
    call_add_int(&call, queue->options.dead_maxlen);
    call_add_int(&call, queue->options.reply_maxlen);
    call_add_int(&call, (int64_t)queue->options.record_ttl_ms);
    call_add_text(&call, letter->job_id ? letter->job_id : "");
    call_add(&call, reply ? reply->data : "", reply ? reply->size : 0);
    add_letter_fields(&call, queue, lease, letter);
    return run_until_answered(queue, lease, SCRIPT_DEAD_LETTER, &call,
                              "write a dead letter", ret_finish, err);
}
