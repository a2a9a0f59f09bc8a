/* The variables that a deployed command is given. Their values are secrets: no message
 * holds one, nor a line of a file that may be one. */
#pragma once

#include <stddef.h>

#include "queue/job_deploy.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

struct environment {
    struct arena *arena;
    /* Of attachctl's own environment; NULL: not set. */
    const char *(*get)(const char *variable);
    struct job_variable *variables; /* each name once; lent from whoever added them */
    size_t count;
};

void environment_init(struct environment *environment, struct arena *arena,
                      const char *(*get)(const char *variable));

/* Adds NAME=VALUE, or NAME with the value of `get`. A name that is there already has the
 * new value from now on. The text is lent. configuration, or internal. */
NODISCARD int environment_add(struct environment *environment, const char *setting,
                              struct error *err);

/* The same for each line of a file's text, which is lent. Empty lines and those that begin
 * with # say nothing; everything behind the first = is the value, as it stands. `name` is
 * the file's, for messages. */
NODISCARD int environment_add_lines(struct environment *environment, const char *name,
                                    const char *text, size_t size, struct error *err);
