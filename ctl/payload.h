/* What a launch carries from here: the archive, the input, the environment. */
#pragma once

#include <stdbool.h>

#include "ctl/environment.h"
#include "ctl/options.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/buffer.h"
#include "runtime/error.h"

struct payload {
    struct buffer archive;
    struct buffer input;
    struct environment environment;
};

void payload_init(struct payload *payload, struct arena *arena,
                  const char *(*get)(const char *variable));
void payload_done(struct payload *payload);
#define payload_scoped __attribute__((cleanup(payload_done)))

/* Reads the files that the options name. -1: configuration, or internal. */
NODISCARD int payload_read(struct payload *payload, const struct options_launch *launch,
                           struct error *err);
