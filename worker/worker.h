/* A worker: takes jobs off the queue, runs each in a slot, keeps the leases, drains. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/queue.h"
#include "runtime/attributes.h"
#include "runtime/event.h"
#include "worker/config.h"
#include "worker/slot.h"

struct loop;
struct signals;

struct worker {
    struct loop *loop;
    const struct config *config;
    struct queue *queue;
    struct slot *held; /* first of a list, the newest first */
    struct slot *free;
    size_t held_count;
    bool stopping;        /* SIGTERM: no new jobs */
    bool abandoning;      /* the drain time is over: running jobs are handed back */
    bool drained;         /* no job is held any more, and none will be */
    struct event changed; /* a slot became free, a task ended, or stopping began */
    struct event stopped;
    struct event all_drained;
    struct task *fetcher; /* NULL once no job is taken any more */
    struct signals *signals;
    size_t helper_count;     /* fetcher and renewer tasks that still run */
    char redis_trouble[96];  /* why Redis cannot be reached, as logged last */
    char queue_trouble[384]; /* the last refusal of Redis that was logged, and when */
    uint64_t queue_trouble_at_ms;
    unsigned trouble_count; /* in a row */
    uint64_t answered_count;
    uint64_t dead_count;
    uint64_t fenced_count;
    uint64_t recovered_count;
};

/* Runs the worker until worker_stop. 0, or -1 with err where it could not even begin. */
NODISCARD int worker_run(struct worker *worker, const struct config *config,
                         struct error *err);

/* Begins the drain. From the loop's thread; safe in a callback. */
void worker_stop(struct worker *worker);

/* Logs every task with job, operation, step and age. */
void worker_list_tasks(struct worker *worker);
