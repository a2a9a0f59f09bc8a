/* A delivery: one entry of the jobs stream in the hands of one consumer. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/attributes.h"

enum { DELIVERY_ENTRY_MAX = 44 }; /* two 64-bit numbers, a hyphen, NUL */

/* Texts point into the batch's reply, or, after delivery_copy, into an arena. */
struct delivery {
    char entry[DELIVERY_ENTRY_MAX];
    int64_t token;   /* delivery count when it was given to us: with the owner, the fence */
    const char *job; /* the bytes of field job; NULL: the entry has none */
    size_t job_bytes;
    int attempt;              /* from 1 */
    int64_t enqueued_unix_ms; /* of the first entry, where this one was added anew */
};

/* What one read or reap gave. */
struct batch {
    redisReply *reply; /* owned */
    struct delivery *deliveries;
    size_t count;
    size_t buried_count;   /* entries that a reap put to the dead letters by itself */
    size_t unburied_count; /* and that it could not: the key holds something else */
};

/* Reads one entry: its id and its list of field names and values. -1: not an entry. */
NODISCARD int delivery_read(const redisReply *id, const redisReply *fields, int64_t token,
                            struct delivery *ret_delivery);

/* Makes the delivery independent of its batch. -1: the arena is full. */
NODISCARD int delivery_copy(const struct delivery *delivery, struct arena *arena,
                            struct delivery *ret_delivery);

/* Fills a batch from the answer of XREADGROUP, [[stream, [[id, [name, value, ...]], ...]]],
 * or of the reap script, [[id, token, idle, owner, fields or reason], ...]; what has
 * another form is passed over. The deliveries point into the answer, which is not taken.
 * -1: out of memory. */
NODISCARD int batch_read_entries(const redisReply *reply, struct batch *ret_batch);
NODISCARD int batch_read_rows(const redisReply *reply, struct batch *ret_batch);

void batch_done(struct batch *batch);
void batch_cleanup(struct batch *batch);
#define batch_scoped __attribute__((cleanup(batch_cleanup)))
