/* That an artifact, a .tar.gz of whatever origin, is harmless to unpack: read once from
 * front to end, never unpacked to anywhere, in a fixed amount of memory. The install hash
 * falls off on the way. */
#pragma once

#include "runtime/attributes.h"

#include <stddef.h>
#include <stdint.h>

#include "execution/install_hash.h"
#include "providers/provider.h"
#include "runtime/error.h"

struct artifact_check;

struct artifact_check_options {
    uint64_t unpacked_max_bytes; /* of the tar archive in it */
    uint64_t max_entries;        /* and as many files and directories */
    const char *temp_dir;
};

/* source and the options' texts are lent. NULL: out of memory. */
struct artifact_check *artifact_check_new(const struct file_source *source,
                                          const struct artifact_check_options *options);
void artifact_check_free(struct artifact_check *check);

/* Goes on for some milliseconds; for the thread pool. 1: not yet done; 0: all of it is
 * harmless. -1: invalid_argument on field artifact (the message names the entry),
 * deploy_failed or internal. */
NODISCARD int artifact_check_step(struct artifact_check *check, struct error *err);

/* After the last step. See install_hash_finish. */
NODISCARD int artifact_check_install_hash(const struct artifact_check *check,
                                          const char *command,
                                          char ret_text[INSTALL_HASH_LENGTH + 1],
                                          struct error *err);

uint64_t artifact_check_unpacked_bytes(const struct artifact_check *check);

/* The tar archive alone, for what comes without gzip (the fuzzer): takes the next bytes. */
NODISCARD int artifact_check_feed(struct artifact_check *check, const unsigned char *data,
                                  size_t bytes, struct error *err);
/* And its end. */
NODISCARD int artifact_check_end(struct artifact_check *check, struct error *err);
