/* The ceiling of the queue path: the Redis commands and the script that a worker sends for
 * a job, sent by nothing but a hiredis pipeline. No decoding, no tasks, no log.
 *
 *   queue_ceiling SOCKET QUEUE COUNT REPLY_BYTES AT_ONCE
 *
 * Consumes COUNT jobs of the queue and prints its own CPU seconds; the rate is read off the
 * reply stream by whoever started it, the same way as for attachd. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "queue/keys.h"

extern const char lua_finish[];
extern const char lua_finish_sha1[];

enum { REPLY_MOST = 1 << 20 };

static void die(const char *what, const redisContext *context)
{
    (void)fprintf(stderr, "queue_ceiling: %s: %s\n", what, context ? context->errstr : "");
    exit(1);
}

static redisReply *next_reply(redisContext *context)
{
    void *reply = NULL;
    if (redisGetReply(context, &reply) != REDIS_OK)
        die("no reply", context);
    return reply;
}

static void append_read(redisContext *context, const struct keys *keys, const char *at_once)
{
    const char *argv[] = {"XREADGROUP", "GROUP", KEYS_GROUP, "ceiling",  "COUNT", at_once,
                          "BLOCK",      "2000",  "STREAMS",  keys->jobs, ">"};
    (void)redisAppendCommandArgv(context, sizeof(argv) / sizeof(argv[0]), argv, NULL);
}

static void append_finish(redisContext *context, const struct keys *keys, const char *entry,
                          long job, const char *reply, size_t reply_bytes)
{
    char id[32];
    char done[KEY_MAX];
    (void)snprintf(id, sizeof(id), "b%ld", job);
    keys_done(keys, id, done);
    const char *argv[] = {"EVALSHA",  lua_finish_sha1, "3",       keys->jobs, keys->replies,
                          done,       KEYS_GROUP,      "ceiling", entry,      "1",
                          "10000000", "3600000",       id,        "0",        reply};
    size_t sizes[sizeof(argv) / sizeof(argv[0])];
    size_t count = sizeof(argv) / sizeof(argv[0]);
    for (size_t i = 0; i < count; i++)
        sizes[i] = strlen(argv[i]);
    sizes[count - 1] = reply_bytes;
    (void)redisAppendCommandArgv(context, (int)count, argv, sizes);
}

/* Finishes what one read gave. */
static long finish_batch(redisContext *context, const struct keys *keys,
                         const redisReply *batch, long done, const char *reply,
                         size_t reply_bytes)
{
    if (batch->type != REDIS_REPLY_ARRAY || batch->elements == 0)
        return 0;
    const redisReply *entries = batch->element[0]->element[1];
    for (size_t i = 0; i < entries->elements; i++)
        append_finish(context, keys, entries->element[i]->element[0]->str, done + (long)i,
                      reply, reply_bytes);
    return (long)entries->elements;
}

int main(int argc, char **argv)
{
    static char reply[REPLY_MOST];
    struct keys keys;
    struct error err = {0};
    struct rusage usage;
    if (argc != 6 || keys_init(&keys, argv[2], &err) != 0)
        return 2;
    long count = strtol(argv[3], NULL, 10);
    size_t reply_bytes = strtoul(argv[4], NULL, 10);
    memset(reply, 'r', sizeof(reply));
    redisContext *context = redisConnectUnix(argv[1]);
    if (!context || context->err)
        die("connect", context);
    freeReplyObject(redisCommand(context, "SCRIPT LOAD %s", lua_finish));
    append_read(context, &keys, argv[5]);
    redisReply *batch = next_reply(context);
    for (long done = 0; done < count;) {
        long some = finish_batch(context, &keys, batch, done, reply, reply_bytes);
        freeReplyObject(batch);
        append_read(context, &keys, argv[5]);
        for (long i = 0; i < some; i++) {
            redisReply *answer = next_reply(context);
            if (answer->type != REDIS_REPLY_INTEGER || answer->integer != 1)
                die("a finish failed", NULL);
            freeReplyObject(answer);
        }
        done += some;
        if (done < count)
            batch = next_reply(context);
    }
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)printf("%.3f\n",
                 (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
                     (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6);
    return 0;
}
