/* How far a job is, for people who wait: one line a phase. On a terminal the line is
 * written anew in place; elsewhere there is a line for what begins, for what is complete
 * and for what an installation says. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "queue/progress.h"
#include "runtime/attributes.h"
#include "runtime/buffer.h"

struct progress_view {
    struct buffer *out;
    size_t columns; /* of the terminal; 0: it is none */
    char phase[sizeof(((struct progress_entry *)0)->phase)]; /* the last one shown */
    bool line_open; /* the cursor stands behind what was written last */
};

void progress_view_init(struct progress_view *view, struct buffer *out, size_t columns);

/* Appends what is to be written for an entry. Nothing in it can steer a terminal or
 * take more than one line of it. Negative: out of memory. */
NODISCARD int progress_view_show(struct progress_view *view,
                                 const struct progress_entry *entry);

/* Ends the line that is open, where there is one. */
NODISCARD int progress_view_end(struct progress_view *view);
