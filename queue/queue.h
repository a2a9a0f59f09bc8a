/* A queue as one worker process sees it: its keys, its consumer name, and two connections,
 * one for reads that block in the server and one for everything else. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "queue/connection.h"
#include "queue/keys.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

struct loop;

struct queue_options {
    struct address address;
    const char *queue;      /* its name */
    uint64_t lease_ms;      /* how long an entry may go unrenewed */
    int64_t reply_maxlen;   /* bound of each reply stream, about */
    int64_t dead_maxlen;    /* bound of the dead letters, about */
    uint64_t record_ttl_ms; /* life of an outcome record */
    int max_deliveries;     /* without an answer, before the job is a crash loop */
    /* Told when either connection goes up or down; may be NULL. */
    void (*on_change)(void *arg, bool is_up, const char *why);
    void *on_change_arg;
};

struct queue {
    struct loop *loop;
    struct queue_options options;
    struct keys keys;
    char consumer[128]; /* host:pid:random, new for every process */
    struct connection *commands;
    struct connection *reads; /* NULL for a producer */
};

/* Opens the queue and starts connecting. with_reader: also the connection for blocking
 * reads. ERROR_CONFIGURATION, or internal where memory is short. */
NODISCARD int queue_open(struct loop *loop, const struct queue_options *options,
                         bool with_reader, struct queue **ret_queue, struct error *err);

/* Ends the connections and frees it. NULL is fine. From a task. */
SUSPENDS void queue_free(struct queue *queue);

/* Creates stream and group where they are missing, at entry 0 so that nothing queued before
 * is skipped, and this consumer, so that an idle worker is seen. 0, or -1 with
 * queue_unavailable. */
SUSPENDS NODISCARD int queue_join(struct queue *queue, struct error *err);

/* Removes this consumer, unless it still holds entries. Failures do not matter: a consumer
 * that is left behind costs a few bytes, and what it holds is recovered. */
SUSPENDS void queue_leave(struct queue *queue);

/* Maps what connection_call returned to queue_unavailable. Returns -1. */
int queue_set_error(int result, const char *what, struct error *err);
