/* Taking away the files of a sandbox that was destroyed.
 *
 * The directory has been renamed to a gone-name, one that no sandbox can have. Everything
 * below the root with a gone-name of this sandbox is removed, so a destroy that was cut
 * short is completed by the next one; what other sandboxes have left is theirs.
 *
 * A batch of entries is one call in the thread pool. It begins at the root again and goes
 * down to where the last one ended, so between two of them nothing is held, and the task
 * can be cancelled. A tree deeper than DEPTH_MAX is cut: what hangs lower is renamed up to
 * the root, under another gone-name. Links are removed, not followed; mounts are not
 * entered. */
#include "providers/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/random.h"

enum {
    BATCH_ENTRIES = 4096,
    DEPTH_MAX = 32,
    /* Somebody keeps putting files there, and has escaped the look for processes. */
    REFILLED_MAX = 100,
    REFILLED_WAIT_MS = 20,
};

static const char GONE_PREFIX[] = ".attachd-destroyed-";

struct removal {
    const struct local *local;
    int root_fd;
    char prefix[160];      /* of this sandbox's gone-names */
    size_t entries_left;   /* of this batch */
    bool is_unfinished;    /* another batch is due */
    bool is_refilled;      /* a directory was not empty any more when it was removed */
    int failure;           /* errno */
    char failed_name[256]; /* the entry's */
};

/* '~' is in no id: the names of "a" are no prefix of those of "a~b". */
static void write_prefix(const struct local *local, char *prefix, size_t size)
{
    (void)snprintf(prefix, size, "%s%s~", GONE_PREFIX, local->id);
}

static void write_gone_name(const char *prefix, char *name, size_t size)
{
    char digits[17];
    random_hex(digits, sizeof(digits) / 2);
    (void)snprintf(name, size, "%s%s", prefix, digits);
}

static int fail(struct removal *removal, const char *name, int why)
{
    removal->failure = why;
    (void)snprintf(removal->failed_name, sizeof(removal->failed_name), "%s", name);
    return -1;
}

/* A bind mount may be of the same device. Before Linux 5.8 nothing but the device tells. */
static bool is_mount(int parent_fd, int fd)
{
    struct statx status;
    struct statx parent;
    if (statx(fd, "", AT_EMPTY_PATH, 0, &status) != 0)
        return true;
    if (status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT)
        return status.stx_attributes & STATX_ATTR_MOUNT_ROOT;
    return statx(parent_fd, "", AT_EMPTY_PATH, 0, &parent) != 0 ||
           status.stx_dev_major != parent.stx_dev_major ||
           status.stx_dev_minor != parent.stx_dev_minor;
}

/* For a worker that is not root: what its owner has closed for himself. Best effort, what
 * it leaves closed fails where it is used. By /proc, since an O_PATH descriptor takes no
 * fchmod. */
static void make_accessible(int fd)
{
    char path[64];
    struct stat status;
    if (fstat(fd, &status) != 0 || (status.st_mode & S_IRWXU) == S_IRWXU)
        return;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    (void)!chmod(path, (status.st_mode & 07777) | S_IRWXU);
}

/* A descriptor to read the directory by, or -1 with errno: EXDEV for a mount. */
static int open_to_empty(int parent_fd, const char *name)
{
    const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    fd_scoped int path_fd = openat(parent_fd, name, O_PATH | flags);
    if (path_fd < 0)
        return -1;
    if (is_mount(parent_fd, path_fd)) {
        errno = EXDEV;
        return -1;
    }
    make_accessible(path_fd);
    return openat(path_fd, ".", O_RDONLY | flags);
}

static int remove_entry(struct removal *removal, int parent_fd, const char *name,
                        int depth);

/* Everything in the directory, which is closed. 0, or -1 where the batch ends here. */
static int empty_directory(struct removal *removal, int fd, const char *name, int depth)
{
    DIR *directory = fdopendir(fd);
    int ended = 0;
    if (!directory) {
        ended = fail(removal, name, errno);
        (void)close(fd);
        return ended;
    }
    while (!ended) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (!entry) {
            ended = errno ? fail(removal, name, errno) : 0;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            ended = remove_entry(removal, dirfd(directory), entry->d_name, depth);
    }
    (void)closedir(directory);
    return ended;
}

static int move_up(struct removal *removal, int parent_fd, const char *name)
{
    char gone[256];
    write_gone_name(removal->prefix, gone, sizeof(gone));
    removal->is_unfinished = true;
    if (renameat(parent_fd, name, removal->root_fd, gone) == 0 || errno == ENOENT)
        return 0;
    return fail(removal, name, errno);
}

static int remove_directory(struct removal *removal, int parent_fd, const char *name,
                            int depth)
{
    int fd = open_to_empty(parent_fd, name);
    if (fd < 0)
        return errno == ENOENT ? 0 : fail(removal, name, errno);
    if (depth >= DEPTH_MAX) {
        (void)close(fd);
        return move_up(removal, parent_fd, name);
    }
    if (empty_directory(removal, fd, name, depth + 1) != 0)
        return -1;
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return fail(removal, name, errno);
    removal->is_unfinished = true;
    removal->is_refilled = true;
    return 0;
}

static bool is_directory(int parent_fd, const char *name)
{
    struct stat status;
    return fstatat(parent_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode);
}

/* A file, or a directory with all that is in it. 0, or -1 where the batch ends here. */
static int remove_entry(struct removal *removal, int parent_fd, const char *name, int depth)
{
    if (removal->entries_left == 0) {
        removal->is_unfinished = true;
        return -1;
    }
    removal->entries_left--;
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    int why = errno;
    if (!is_directory(parent_fd, name))
        return fail(removal, name, why);
    return remove_directory(removal, parent_fd, name, depth);
}

static void remove_batch(void *arg)
{
    struct removal *removal = arg;
    size_t prefix_bytes = strlen(removal->prefix);
    int ended = 0;
    fd_scoped int root_fd = open(removal->local->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = root_fd < 0 ? -1 : openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *root = fd < 0 ? NULL : fdopendir(fd);
    if (!root) {
        (void)fail(removal, removal->local->id, errno);
        local_close_fd(&fd);
        return;
    }
    removal->root_fd = root_fd;
    while (!ended) {
        errno = 0;
        const struct dirent *entry = readdir(root);
        if (!entry) {
            if (errno)
                (void)fail(removal, removal->local->id, errno);
            break;
        }
        if (strncmp(entry->d_name, removal->prefix, prefix_bytes) == 0)
            ended = remove_entry(removal, root_fd, entry->d_name, 0);
    }
    (void)closedir(root);
}

static int refuse(const struct removal *removal, struct error *err)
{
    const char *id = removal->local->id;
    if (removal->failure == EXDEV)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "the files of sandbox \"%s\" cannot all be removed: \"%.120s\" "
                         "is a mount point, which is not emptied",
                         id, removal->failed_name);
    return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                     "the files of sandbox \"%s\" cannot all be removed: \"%.120s\": %s",
                     id, removal->failed_name, strerror(removal->failure));
}

int local_remove_gone(const struct local *local, struct error *err)
{
    struct removal removal = {.local = local};
    int refilled = 0;
    write_prefix(local, removal.prefix, sizeof(removal.prefix));
    do {
        removal.entries_left = BATCH_ENTRIES;
        removal.is_unfinished = false;
        removal.is_refilled = false;
        if (task_work("remove a sandbox", remove_batch, &removal) != 0)
            return error_set_memory(err, "a removal");
        refilled = removal.is_refilled ? refilled + 1 : 0;
        if (!removal.failure && refilled == REFILLED_MAX)
            (void)fail(&removal, local->id, ENOTEMPTY);
        if (removal.failure)
            return refuse(&removal, err);
        int result = task_sleep(removal.is_refilled ? REFILLED_WAIT_MS : 0);
        if (result)
            return error_set_wait(err, result, "remove the sandbox's files");
    } while (removal.is_unfinished);
    return 0;
}

int local_rename_to_gone(const struct local *local)
{
    char prefix[sizeof(((struct removal *)NULL)->prefix)];
    char name[256];
    fd_scoped int root_fd = open(local->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return errno;
    write_prefix(local, prefix, sizeof(prefix));
    write_gone_name(prefix, name, sizeof(name));
    return renameat(root_fd, local->id, root_fd, name) == 0 ? 0 : errno;
}
