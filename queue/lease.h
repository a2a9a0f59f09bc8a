/* Leases: the right to answer an entry, kept by renewing it, whatever the job does
 * meanwhile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/delivery.h"
#include "queue/queue.h"

/* One entry that is held. */
struct lease {
    int64_t token;
    uint64_t renewed_at_ms; /* clock_boot_ms() when Redis last confirmed it, or gave it */
    char entry[DELIVERY_ENTRY_MAX];
    bool lost; /* Redis said that it is somebody else's now, or nobody's */
};

/* Whether it may still be answered: not lost, and confirmed less than lease_ms minus a
 * tenth ago. A worker that was stopped, or cut off, for longer must let go by itself. */
bool lease_is_live(const struct lease *lease, uint64_t lease_ms, uint64_t now_ms);

/* Milliseconds for which it may still be answered without another renewal; 0: no more. */
uint64_t lease_left_ms(const struct lease *lease, uint64_t lease_ms, uint64_t now_ms);

/* Renews all of them in as few calls as possible and sets renewed_at_ms or lost of each. 0;
 * -1 with queue_unavailable where Redis gave no answer: nothing is known then. */
SUSPENDS NODISCARD int lease_renew(struct queue *queue, struct lease *leases, size_t count,
                                   struct error *err);

/* Hands entries back that were not begun. 0 or -1 with queue_unavailable. */
SUSPENDS NODISCARD int lease_release(struct queue *queue, const struct lease *leases,
                                     size_t count, struct error *err);
