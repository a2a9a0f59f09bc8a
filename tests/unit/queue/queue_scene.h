/* A queue on a real redis-server, for tests of what stands on one. */
#pragma once

#include "support.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "queue/queue.h"
#include "queue/refusal.h"
#include "redis_server.h"
#include "runtime/deadline.h"
#include "runtime/loop.h"
#include "runtime/task.h"

enum { SCENE_LEASE_MS = 30000, SCENE_WAIT_MS = 20000 };

struct queue_scene {
    struct redis_server server;
    struct queue *queue;
    struct arena *arena; /* of the running test's calls */
    void (*run)(struct queue_scene *scene);
    void *arg;
    int failures; /* of what the test's task expected, which asserts nothing itself */
};

/* In a task: notes that something was not as it should be, and where. */
#define scene_expect(scene, is_so)                                                         \
    do {                                                                                   \
        if (!(is_so)) {                                                                    \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #is_so);      \
            (scene)->failures++;                                                           \
        }                                                                                  \
    } while (0)

static int scene_set_up(void **state)
{
    static struct queue_scene scene;
    memset(&scene, 0, sizeof(scene));
    redis_server_init(&scene.server);
    redis_server_start(&scene.server, NULL);
    *state = &scene;
    return 0;
}

static int scene_tear_down(void **state)
{
    struct queue_scene *scene = *state;
    redis_server_done(&scene->server);
    return 0;
}

static void scene_task(void *arg)
{
    struct queue_scene *scene = arg;
    struct queue_options options = {
        .queue = "s",
        .lease_ms = SCENE_LEASE_MS,
        .reply_maxlen = 100,
        .dead_maxlen = 100,
        .record_ttl_ms = 60000,
        .max_deliveries = 3,
    };
    struct error err = {0};
    struct deadline deadline;
    (void)address_parse(scene->server.url, &options.address, &err);
    if (queue_open(task_loop(task_self()), &options, false, &scene->queue, &err) != 0) {
        scene->failures++;
        return;
    }
    deadline_enter(&deadline, SCENE_WAIT_MS);
    scene_expect(scene, connection_wait_up(scene->queue->commands) == 0);
    scene->run(scene);
    deadline_leave(&deadline);
    queue_free(scene->queue);
}

/* Opens the queue and calls run in a task, with a deadline over it. */
static void scene_run(struct queue_scene *scene, void (*run)(struct queue_scene *scene))
{
    scene->arena = arena_new((size_t)64 * 1024 * 1024);
    scene->run = run;
    scene->failures = 0;
    support_run_task(scene_task, scene);
    arena_free(scene->arena);
    assert_int_equal(scene->failures, 0);
}

/* One command whose arguments hold no blanks: "SET key value". NULL: no answer. */
SUSPENDS static redisReply *scene_call(struct queue_scene *scene, const char *words)
{
    redisReply *reply = NULL;
    struct call call;
    char *text = arena_text(scene->arena, words);
    char *rest = NULL;
    call_init(&call, scene->arena, 8);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        call_add_text(&call, word);
    (void)connection_call(scene->queue->commands, &call, 0, &reply);
    return reply;
}

/* Likewise; the answer's number, or -1 where it is none. */
__attribute__((unused)) SUSPENDS static long long scene_number(struct queue_scene *scene,
                                                               const char *words)
{
    redis_reply_scoped redisReply *reply = scene_call(scene, words);
    return reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
}
