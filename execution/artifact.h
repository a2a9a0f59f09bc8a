/* The artifact of a deploy: where its bytes come from, that they are harmless, and what its
 * install hash is.
 *
 * An artifact is a .tar.gz: the bytes of the job, a directory below the one that the
 * operator has named, or a file behind an address on the operator's list. Whatever the
 * origin, it is read once from front to end (artifact_check.h) before anybody sees it, in
 * the thread pool and in slices, so that neither the loop nor a cancel waits for a large
 * one. */
#pragma once

#include "runtime/attributes.h"

#include <stddef.h>
#include <stdint.h>

#include "execution/install_hash.h"
#include "providers/provider.h"
#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/task.h"

enum { ARTIFACT_MAX_ENTRIES = 1000 * 1000 };

/* How large, and where its temporary files go; texts are lent. */
struct artifact_limits {
    uint64_t max_bytes;          /* as it is sent */
    uint64_t unpacked_max_bytes; /* the tar archive in it */
    const char *temp_dir;        /* NULL: that of TMPDIR, else /tmp */
};

/* Stays where it is: its source points to it. */
struct artifact {
    struct file_source source;
    uint64_t unpacked_bytes;
    char install_hash[INSTALL_HASH_LENGTH + 1]; /* "": there is no package.json */
    const char *data;                           /* lent; NULL: in the file */
    int fd;                                     /* -1: in memory */
};

/* The three origins. The artifact lives in the arena and is ended by artifact_done.
 * install_command goes into the hash as it is.
 *
 * Errors: invalid_argument on field artifact (too large, no .tar.gz, damaged, or an entry
 * that would do harm, which the message names), artifact.dir or artifact.url; deploy_failed
 * with phase upload, retryable where it may work later; timeout, cancelled, internal. */

/* Bytes of the job: lent for as long as the artifact is used. */
SUSPENDS int artifact_from_data(const void *data, size_t bytes,
                                const struct artifact_limits *limits,
                                const char *install_command, struct arena *arena,
                                struct artifact **ret_artifact, struct error *err);

/* The directory `name` below `root` (NULL or "": none is configured), packed as `tar -czf -
 * -C DIRECTORY .` would, in the order of the names, without owners, and without anything
 * called node_modules. A directory that changes meanwhile is deploy_failed, retryable. */
SUSPENDS int artifact_from_dir(const char *root, const char *name,
                               const struct artifact_limits *limits,
                               const char *install_command, struct arena *arena,
                               struct artifact **ret_artifact, struct error *err);

struct artifact_address {
    const char *url;
    const char *sha256; /* 64 hexadecimal digits that the bytes must have */
    /* What may be asked, between blanks or commas: HOST, HOST:PORT, each also behind
     * https://; only behind http:// is a plain connection allowed. Without a port it is the
     * scheme's own. NULL or "": nothing. */
    const char *hosts;
};

/* A file behind an address. No message repeats the address's path or query. */
SUSPENDS int artifact_from_url(const struct artifact_address *address,
                               const struct artifact_limits *limits,
                               const char *install_command, struct arena *arena,
                               struct artifact **ret_artifact, struct error *err);

/* NULL is fine. */
void artifact_done(struct artifact *artifact);
