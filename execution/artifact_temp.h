/* Temporary files without a name: they are gone with their descriptor, however the process
 * ends. Everything here blocks and is for the thread pool, but for small writes to the page
 * cache. */
#pragma once

#include "runtime/attributes.h"

#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"

/* A descriptor for reading and writing, or -errno. */
NODISCARD int artifact_temp_open(const char *directory);

/* All of it, at that place. 0 or -errno. Reading past the end is -EIO. */
NODISCARD int artifact_temp_write(int fd, uint64_t offset, const void *data, size_t bytes);
NODISCARD int artifact_temp_read(int fd, uint64_t offset, void *buffer, size_t bytes);

/* deploy_failed, phase upload, retryable: the worker's host lacks room or memory. -1. */
int artifact_temp_fail(struct error *err, int failed);
