/* A slot: room for one job. It holds the delivery and its lease from the moment Redis gave
 * the entry until the outcome is written or the lease is lost. */
#pragma once

#include <stdint.h>

#include "queue/delivery.h"
#include "queue/job.h"
#include "queue/lease.h"
#include "queue/reply.h"
#include "runtime/arena.h"
#include "runtime/task.h"

struct profile;
struct worker;

/* state, name */
#define SLOT_STATES(X)                                                                     \
    X(SLOT_FREE, "free")                                                                   \
    X(SLOT_HELD, "held")       /* given by Redis, its task has not begun */                \
    X(SLOT_RUNNING, "running") /* its task works on it */                                  \
    X(SLOT_ENDING, "ending")   /* the outcome is decided and being written */

enum slot_state {
#define SLOT_STATE_ENUM(state, name) state,
    SLOT_STATES(SLOT_STATE_ENUM)
#undef SLOT_STATE_ENUM
};

struct slot {
    struct worker *worker;
    struct slot *next; /* in the worker's list of held or of free slots */
    struct slot *previous;
    enum slot_state state;
    struct delivery delivery;
    struct lease lease;
    struct arena *arena;
    struct task *task; /* while it runs */
    struct job job;
    const struct profile *profile; /* that the job names; NULL: none of ours, or not read */
    /* What an earlier entry of this job id came to; data NULL: there was none. */
    struct reply_outcome recorded;
    struct reply_outcome kept; /* what this one comes to, for later ones */
    uint64_t began_at_ms;      /* the loop's clock */
    int64_t began_unix_ms;
};

/* The one function that changes a slot's state. */
void slot_set_state(struct slot *slot, enum slot_state state);

/* Takes a slot for the delivery and starts its task. Where memory is short the entry is
 * left pending, to be recovered when its lease has run out, and a line is logged. */
void slot_begin(struct worker *worker, const struct delivery *delivery);

/* Frees the worker's slots; none may be held. */
void slot_free_all(struct worker *worker);
