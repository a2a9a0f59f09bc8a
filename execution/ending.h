/* What it means when a command in a sandbox ends without the answer that was wanted of it.
 */
#pragma once

#include "providers/provider.h"
#include "runtime/arena.h"
#include "runtime/error.h"

/* The error of a command that could not be started, as sandbox_exec left it: one without a
 * shell becomes capability_unavailable (execute_command) with a remedy; every other stays
 * as it is, outcome_unknown too, which is for the caller to judge. Returns -1. */
int ending_map_error(struct error *err);

/* The command ended, and `err` says what is wrong with its answer: its end may say more.
 * Timed out: timeout. By a signal: provider_unavailable. By an exit code: command_failed,
 * or execute_command where it means that there is no shell, with the code and the last it
 * printed. By exit code 0: err stays. `doing` begins the messages ("looking at the
 * execution"). Returns -1. */
int ending_map(const struct exec_result *exec, const char *doing, struct arena *arena,
               struct error *err);
