/* For artifact.c and the origins beside it. */
#pragma once

#include "runtime/attributes.h"

#include <stdint.h>

#include "execution/artifact.h"
#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/task.h"

const char *artifact_temp_dir(const struct artifact_limits *limits);

/* An artifact made of a file, whose descriptor it takes whatever comes: checked, and
 * finished but for the upload. */
SUSPENDS NODISCARD int artifact_take_file(int fd, uint64_t bytes,
                                          const struct artifact_limits *limits,
                                          const char *install_command, struct arena *arena,
                                          struct artifact **ret_artifact,
                                          struct error *err);

/* Runs step(arg, err) in the thread pool for as long as it returns 1, then returns what it
 * did; timeout or cancelled between two of them. `what` is lent for good. */
SUSPENDS NODISCARD int artifact_work(const char *what,
                                     int (*step)(void *arg, struct error *err), void *arg,
                                     struct error *err);

/* Makes the error that is there deploy_failed, phase upload, and keeps whether it is worth
 * another try. Returns -1. */
int artifact_upload_failed(struct error *err);
