/* Reading new entries for this consumer. */
#pragma once

#include "queue/delivery.h"
#include "queue/queue.h"

/* Reads up to `count` (at least 1: Redis takes 0 for "all") new entries, waiting in the
 * server for up to block_ms. An empty batch is no error. 0; 1: the group was
 * gone and has been made anew; -1 with queue_unavailable, cancelled or internal. */
SUSPENDS NODISCARD int reader_read(struct queue *queue, int count, uint64_t block_ms,
                                   struct batch *ret_batch, struct error *err);

/* Ends a read that blocks; it then gives an empty batch. */
SUSPENDS void reader_unblock(struct queue *queue);
