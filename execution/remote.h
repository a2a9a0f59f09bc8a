/* Programs that run inside a sandbox: composing one script from an embedded program and its
 * arguments. */
#pragma once

#include <stddef.h>

#include "runtime/arena.h"
#include "runtime/error.h"

/* `set -- 'argument' ...`, LF, program: a script for sandbox_exec in the arena. Arguments
 * are NULL-ended. Fails with invalid_argument where it would be longer than max_bytes. */
int remote_compose(const char *program, const char *const *arguments, size_t max_bytes,
                   struct arena *arena, const char **ret_script, struct error *err);
