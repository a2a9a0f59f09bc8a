/* The install hash of an artifact: what decides whether an install is still good.
 *
 * SHA-256 over package.json, then for each lock file there is its name and its bytes, in a
 * fixed order, then the install command; shared with Mastra, which writes the same marker.
 * An archive brings the files in any order, perhaps twice (the last one counts, as for
 * tar), so their bytes wait in an unlinked temporary file until all are known. */
#pragma once

#include "runtime/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/error.h"

enum {
    INSTALL_HASH_FILES = 6,
    INSTALL_HASH_FILE_MAX = 16 * 1024 * 1024, /* of each file; more is refused */
    INSTALL_HASH_LENGTH = 64
};

struct install_hash {
    const char *temp_dir;
    int fd; /* -1: nothing kept yet */
    bool present[INSTALL_HASH_FILES];
    uint64_t bytes[INSTALL_HASH_FILES];
};

void install_hash_init(struct install_hash *hash, const char *temp_dir);
void install_hash_done(struct install_hash *hash);

/* Which of the files that count a name is; -1: none. */
int install_hash_index(const char *name);

/* Begins a file anew, then takes its bytes. From any thread. -1 with deploy_failed (upload,
 * retryable): no room. */
NODISCARD int install_hash_begin(struct install_hash *hash, int index, struct error *err);
NODISCARD int install_hash_write(struct install_hash *hash, int index, const void *data,
                                 size_t bytes, struct error *err);

/* The hash in hexadecimal, or "" where there is no package.json. -1 as above. */
NODISCARD int install_hash_finish(const struct install_hash *hash, const char *command,
                                  char ret_text[INSTALL_HASH_LENGTH + 1],
                                  struct error *err);
