/* Opening, joining and leaving a queue. */
#include "queue/queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue/refusal.h"
#include "queue/script.h"
#include "runtime/random.h"

enum { CALL_ARENA_BYTES = 64 * 1024 };

/* A second process under one name would be handed the first one's running jobs: the name is
 * new with every start. */
static void make_consumer_name(char *text, size_t size)
{
    char host[64] = "host";
    char random[17];
    (void)gethostname(host, sizeof(host) - 1);
    for (char *c = host; *c; c++) {
        if (*c <= ' ' || *c >= 0x7f)
            *c = '-';
    }
    random_hex(random, 8);
    (void)snprintf(text, size, "%s:%ld:%s", host, (long)getpid(), random);
}

static struct connection *connect_to(struct queue *queue, struct loop *loop)
{
    const struct connection_options options = {
        .address = queue->options.address,
        .name = queue->consumer,
        .on_change = queue->options.on_change,
        .on_change_arg = queue->options.on_change_arg,
    };
    return connection_new(loop, &options);
}

int queue_open(struct loop *loop, const struct queue_options *options, bool with_reader,
               struct queue **ret_queue, struct error *err)
{
    struct queue *queue = calloc(1, sizeof(*queue));
    if (!queue)
        return error_set_memory(err, "the queue");
    queue->loop = loop;
    queue->options = *options;
    if (keys_init(&queue->keys, options->queue, err) != 0) {
        free(queue);
        return -1;
    }
    make_consumer_name(queue->consumer, sizeof(queue->consumer));
    queue->commands = connect_to(queue, loop);
    queue->reads = with_reader ? connect_to(queue, loop) : NULL;
    if (!queue->commands || (with_reader && !queue->reads)) {
        queue_free(queue);
        return error_set_memory(err, "a connection");
    }
    *ret_queue = queue;
    return 0;
}

void queue_free(struct queue *queue)
{
    if (!queue)
        return;
    connection_free(queue->reads);
    connection_free(queue->commands);
    free(queue);
}

int queue_set_error(int result, const char *what, struct error *err)
{
    switch (result) {
    case -ENOTCONN:
        return error_set(err, ERROR_QUEUE_UNAVAILABLE, "no connection to Redis to %s",
                         what);
    case -ECONNRESET:
        return error_set(err, ERROR_QUEUE_UNAVAILABLE,
                         "the connection to Redis was lost in the middle of: %s", what);
    case -ETIMEDOUT:
    case -ECANCELED:
    case -ENOMEM:
    default:
        return error_set_wait(err, result, what);
    }
}

/* Sends one of the group commands; BUSYGROUP is as good as done. */
SUSPENDS static int group_call(struct queue *queue, struct call *call, const char *what,
                               struct error *err)
{
    redis_reply_scoped redisReply *reply = NULL;
    int result = connection_call(queue->commands, call, 0, &reply);
    if (result)
        return queue_set_error(result, what, err);
    enum refusal refusal = refusal_of(reply);
    if (refusal == REFUSAL_NONE || refusal == REFUSAL_BUSY_GROUP)
        return 0;
    return refusal_set_error(reply, what, err);
}

int queue_join(struct queue *queue, struct error *err)
{
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    struct call call;
    if (!arena)
        return error_set_memory(err, "a call");
    call_init(&call, arena, 8);
    call_add_text(&call, "XGROUP");
    call_add_text(&call, "CREATE");
    call_add_text(&call, queue->keys.jobs);
    call_add_text(&call, KEYS_GROUP);
    call_add_text(&call, "0");
    call_add_text(&call, "MKSTREAM");
    if (group_call(queue, &call, "create the consumer group", err) != 0)
        return -1;
    call_init(&call, arena, 8);
    call_add_text(&call, "XGROUP");
    call_add_text(&call, "CREATECONSUMER");
    call_add_text(&call, queue->keys.jobs);
    call_add_text(&call, KEYS_GROUP);
    call_add_text(&call, queue->consumer);
    return group_call(queue, &call, "create the consumer", err);
}

void queue_leave(struct queue *queue)
{
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    if (!arena)
        return;
    script_begin(&call, SCRIPT_LEAVE, 1, arena);
    call_add_text(&call, queue->keys.jobs);
    call_add_text(&call, KEYS_GROUP);
    call_add_text(&call, queue->consumer);
    (void)script_run(queue->commands, SCRIPT_LEAVE, &call, &reply);
}
