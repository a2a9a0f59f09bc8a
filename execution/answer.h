/* What begin.sh and apply.sh answer: lines "NONCE KEY VALUE" among whatever else is
 * printed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

/* Texts live in the arena; NULL: not said. */
struct answer {
    const char *result;
    const char *remote_dir;
    const char *lock;    /* "NAME yes|no|foreign SEEN" */
    const char *tool;    /* missing */
    const char *phase;   /* failed: upload, install, launch */
    const char *what;    /* failed: the step */
    const char *message; /* failed, incapable: what a tool said, lines joined by LF */
    bool has_exit_code;
    int exit_code;
    bool late; /* the step's own time was up */
};

/* provider_unavailable, retryable, where no result was said. */
NODISCARD int answer_read(const char *data, size_t size, const char *nonce,
                          struct arena *arena, struct answer *ret_answer,
                          struct error *err);
