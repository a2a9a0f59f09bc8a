/* The names in an artifact: what each would do to the directory that it is unpacked into.
 *
 * Two rules make links harmless, whatever the order of the entries: nothing may lie below a
 * name that any entry makes a symbolic link, and a link may climb with leading ".." only
 * and not past the root. Every directory on the way to an entry is then a real one of the
 * artifact, so that text and file system agree about where a name leads; by induction no
 * chain of links gets out. A hard link must name a file that came before it, since a hard
 * link to a symbolic link would carry that to another depth.
 *
 * Only hashes of names are kept (64 bits of a SHA-256 with a secret key), eight bytes for a
 * path. */
#pragma once

#include "runtime/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "execution/tar_header.h"
#include "runtime/error.h"

struct artifact_tree;

enum { ARTIFACT_PATH_MAX = 4095, ARTIFACT_SHOWN_MAX = 160 };

/* A new tree that takes at most that many files and directories. NULL: out of memory. */
struct artifact_tree *artifact_tree_new(uint64_t max_paths);
void artifact_tree_free(struct artifact_tree *tree);

struct artifact_entry {
    enum tar_kind kind; /* of the first four */
    const char *name;
    const char *link; /* where a link leads */
    /* The names are those of a header that pax records override: what a tar sees that does
     * not know them. They may be cut short, so a hard link's file need not be there. */
    bool is_overridden;
};

/* Takes an entry. *ret_name is the name without "." and empty parts, "" for the root
 * itself, and lives until the next call. -1 with invalid_argument on field artifact, which
 * names the entry; or internal. */
NODISCARD int artifact_tree_add(struct artifact_tree *tree,
                                const struct artifact_entry *entry, const char **ret_name,
                                struct error *err);

/* Refuses the entry: invalid_argument on field artifact, `the artifact's entry "NAME"
 * WHAT`. The name is made printable and cut. Returns -1. */
int artifact_refuse(struct error *err, const char *name, const char *what);
