/* Reading outcome records. What is no record of ours counts as none: the operation then
 * runs, and is harmless in the sandbox for a job id that it knows. */
#include "queue/outcome.h"

#include <errno.h>
#include <string.h>

#include "queue/refusal.h"
#include "runtime/clock.h"
#include "runtime/task.h"

enum { CALL_ARENA_BYTES = 4096, PAUSE_MS = 200 };

bool outcome_keeps_error(const struct error *err)
{
    if (err->retryable)
        return false;
    return err->code == ERROR_COMMAND_FAILED || err->code == ERROR_DEPLOY_FAILED ||
           err->code == ERROR_OUTCOME_UNKNOWN;
}

/* What comes behind the first LF of it; NULL: there is none. */
static const char *behind_line(const char *text, const char *end)
{
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    return newline ? newline + 1 : NULL;
}

/* `MARK LF OP BLANK OK LF VALUE`, all of it foreign until it has been looked at. */
static bool split_record(const redisReply *reply, const char *op,
                         struct reply_outcome *ret_outcome)
{
    if (reply->type != REDIS_REPLY_STRING || strncmp(reply->str, "d:", 2) != 0)
        return false;
    const char *end = reply->str + reply->len;
    const char *head = behind_line(reply->str, end);
    const char *value = head ? behind_line(head, end) : NULL;
    size_t op_size = strlen(op);
    if (!value || (size_t)(value - head) != op_size + 3 || memcmp(head, op, op_size) != 0 ||
        head[op_size] != ' ')
        return false;
    *ret_outcome = (struct reply_outcome){.op = op,
                                          .ok = head[op_size + 1] == '1',
                                          .data = value,
                                          .size = (size_t)(end - value)};
    return true;
}

static int read_record(const redisReply *reply, const char *op, struct arena *arena,
                       struct reply_outcome *ret_outcome, struct error *err)
{
    struct reply_outcome outcome;
    struct message value;
    struct error unreadable = {0};
    if (!split_record(reply, op, &outcome))
        return 0;
    outcome.data = arena_copy(arena, outcome.data, outcome.size);
    if (!outcome.data)
        return error_set_memory(err, "an outcome record");
    if (message_read(outcome.data, outcome.size, arena, &value, &unreadable) == 0)
        *ret_outcome = outcome;
    else if (unreadable.code == ERROR_INTERNAL)
        return error_set_memory(err, "an outcome record");
    return 0;
}

/* 1: ask again; 0: asked; -1: error. */
SUSPENDS static int read_once(struct queue *queue, const char *key, const char *op,
                              struct arena *arena, struct reply_outcome *ret_outcome,
                              struct error *err)
{
    arena_scoped struct arena *scratch = arena_new(CALL_ARENA_BYTES);
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    if (!scratch)
        return error_set_memory(err, "a command");
    call_init(&call, scratch, 2);
    call_add_text(&call, "GET");
    call_add_text(&call, key);
    int result = connection_call(queue->commands, &call, 0, &reply);
    if (result == -ECONNRESET || result == -ENOTCONN) {
        result = task_sleep(PAUSE_MS);
        return result ? error_set_wait(err, result, "read an outcome record") : 1;
    }
    if (result)
        return queue_set_error(result, "read an outcome record", err);
    if (reply->type == REDIS_REPLY_ERROR && refusal_passes(refusal_of(reply))) {
        result = task_sleep(PAUSE_MS);
        return result ? error_set_wait(err, result, "read an outcome record") : 1;
    }
    return read_record(reply, op, arena, ret_outcome, err);
}

int outcome_read(struct queue *queue, const struct lease *lease, const char *job_id,
                 const char *op, struct arena *arena, struct reply_outcome *ret_outcome,
                 struct error *err)
{
    char key[KEY_MAX];
    struct reply_outcome outcome = {0};
    int again = 1;
    keys_done(&queue->keys, job_id, key);
    while (again > 0 && lease_is_live(lease, queue->options.lease_ms, clock_boot_ms()))
        again = read_once(queue, key, op, arena, &outcome, err);
    if (again < 0)
        return -1;
    if (again > 0)
        return error_set(err, ERROR_QUEUE_UNAVAILABLE,
                         "the outcome record could not be read in time");
    *ret_outcome = outcome;
    return 0;
}
