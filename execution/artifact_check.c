/* Walking an archive: header by header, data skipped but for what names the next entry and
 * for the files that the install hash is made of. */
#include "execution/artifact_check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "execution/artifact_tree.h"
#include "execution/gunzip.h"
#include "execution/tar_header.h"
#include "runtime/buffer.h"

enum {
    STEP_BYTES = 8 * 1024 * 1024, /* unpacked; some tens of milliseconds */
    PAX_MAX_BYTES = 1024 * 1024,
    LONG_NAME_MAX_BYTES = ARTIFACT_PATH_MAX + 2 /* GNU writes one NUL, others more */
};

enum state { STATE_HEADER, STATE_DATA, STATE_PADDING, STATE_END };

struct artifact_check {
    struct gunzip *gunzip;
    struct artifact_tree *tree;
    struct install_hash hash;
    uint64_t unpacked_bytes;
    uint64_t unpacked_max_bytes;
    uint64_t entries;
    uint64_t max_entries;

    enum state state;
    unsigned char block[TAR_BLOCK_BYTES];
    size_t block_bytes;
    struct tar_header header;
    uint64_t left;       /* of the data at hand */
    size_t padding;      /* after it */
    struct buffer *into; /* where data goes; NULL: nowhere */
    int kept;            /* or to this file of the install hash; -1: to none */

    /* What was said of the entry to come. */
    struct buffer long_name;
    struct buffer long_link;
    struct buffer records;
    struct buffer global_records;
    struct tar_pax pax; /* points into records */
};

struct artifact_check *artifact_check_new(const struct file_source *source,
                                          const struct artifact_check_options *options)
{
    struct artifact_check *check = calloc(1, sizeof(*check));
    if (!check)
        return NULL;
    install_hash_init(&check->hash, options->temp_dir);
    buffer_init(&check->long_name, LONG_NAME_MAX_BYTES);
    buffer_init(&check->long_link, LONG_NAME_MAX_BYTES);
    buffer_init(&check->records, PAX_MAX_BYTES);
    buffer_init(&check->global_records, PAX_MAX_BYTES);
    check->unpacked_max_bytes = options->unpacked_max_bytes;
    check->max_entries = options->max_entries;
    check->kept = -1;
    check->gunzip = gunzip_new(source);
    check->tree = artifact_tree_new(options->max_entries);
    if (!check->gunzip || !check->tree) {
        artifact_check_free(check);
        return NULL;
    }
    return check;
}

void artifact_check_free(struct artifact_check *check)
{
    if (!check)
        return;
    gunzip_free(check->gunzip);
    artifact_tree_free(check->tree);
    install_hash_done(&check->hash);
    buffer_done(&check->long_name);
    buffer_done(&check->long_link);
    buffer_done(&check->records);
    buffer_done(&check->global_records);
    free(check);
}

uint64_t artifact_check_unpacked_bytes(const struct artifact_check *check)
{
    return check->unpacked_bytes;
}

/* ---- entries ---- */

static void expect_data(struct artifact_check *check, struct buffer *into)
{
    check->left = check->header.bytes;
    check->padding = (size_t)(-check->header.bytes % TAR_BLOCK_BYTES);
    check->into = into;
    check->state = check->left > 0      ? STATE_DATA
                   : check->padding > 0 ? STATE_PADDING
                                        : STATE_HEADER;
}

static int refuse(const struct artifact_check *check, const char *what, struct error *err)
{
    return artifact_refuse(err, check->header.name, what);
}

/* Only the last file of a name counts, and only one that has its bytes with it: what a link
 * leads to may not be known yet. */
static int keep_if_hashed(struct artifact_check *check, enum tar_kind kind,
                          const char *name, struct error *err)
{
    int index = install_hash_index(name);
    if (index < 0)
        return 0;
    if (kind != TAR_FILE)
        return artifact_refuse(err, name,
                               "must be a regular file, with its bytes in the archive");
    if (check->header.bytes > INSTALL_HASH_FILE_MAX)
        return artifact_refuse(err, name, "is larger than 16 MiB");
    check->kept = index;
    return install_hash_begin(&check->hash, index, err);
}

static int add(struct artifact_check *check, const struct artifact_entry *entry,
               const char **ret_name, struct error *err)
{
    struct artifact_entry copy = *entry;
    size_t length = strlen(entry->name);
    /* A file whose name ends in a slash is a directory to every tar, since v7. */
    if (copy.kind == TAR_FILE && length > 0 && entry->name[length - 1] == '/') {
        copy.kind = TAR_DIRECTORY;
        if (check->header.bytes > 0)
            return artifact_refuse(err, entry->name, "is a directory with data");
    }
    return artifact_tree_add(check->tree, &copy, ret_name, err);
}

/* What the header itself says, where it was overridden by pax records: a tar that does not
 * know them, as busybox's, unpacks that. */
static int check_overridden(struct artifact_check *check, struct error *err)
{
    struct artifact_entry entry = {.kind = check->header.kind,
                                   .name = check->header.name,
                                   .link = check->header.link,
                                   .is_overridden = true};
    const char *unused = NULL;
    if (!check->pax.path && !check->pax.link)
        return 0;
    return add(check, &entry, &unused, err);
}

static bool is_named_twice(const struct artifact_check *check)
{
    return (check->pax.path && check->long_name.size > 0) ||
           (check->pax.link && check->long_link.size > 0);
}

static const char *check_header(const struct artifact_check *check)
{
    const struct tar_header *header = &check->header;
    if (is_named_twice(check))
        return "has two names";
    if (check->pax.has_bytes && check->pax.bytes != header->bytes)
        return "has two sizes";
    if (header->kind != TAR_FILE && header->bytes > 0)
        return "is no file and has data";
    if (header->mode & 06000)
        return "has its set-user-id or set-group-id bit set";
    return NULL;
}

static const char *name_of(const struct artifact_check *check)
{
    if (check->pax.path)
        return check->pax.path;
    return check->long_name.size > 0 ? check->long_name.data : check->header.name;
}

static const char *link_of(const struct artifact_check *check)
{
    if (check->pax.link)
        return check->pax.link;
    return check->long_link.size > 0 ? check->long_link.data : check->header.link;
}

static int take_entry(struct artifact_check *check, struct error *err)
{
    struct artifact_entry entry = {
        .kind = check->header.kind, .name = name_of(check), .link = link_of(check)};
    const char *name = NULL;
    const char *wrong = check_header(check);
    if (wrong)
        return artifact_refuse(err, entry.name, wrong);
    if (check->entries++ >= check->max_entries)
        return error_set_field(err, "artifact", "the artifact has more than %llu entries",
                               (unsigned long long)check->max_entries);
    if (check_overridden(check, err) != 0 || add(check, &entry, &name, err) != 0 ||
        keep_if_hashed(check, entry.kind, name, err) != 0)
        return -1;
    buffer_clear(&check->long_name);
    buffer_clear(&check->long_link);
    buffer_clear(&check->records);
    check->pax = (struct tar_pax){0};
    expect_data(check, NULL);
    return 0;
}

/* ---- what is said of the entry to come ---- */

static int take_meta(struct artifact_check *check, struct buffer *into, struct error *err)
{
    if (into->size > 0)
        return refuse(check, "stands where its file should", err);
    if (check->header.bytes == 0 || check->header.bytes > into->max_bytes)
        return refuse(check, "has a name or attributes of no or too many bytes", err);
    expect_data(check, into);
    return 0;
}

static int end_long_name(struct artifact_check *check, const struct buffer *text,
                         struct error *err)
{
    size_t length = strlen(text->data);
    for (size_t i = length; i < text->size; i++) {
        if (text->data[i] != '\0')
            return refuse(check, "has a name with a NUL byte", err);
    }
    return length > 0 ? 0 : refuse(check, "has no name", err);
}

static int end_pax(struct artifact_check *check, struct error *err)
{
    const char *wrong = tar_pax_read(check->records.data, check->records.size, &check->pax);
    return wrong ? refuse(check, wrong, err) : 0;
}

/* One name for all that follow is nothing that a tar would write. */
static int end_pax_global(struct artifact_check *check, struct error *err)
{
    struct tar_pax pax = {0};
    const char *wrong =
        tar_pax_read(check->global_records.data, check->global_records.size, &pax);
    if (!wrong && (pax.path || pax.link || pax.has_bytes))
        wrong = "names all files at once";
    buffer_clear(&check->global_records);
    return wrong ? refuse(check, wrong, err) : 0;
}

static int end_data(struct artifact_check *check, struct error *err)
{
    struct buffer *into = check->into;
    check->into = NULL;
    check->kept = -1;
    check->state = check->padding > 0 ? STATE_PADDING : STATE_HEADER;
    if (into == &check->long_name || into == &check->long_link)
        return end_long_name(check, into, err);
    if (into == &check->records)
        return end_pax(check, err);
    if (into == &check->global_records)
        return end_pax_global(check, err);
    return 0;
}

/* ---- the walk ---- */

static bool is_announced(const struct artifact_check *check)
{
    return check->long_name.size > 0 || check->long_link.size > 0 ||
           check->records.size > 0;
}

static int take_block(struct artifact_check *check, struct error *err)
{
    check->block_bytes = 0;
    if (tar_block_is_zero(check->block)) {
        if (is_announced(check))
            return refuse(check, "is followed by no file", err);
        check->state = STATE_END;
        return 0;
    }
    check->header = (struct tar_header){0};
    const char *wrong = tar_header_read(check->block, &check->header);
    if (wrong && check->header.name[0] == '\0')
        return error_set_field(err, "artifact", "the artifact holds %s tar archive",
                               check->entries > 0 ? "a damaged" : "no");
    if (wrong)
        return refuse(check, wrong, err);
    switch (check->header.kind) {
    case TAR_LONG_NAME:
        return take_meta(check, &check->long_name, err);
    case TAR_LONG_LINK:
        return take_meta(check, &check->long_link, err);
    case TAR_PAX:
        return take_meta(check, &check->records, err);
    case TAR_PAX_GLOBAL:
        return take_meta(check, &check->global_records, err);
    case TAR_FILE:
    case TAR_DIRECTORY:
    case TAR_SYMLINK:
    case TAR_HARDLINK:
    default:
        return take_entry(check, err);
    }
}

static size_t smaller(size_t a, uint64_t b)
{
    return b < a ? (size_t)b : a;
}

/* Each takes up to `bytes` of its own state and says how many. */
static size_t feed_header(struct artifact_check *check, const unsigned char *data,
                          size_t bytes, int *failed, struct error *err)
{
    size_t taken = smaller(bytes, TAR_BLOCK_BYTES - check->block_bytes);
    memcpy(check->block + check->block_bytes, data, taken);
    check->block_bytes += taken;
    if (check->block_bytes == TAR_BLOCK_BYTES)
        *failed = take_block(check, err);
    return taken;
}

static size_t feed_data(struct artifact_check *check, const unsigned char *data,
                        size_t bytes, int *failed, struct error *err)
{
    size_t taken = smaller(bytes, check->left);
    if (check->into && buffer_append(check->into, data, taken) != 0)
        *failed = error_set_memory(err, "a name in the artifact");
    if (check->kept >= 0)
        *failed = install_hash_write(&check->hash, check->kept, data, taken, err);
    check->left -= taken;
    if (*failed == 0 && check->left == 0)
        *failed = end_data(check, err);
    return taken;
}

static size_t feed_padding(struct artifact_check *check, size_t bytes)
{
    size_t taken = smaller(bytes, check->padding);
    check->padding -= taken;
    if (check->padding == 0)
        check->state = STATE_HEADER;
    return taken;
}

/* Some tars end at the first empty block, some at the second, and some skip them. */
static int feed_end(const unsigned char *data, size_t bytes, struct error *err)
{
    if (data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0)
        return 0;
    return error_set_field(err, "artifact",
                           "the artifact goes on after the end of its tar archive");
}

int artifact_check_feed(struct artifact_check *check, const unsigned char *data,
                        size_t bytes, struct error *err)
{
    int failed = 0;
    check->unpacked_bytes += bytes;
    if (check->unpacked_bytes > check->unpacked_max_bytes)
        return error_set_field(err, "artifact",
                               "the artifact is larger than %llu bytes when unpacked "
                               "(artifact_unpacked_max_bytes)",
                               (unsigned long long)check->unpacked_max_bytes);
    while (bytes > 0 && !failed) {
        size_t taken = bytes;
        if (check->state == STATE_HEADER)
            taken = feed_header(check, data, bytes, &failed, err);
        else if (check->state == STATE_DATA)
            taken = feed_data(check, data, bytes, &failed, err);
        else if (check->state == STATE_PADDING)
            taken = feed_padding(check, bytes);
        else
            failed = feed_end(data, bytes, err);
        data += taken;
        bytes -= taken;
    }
    return failed;
}

int artifact_check_end(struct artifact_check *check, struct error *err)
{
    if (check->state == STATE_END)
        return 0;
    return error_set_field(err, "artifact",
                           "the artifact is truncated: its tar archive has no end");
}

int artifact_check_step(struct artifact_check *check, struct error *err)
{
    uint64_t until = check->unpacked_bytes + STEP_BYTES;
    while (check->unpacked_bytes < until) {
        const unsigned char *data = NULL;
        size_t bytes = 0;
        int more = gunzip_next(check->gunzip, &data, &bytes, err);
        if (more < 0)
            return -1;
        if (more == 0)
            return artifact_check_end(check, err);
        if (artifact_check_feed(check, data, bytes, err) != 0)
            return -1;
    }
    return 1;
}

int artifact_check_install_hash(const struct artifact_check *check, const char *command,
                                char ret_text[INSTALL_HASH_LENGTH + 1], struct error *err)
{
    return install_hash_finish(&check->hash, command, ret_text, err);
}
