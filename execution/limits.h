/* Resource limits of an execution, and whether a sandbox can hold one to them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/provider.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

/* 0: none. */
struct limits {
    uint64_t cpu_time_seconds;
    uint64_t address_space_bytes;
    uint64_t file_size_bytes;
    uint64_t open_files;
};

/* A limit as a job has it. */
struct limits_entry {
    const char *name; /* printable */
    bool is_number;
    double value;
};

bool limits_are_set(const struct limits *limits);

/* 0, or invalid_argument with the message callers match on: the first unknown name, then
 * the first value, in the order of struct limits, that is no positive integer below 2^53.
 */
NODISCARD int limits_check(const struct limits_entry *entries, size_t count,
                           struct limits *ret_limits, struct error *err);

/* What a preflight's end says (remote/preflight.sh): 0 with exit code 0, whatever was
 * printed, else -1 with capability_unavailable, which names what was printed or, where
 * nothing was, sandbox_command. */
NODISCARD int limits_judge(const struct exec_result *exec, struct arena *arena,
                           struct error *err);
