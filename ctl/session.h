/* A connection to a queue, on a loop of its own, and the work that is done over it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "queue/address.h"
#include "queue/queue.h"
#include "runtime/attributes.h"
#include "runtime/error.h"
#include "runtime/task.h"

enum { SESSION_CONNECT_MS = 5000 };

struct session_target {
    struct address address;
    const char *queue;
    uint64_t connect_ms; /* a connection is waited for so long, and SESSION_CONNECT_MS at
                            most */
};

struct session {
    const struct session_target *target;
    struct queue *queue;
    char place[400]; /* where Redis is, for people */
};

/* How a session ended, beside its result. */
struct session_end {
    /* SIGINT came, and the work was cancelled by it: every wait of it returned -ECANCELED.
     * A second one ends the process as if there were no session. */
    bool is_interrupted;
    /* A name is still being looked up in the thread pool, which nothing can take back: the
     * process has to be left with _exit(), or it would wait for the resolver. */
    bool is_stuck;
};

/* Connects, calls work(session, arg, err) from a task, disconnects, and gives what work
 * gave; -1 where there was no connection: queue_unavailable with a message that says what
 * to look at and holds no password, configuration, or internal. ret_end is always set. */
NODISCARD int session_run(const struct session_target *target,
                          SUSPENDS int (*work)(struct session *session, void *arg,
                                               struct error *err),
                          void *arg, struct session_end *ret_end, struct error *err);
