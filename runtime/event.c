/* A list of waiters that live in the waiting tasks' frames; each takes itself off on its
 * way out. */
#include "runtime/event.h"

#include <assert.h>
#include <stddef.h>

struct event_waiter {
    struct event *event; /* NULL: signalled, off the list */
    struct event_waiter *next;
    struct event_waiter *previous;
    struct task *task;
};

static void append(void *arg)
{
    struct event_waiter *waiter = arg;
    struct event *event = waiter->event;
    waiter->previous = event->last;
    if (event->last)
        event->last->next = waiter;
    else
        event->first = waiter;
    event->last = waiter;
}

static void take_off(struct event_waiter *waiter)
{
    struct event *event = waiter->event;
    assert(event && "a waiter is taken off once");
    if (waiter->previous)
        waiter->previous->next = waiter->next;
    else
        event->first = waiter->next;
    if (waiter->next)
        waiter->next->previous = waiter->previous;
    else
        event->last = waiter->previous;
    waiter->event = NULL;
}

int event_wait(struct event *event, const char *step)
{
    struct event_waiter waiter = {.event = event, .task = task_self()};
    append(&waiter);
    int result = task_await(step, NULL, NULL);
    if (waiter.event)
        take_off(&waiter);
    return result;
}

void event_signal(struct event *event)
{
    struct event_waiter *waiter = event->first;
    if (!waiter)
        return;
    take_off(waiter);
    task_wake(waiter->task);
}

void event_broadcast(struct event *event)
{
    while (event->first)
        event_signal(event);
}
