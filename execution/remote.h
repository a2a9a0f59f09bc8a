/* Programs that run inside a sandbox: composing one script from an embedded program and its
 * arguments. */
#pragma once

#include <stddef.h>

#include "runtime/arena.h"
#include "runtime/error.h"

/* `set -- 'argument' ...`, LF, program: a script for sandbox_exec in the arena. Arguments
 * are NULL-ended. The program is an embedded one (cmake/embed.cmake), without comments and
 * indentation, since some providers take a few kilobytes only. Fails with invalid_argument
 * where the script would be longer than max_bytes. */
int remote_compose(const char *program, const char *const *arguments, size_t max_bytes,
                   struct arena *arena, const char **ret_script, struct error *err);

/* Characters of a nonce, without the NUL. */
enum { REMOTE_NONCE_LENGTH = 32 };

/* 128 random bits as hex: marks the answer of one command, so that neither noise nor a
 * worker's output can pass for it. */
void remote_nonce(char ret_nonce[REMOTE_NONCE_LENGTH + 1]);
