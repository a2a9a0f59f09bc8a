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

static int read_record(const redisReply *reply, struct arena *arena,
                       struct reply_outcome *ret_outcome, struct error *err)
{
    if (reply->type != REDIS_REPLY_STRING || reply->len < 4 ||
        memcmp(reply->str, "d:", 2) != 0)
        return 0;
    const char *newline = memchr(reply->str, '\n', reply->len);
    if (!newline)
        return 0;
    size_t size = reply->len - (size_t)(newline + 1 - reply->str);
    const char *data = arena_copy(arena, newline + 1, size);
    struct message value;
    if (!data)
        return error_set_memory(err, "an outcome record");
    if (message_read(data, size, arena, &value, NULL) != 0)
        return 0;
    *ret_outcome =
        (struct reply_outcome){.ok = newline[-1] == '1', .data = data, .size = size};
    return 0;
}

/* 1: ask again; 0: asked; -1: error. */
SUSPENDS static int read_once(struct queue *queue, const char *key, struct arena *arena,
                              struct reply_outcome *ret_outcome, struct error *err)
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
    return read_record(reply, arena, ret_outcome, err);
}

int outcome_read(struct queue *queue, const struct lease *lease, const char *job_id,
                 struct arena *arena, struct reply_outcome *ret_outcome, struct error *err)
{
    char key[KEY_MAX];
    struct reply_outcome outcome = {0};
    int again = 1;
    keys_done(&queue->keys, job_id, key);
    while (again > 0 && lease_is_live(lease, queue->options.lease_ms, clock_boot_ms()))
        again = read_once(queue, key, arena, &outcome, err);
    if (again < 0)
        return -1;
    if (again > 0)
        return error_set(err, ERROR_QUEUE_UNAVAILABLE,
                         "the outcome record could not be read in time");
    *ret_outcome = outcome;
    return 0;
}
