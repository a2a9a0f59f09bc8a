/* Taking over entries whose lease has run out. Every worker does it; there is no leader. */
#pragma once

#include "queue/delivery.h"
#include "queue/queue.h"

/* After how many deliveries beyond max_deliveries an entry is put away unseen. */
enum { REAPER_HOPELESS_AFTER = 3 };

/* Takes up to `count` entries over. Each delivery carries its new token; one whose token is
 * above max_deliveries is to be answered as a crash loop, not run. -1 with
 * queue_unavailable. */
SUSPENDS NODISCARD int reaper_reap(struct queue *queue, int count, struct batch *ret_batch,
                                   struct error *err);
