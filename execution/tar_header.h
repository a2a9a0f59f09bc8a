/* One header of a tar archive, and the records of a pax header, read strictly.
 *
 * An archive that is judged here is unpacked elsewhere, by a tar that is not known (GNU's,
 * busybox's, bsdtar). What those would read in different ways is therefore refused, not
 * interpreted: what they agree on is POSIX ustar, v7 and GNU's headers with GNU's long
 * names or pax records for paths. The layout is that of POSIX (pax, "ustar Interchange
 * Format") and of GNU tar's manual ("Basic Tar Format"). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TAR_BLOCK_BYTES = 512 };

enum tar_kind {
    TAR_FILE,
    TAR_DIRECTORY,
    TAR_SYMLINK,
    TAR_HARDLINK,
    TAR_LONG_NAME, /* GNU: the name of the entry that follows, as this one's data */
    TAR_LONG_LINK, /* GNU: the same of its link */
    TAR_PAX,       /* records for the entry that follows */
    TAR_PAX_GLOBAL /* for all that follow */
};

struct tar_header {
    enum tar_kind kind;
    uint64_t bytes; /* of the data that follows, padded to whole blocks */
    unsigned mode;
    char name[257];
    char link[101];
};

bool tar_block_is_zero(const unsigned char block[TAR_BLOCK_BYTES]);

/* NULL, and the header filled; or in plain words what is wrong with it. The header is then
 * untouched, or has the name to tell it with. */
const char *tar_header_read(const unsigned char block[TAR_BLOCK_BYTES],
                            struct tar_header *ret_header);

/* What pax records say that matters; texts point into the records. */
struct tar_pax {
    const char *path; /* NULL: nothing said */
    const char *link;
    bool has_bytes;
    uint64_t bytes;
};

/* Reads "LENGTH NAME=VALUE\n" records, putting NULs into them. NULL, or what is wrong. */
const char *tar_pax_read(char *records, size_t bytes, struct tar_pax *ret_pax);
