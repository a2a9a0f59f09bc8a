/* An event: tasks wait for it, anyone on the loop's thread signals it. It holds no state,
 * so a waiter checks its own condition in a loop around event_wait. */
#pragma once

#include "runtime/attributes.h"

#include "runtime/task.h"

struct event_waiter;

struct event {
    struct event_waiter *first;
    struct event_waiter *last;
};

/* Suspends until the event is signalled. 0, -ECANCELED or -ETIMEDOUT. */
SUSPENDS NODISCARD int event_wait(struct event *event, const char *step);

/* Wakes the task that has waited longest, or all of them. */
void event_signal(struct event *event);
void event_broadcast(struct event *event);
