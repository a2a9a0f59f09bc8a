/* An artifact made of a directory on the worker's host: found below the operator's root,
 * walked in the order of the names, packed by libarchive into a file without a name.
 *
 * The tree is walked twice. The second time nothing is read; what the kernel says of each
 * file (its number, size and times) must be what it said the first time. */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "execution/artifact.h"
#include "execution/artifact_origin.h"
#include "execution/artifact_temp.h"
#include "execution/artifact_tree.h"

enum {
    DEPTH_MAX = 64, /* each holds a descriptor */
    PIECE_BYTES = 64 * 1024,
    STEP_BYTES = 1024 * 1024, /* packed in one go: some tens of milliseconds */
    ENTRY_COST = 4096         /* an entry without data counts as that much */
};

/* A directory being walked. */
struct frame {
    DIR *directory;
    char **names; /* sorted */
    size_t count;
    size_t next;
    size_t path_bytes;
};

struct pack {
    const char *root;
    const char *name;
    const struct artifact_limits *limits;
    const char *temp_dir;

    struct frame frames[DEPTH_MAX];
    int depth;
    char path[ARTIFACT_PATH_MAX + 1]; /* "." and what is below it */
    size_t names_left;
    bool is_writing; /* the first walk */
    EVP_MD_CTX *digest;
    unsigned char first_walk[EVP_MAX_MD_SIZE];

    struct archive *archive;
    struct archive_entry *entry;
    int fd; /* the file that is written */
    uint64_t packed_bytes;
    int write_failed; /* -errno; -EFBIG: larger than allowed */
    uint64_t read_bytes;

    int file_fd; /* the file that is read; -1: none */
    uint64_t file_left;
    char piece[PIECE_BYTES];
};

/* ---- errors ---- */

static int refuse_name(struct error *err, const char *why)
{
    return error_set_field(err, "artifact.dir", "artifact.dir %s", why);
}

static int changed(struct error *err)
{
    (void)error_set(err, ERROR_DEPLOY_FAILED,
                    "the artifact's directory changed while it was packed");
    if (err)
        err->retryable = true;
    return artifact_upload_failed(err);
}

/* A file of the tree that cannot be read. What has just been listed and is gone, or is
 * something else by now, is a change. */
static int fail_entry(const struct pack *pack, int why, struct error *err)
{
    char text[128];
    if (why == ENOENT || why == ENOTDIR || why == ELOOP || why == ESTALE)
        return changed(err);
    if (why == ENOMEM)
        return error_set_memory(err, "the artifact");
    (void)artifact_refuse(err, pack->path, "cannot be read");
    (void)error_wrap(err, strerror_r(why, text, sizeof(text)));
    if (err) {
        err->field[0] = '\0';
        err->retryable = why == EMFILE || why == ENFILE || why == EIO;
    }
    return artifact_upload_failed(err);
}

static int fail_archive(const struct pack *pack, struct error *err)
{
    if (pack->write_failed == -EFBIG)
        return error_set_field(err, "artifact.dir",
                               "the artifact is larger than %llu bytes "
                               "(artifact_max_bytes)",
                               (unsigned long long)pack->limits->max_bytes);
    return artifact_temp_fail(err, pack->write_failed ? pack->write_failed : -ENOMEM);
}

/* ---- the directory below the root ---- */

static bool is_plain_name(const char *name)
{
    if (!name || !*name || strlen(name) > ARTIFACT_PATH_MAX)
        return false;
    for (;;) {
        size_t bytes = strcspn(name, "/");
        if (bytes == 0 || (bytes == 1 && name[0] == '.') ||
            (bytes == 2 && memcmp(name, "..", 2) == 0))
            return false;
        if (name[bytes] == '\0')
            return true;
        name += bytes + 1;
    }
}

static int open_beneath(int root_fd, const char *name)
{
    const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    /* glibc has no wrapper. */
    int fd = (int)syscall(SYS_openat2, root_fd, name, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

static int open_failed(int why, struct error *err)
{
    switch (why) {
    case ENOENT:
    case ENOTDIR:
        return refuse_name(err, "names no directory below the worker's artifact_root");
    case EXDEV:
    case ELOOP:
        return refuse_name(err, "leads out of the worker's artifact_root");
    case EACCES:
    case EPERM:
        return refuse_name(err, "names a directory that the worker may not read");
    case EAGAIN:
        return changed(err);
    default:
        return artifact_temp_fail(err, -why);
    }
}

static int open_root(const struct pack *pack, struct error *err)
{
    char what[128];
    int root_fd = open(pack->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0) {
        (void)error_set(err, ERROR_DEPLOY_FAILED,
                        "the worker's artifact_root cannot be opened: %s",
                        strerror_r(errno, what, sizeof(what)));
        return artifact_upload_failed(err);
    }
    int fd = open_beneath(root_fd, pack->name);
    (void)close(root_fd);
    return fd >= 0 ? fd : open_failed(-fd, err);
}

/* ---- the walk ---- */

static void frame_close(struct frame *frame)
{
    for (size_t i = 0; i < frame->count; i++)
        free(frame->names[i]);
    free(frame->names);
    if (frame->directory)
        (void)closedir(frame->directory);
    *frame = (struct frame){0};
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_left_out(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
           strcmp(name, "node_modules") == 0;
}

static int append_name(struct frame *frame, size_t *capacity, const char *name)
{
    if (frame->count == *capacity) {
        size_t more = *capacity ? *capacity * 2 : 32;
        char **names = realloc(frame->names, more * sizeof(*names));
        if (!names)
            return ENOMEM;
        frame->names = names;
        *capacity = more;
    }
    frame->names[frame->count] = strdup(name);
    if (!frame->names[frame->count])
        return ENOMEM;
    frame->count++;
    return 0;
}

/* 0 or an errno; E2BIG: too many. */
static int list_names(struct pack *pack, struct frame *frame)
{
    size_t capacity = 0;
    for (;;) {
        errno = 0;
        const struct dirent *found = readdir(frame->directory);
        if (!found)
            break;
        if (is_left_out(found->d_name))
            continue;
        if (pack->names_left-- == 0)
            return E2BIG;
        int failed = append_name(frame, &capacity, found->d_name);
        if (failed)
            return failed;
    }
    if (errno == 0 && frame->count > 1)
        qsort(frame->names, frame->count, sizeof(*frame->names), compare_names);
    return errno;
}

/* Takes the descriptor of the directory at pack->path. */
static int enter(struct pack *pack, int fd, struct error *err)
{
    if (pack->depth == DEPTH_MAX) {
        (void)close(fd);
        return artifact_refuse(err, pack->path, "lies too deep");
    }
    struct frame *frame = &pack->frames[pack->depth];
    frame->directory = fdopendir(fd);
    if (!frame->directory) {
        (void)close(fd);
        return fail_entry(pack, ENOMEM, err);
    }
    pack->depth++;
    frame->path_bytes = strlen(pack->path);
    int failed = list_names(pack, frame);
    if (failed == E2BIG)
        return error_set_field(err, "artifact.dir", "the artifact has more than %d files",
                               ARTIFACT_MAX_ENTRIES);
    return failed ? fail_entry(pack, failed, err) : 0;
}

static void leave(struct pack *pack)
{
    frame_close(&pack->frames[--pack->depth]);
}

/* What must be the same in both walks. */
static int note(struct pack *pack, const struct stat *info, struct error *err)
{
    const int64_t facts[] = {
        (int64_t)info->st_dev,  (int64_t)info->st_ino, (int64_t)info->st_mode,
        (int64_t)info->st_size, info->st_mtim.tv_sec,  info->st_mtim.tv_nsec,
        info->st_ctim.tv_sec,   info->st_ctim.tv_nsec, (int64_t)strlen(pack->path)};
    if (EVP_DigestUpdate(pack->digest, facts, sizeof(facts)) != 1 ||
        EVP_DigestUpdate(pack->digest, pack->path, strlen(pack->path)) != 1)
        return error_set_memory(err, "the artifact");
    return 0;
}

/* ---- entries ---- */

static int write_header(struct pack *pack, const struct stat *info, const char *link,
                        struct error *err)
{
    struct archive_entry *entry = archive_entry_clear(pack->entry);
    mode_t mode = info->st_mode;
    /* Shared directories have it, and it means nothing elsewhere. */
    if (S_ISDIR(mode))
        mode &= ~(mode_t)S_ISGID;
    archive_entry_set_pathname(entry, pack->path);
    archive_entry_set_mode(entry, mode);
    archive_entry_set_mtime(entry, info->st_mtim.tv_sec, 0);
    archive_entry_set_size(entry, S_ISREG(mode) ? info->st_size : 0);
    if (link)
        archive_entry_set_symlink(entry, link);
    if (archive_write_header(pack->archive, entry) < ARCHIVE_WARN || pack->write_failed)
        return fail_archive(pack, err);
    return 0;
}

static int take_directory(struct pack *pack, int parent_fd, const char *name,
                          const struct stat *info, struct error *err)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_entry(pack, errno, err);
    if (pack->is_writing && write_header(pack, info, NULL, err) != 0) {
        (void)close(fd);
        return -1;
    }
    return enter(pack, fd, err);
}

static int take_link(struct pack *pack, int parent_fd, const char *name,
                     const struct stat *info, struct error *err)
{
    char link[1024];
    if (!pack->is_writing)
        return 0;
    ssize_t bytes = readlinkat(parent_fd, name, link, sizeof(link));
    if (bytes < 0)
        return errno == EINVAL ? changed(err) : fail_entry(pack, errno, err);
    if ((size_t)bytes >= sizeof(link))
        return artifact_refuse(err, pack->path, "is a link with a target that is too long");
    link[bytes] = '\0';
    return write_header(pack, info, link, err);
}

static int take_file(struct pack *pack, int parent_fd, const char *name,
                     const struct stat *info, struct error *err)
{
    struct stat opened;
    if (!pack->is_writing)
        return 0;
    int fd = openat(parent_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail_entry(pack, errno, err);
    pack->file_fd = fd;
    if (fstat(fd, &opened) != 0 || opened.st_ino != info->st_ino ||
        opened.st_dev != info->st_dev || opened.st_size != info->st_size)
        return changed(err);
    pack->file_left = (uint64_t)info->st_size;
    pack->read_bytes += pack->file_left;
    if (pack->read_bytes > pack->limits->unpacked_max_bytes)
        return error_set_field(err, "artifact.dir",
                               "the artifact is larger than %llu bytes when unpacked "
                               "(artifact_unpacked_max_bytes)",
                               (unsigned long long)pack->limits->unpacked_max_bytes);
    return write_header(pack, info, NULL, err);
}

static int take_name(struct pack *pack, struct error *err)
{
    struct frame *frame = &pack->frames[pack->depth - 1];
    const char *name = frame->names[frame->next++];
    int parent_fd = dirfd(frame->directory);
    struct stat info;
    size_t room = sizeof(pack->path) - frame->path_bytes;
    int bytes = snprintf(pack->path + frame->path_bytes, room, "/%s", name);
    if (bytes < 0 || (size_t)bytes >= room)
        return artifact_refuse(err, pack->path, "has a name that is too long");
    if (fstatat(parent_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_entry(pack, errno, err);
    if (note(pack, &info, err) != 0)
        return -1;
    if (S_ISDIR(info.st_mode))
        return take_directory(pack, parent_fd, name, &info, err);
    if (S_ISLNK(info.st_mode))
        return take_link(pack, parent_fd, name, &info, err);
    if (S_ISREG(info.st_mode))
        return take_file(pack, parent_fd, name, &info, err);
    return artifact_refuse(err, pack->path, "is a device, a FIFO or a socket");
}

/* The next bytes of the file that is being read. */
static int copy_piece(struct pack *pack, struct error *err)
{
    size_t wanted = pack->file_left < PIECE_BYTES ? (size_t)pack->file_left : PIECE_BYTES;
    if (wanted == 0) {
        (void)close(pack->file_fd);
        pack->file_fd = -1;
        return 0;
    }
    ssize_t got = read(pack->file_fd, pack->piece, wanted);
    if (got < 0)
        return errno == EINTR ? 0 : fail_entry(pack, errno, err);
    if (got == 0)
        return changed(err);
    if (archive_write_data(pack->archive, pack->piece, (size_t)got) != got ||
        pack->write_failed)
        return fail_archive(pack, err);
    pack->file_left -= (uint64_t)got;
    return 0;
}

/* ---- the archive ---- */

static ssize_t write_piece(struct archive *archive, void *arg, const void *data,
                           size_t bytes)
{
    struct pack *pack = arg;
    if (bytes > pack->limits->max_bytes - pack->packed_bytes)
        pack->write_failed = -EFBIG;
    else
        pack->write_failed = artifact_temp_write(pack->fd, pack->packed_bytes, data, bytes);
    if (pack->write_failed) {
        archive_set_error(archive, -pack->write_failed, "write");
        return -1;
    }
    pack->packed_bytes += bytes;
    return (ssize_t)bytes;
}

/* GNU's format: every tar reads its long names, busybox's too. Without a time in gzip's
 * header the same tree gives the same bytes. */
static int open_archive(struct pack *pack, struct error *err)
{
    pack->fd = artifact_temp_open(pack->temp_dir);
    if (pack->fd < 0)
        return artifact_temp_fail(err, pack->fd);
    pack->archive = archive_write_new();
    pack->entry = archive_entry_new();
    if (!pack->archive || !pack->entry ||
        archive_write_add_filter_gzip(pack->archive) != ARCHIVE_OK ||
        archive_write_set_format_gnutar(pack->archive) != ARCHIVE_OK ||
        archive_write_set_filter_option(pack->archive, "gzip", "timestamp", NULL) !=
            ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(pack->archive, 1) != ARCHIVE_OK ||
        archive_write_open(pack->archive, pack, NULL, write_piece, NULL) != ARCHIVE_OK)
        return error_set_memory(err, "the artifact's archive");
    return 0;
}

/* ---- the whole ---- */

static int begin_walk(struct pack *pack, struct error *err)
{
    struct stat info;
    int fd = open_root(pack, err);
    if (fd < 0)
        return pack->is_writing ? -1 : changed(err);
    (void)snprintf(pack->path, sizeof(pack->path), ".");
    pack->names_left = ARTIFACT_MAX_ENTRIES;
    if (fstat(fd, &info) != 0 || EVP_DigestInit_ex(pack->digest, EVP_sha256(), NULL) != 1 ||
        note(pack, &info, err) != 0 ||
        (pack->is_writing && write_header(pack, &info, NULL, err) != 0)) {
        (void)close(fd);
        return -1;
    }
    return enter(pack, fd, err);
}

/* 1: the second walk is to come; 0: the tree has stood still. */
static int end_walk(struct pack *pack, struct error *err)
{
    unsigned char sum[EVP_MAX_MD_SIZE] = {0};
    if (EVP_DigestFinal_ex(pack->digest, sum, NULL) != 1)
        return error_set_memory(err, "the artifact");
    if (!pack->is_writing)
        return memcmp(sum, pack->first_walk, sizeof(sum)) == 0 ? 0 : changed(err);
    if (archive_write_close(pack->archive) != ARCHIVE_OK || pack->write_failed)
        return fail_archive(pack, err);
    memcpy(pack->first_walk, sum, sizeof(sum));
    pack->is_writing = false;
    return begin_walk(pack, err) == 0 ? 1 : -1;
}

static int go_on(struct pack *pack, struct error *err)
{
    const struct frame *frame = &pack->frames[pack->depth - 1];
    if (pack->file_fd >= 0)
        return copy_piece(pack, err);
    if (frame->next < frame->count)
        return take_name(pack, err);
    leave(pack);
    return 0;
}

static int pack_step(void *arg, struct error *err)
{
    struct pack *pack = arg;
    if (!pack->archive) {
        if (open_archive(pack, err) != 0 || begin_walk(pack, err) != 0)
            return -1;
    }
    for (uint64_t done = 0; done < STEP_BYTES;) {
        if (pack->depth == 0)
            return end_walk(pack, err);
        done += pack->file_fd >= 0 ? PIECE_BYTES : ENTRY_COST;
        if (go_on(pack, err) != 0)
            return -1;
    }
    return 1;
}

static void pack_free(struct pack *pack)
{
    while (pack->depth > 0)
        leave(pack);
    if (pack->file_fd >= 0)
        (void)close(pack->file_fd);
    /* An archive that was not finished is finished now, and still writes. */
    if (pack->archive)
        (void)archive_write_free(pack->archive);
    if (pack->fd >= 0)
        (void)close(pack->fd);
    archive_entry_free(pack->entry);
    EVP_MD_CTX_free(pack->digest);
    free(pack);
}

static struct pack *pack_new(const char *root, const char *name,
                             const struct artifact_limits *limits)
{
    struct pack *pack = calloc(1, sizeof(*pack));
    if (!pack)
        return NULL;
    pack->root = root;
    pack->name = name;
    pack->limits = limits;
    pack->temp_dir = artifact_temp_dir(limits);
    pack->is_writing = true;
    pack->fd = -1;
    pack->file_fd = -1;
    pack->digest = EVP_MD_CTX_new();
    if (!pack->digest) {
        pack_free(pack);
        return NULL;
    }
    return pack;
}

static int check_name(const char *root, const char *name, struct error *err)
{
    if (!root || !*root) {
        (void)refuse_name(err, "is not available: the worker has no artifact_root");
        if (err)
            err->remedy =
                "Send the artifact's bytes, or have the operator set artifact_root "
                "(ATTACHD_ARTIFACT_ROOT).";
        return -1;
    }
    if (!is_plain_name(name))
        return refuse_name(err, "must be one or more plain names, like app/build");
    return 0;
}

int artifact_from_dir(const char *root, const char *name,
                      const struct artifact_limits *limits, const char *install_command,
                      struct arena *arena, struct artifact **ret_artifact,
                      struct error *err)
{
    if (check_name(root, name, err) != 0)
        return -1;
    struct pack *pack = pack_new(root, name, limits);
    if (!pack)
        return error_set_memory(err, "the artifact");
    if (artifact_work("pack artifact", pack_step, pack, err) != 0) {
        pack_free(pack);
        return -1;
    }
    int fd = pack->fd;
    uint64_t bytes = pack->packed_bytes;
    pack->fd = -1;
    pack_free(pack);
    return artifact_take_file(fd, bytes, limits, install_command, arena, ret_artifact, err);
}
