/* Watching what a long command in a sandbox says, by short commands beside it: for people
 * who wait. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "providers/provider.h"
#include "runtime/event.h"
#include "runtime/task.h"

struct watch {
    struct sandbox *sandbox;
    const char *path; /* of the file that the command writes to, in the sandbox */
    /* Told of each new last line, which lives during the call: hostile bytes. */
    void (*on_line)(void *arg, const char *line);
    void *on_line_arg;
    /* its own */
    struct task *task; /* while it runs */
    bool ending;
    bool ended;
    struct event changed;
};

/* Begins to look, about each second, in a task of its own; where memory is short, nothing
 * is watched. The watch stays where it is until watch_end. From a task. */
void watch_begin(struct watch *watch);

/* Ends the looking and waits for that. */
SUSPENDS void watch_end(struct watch *watch);
