/* Stopping, waking and destroying a directory.
 *
 * A stopped sandbox has no process and a mark in its directory: commands are refused until
 * it is woken. Its processes are found by a variable that every command gets and children
 * inherit; one that clears its environment escapes, as it would a container that it left.
 * Destroying takes the directory away: its name is gone at once, in one step, and the tree
 * is removed under another name that no sandbox can have, by this call or by the next one
 * below the same root. */
#include "providers/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/random.h"

enum {
    GRACE_MS = 2000,
    LOOK_EVERY_MS = 20,
    KILL_ROUNDS = 100,
    ENVIRONMENT_BYTES = 256 * 1024,
    /* Deeper trees are left to the operator. */
    DEPTH_MAX = 512,
};

static const char GONE_PREFIX[] = ".attachd-destroyed-";

/* ---- processes ---- */

/* A round of signalling, in the thread pool: /proc is long on a busy host. */
struct hunt {
    const char *mark;
    int signal; /* 0: only counted */
    int found;
    char *buffer; /* ENVIRONMENT_BYTES */
};

static bool has_mark(const char *environment, size_t size, const char *mark)
{
    size_t bytes = strlen(mark) + 1;
    for (size_t at = 0; at + bytes <= size;) {
        if (memcmp(environment + at, mark, bytes) == 0)
            return true;
        at += strnlen(environment + at, size - at) + 1;
    }
    return false;
}

/* A zombie has no environment any more, so it does not count. */
static bool belongs(const struct hunt *hunt, int proc_fd, const char *pid)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%.32s/environ", pid);
    fd_scoped int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t size = 0;
    for (;;) {
        ssize_t got = read(fd, hunt->buffer + size, ENVIRONMENT_BYTES - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    return has_mark(hunt->buffer, size, hunt->mark);
}

static void hunt_once(void *arg)
{
    struct hunt *hunt = arg;
    DIR *proc = opendir("/proc");
    hunt->found = 0;
    if (!proc)
        return;
    for (struct dirent *entry = readdir(proc); entry; entry = readdir(proc)) {
        char *end = NULL;
        long pid = strtol(entry->d_name, &end, 10);
        if (*end || pid < 2 || pid == getpid() ||
            !belongs(hunt, dirfd(proc), entry->d_name))
            continue;
        hunt->found++;
        if (hunt->signal)
            (void)kill((pid_t)pid, hunt->signal);
    }
    (void)closedir(proc);
}

SUSPENDS static int hunt(const struct local *local, int signal, int *ret_found,
                         struct error *err)
{
    struct hunt round = {.mark = local->mark, .signal = signal};
    round.buffer = malloc(ENVIRONMENT_BYTES);
    int failed =
        round.buffer ? task_work("look for processes", hunt_once, &round) : -ENOMEM;
    free(round.buffer);
    if (failed)
        return error_set_memory(err, "a look for processes");
    *ret_found = round.found;
    return 0;
}

SUSPENDS static int wait_for_end(const struct local *local, int signal, int rounds,
                                 int *ret_found, struct error *err)
{
    for (int i = 0; i < rounds; i++) {
        if (hunt(local, i == 0 || signal == SIGKILL ? signal : 0, ret_found, err) != 0)
            return -1;
        if (*ret_found == 0)
            return 0;
        int result = task_sleep(LOOK_EVERY_MS);
        if (result)
            return error_set_wait(err, result, "wait for the sandbox's processes");
    }
    return 0;
}

/* TERM, the grace, KILL until nothing is found. */
SUSPENDS static int end_processes(const struct local *local, struct error *err)
{
    int found = 0;
    if (wait_for_end(local, SIGTERM, GRACE_MS / LOOK_EVERY_MS, &found, err) != 0)
        return -1;
    if (found && wait_for_end(local, SIGKILL, KILL_ROUNDS, &found, err) != 0)
        return -1;
    if (found == 0)
        return 0;
    return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                     "%d processes of sandbox \"%s\" do not end", found, local->id);
}

/* ---- stop and wake ---- */

bool local_is_stopped(int directory_fd)
{
    struct stat status;
    return fstatat(directory_fd, LOCAL_STOPPED_MARK, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The mark comes first: nothing is started any more while the rest is ended. */
int local_stop(struct sandbox *sandbox, struct error *err)
{
    const struct local *local = (const struct local *)sandbox;
    fd_scoped int directory_fd = local_open_directory(local, err);
    if (directory_fd < 0)
        return -1;
    fd_scoped int fd = openat(directory_fd, LOCAL_STOPPED_MARK,
                              O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "sandbox \"%s\" cannot be marked as stopped: %s", local->id,
                         strerror(errno));
    return end_processes(local, err);
}

int local_wake(struct sandbox *sandbox, struct error *err)
{
    const struct local *local = (const struct local *)sandbox;
    fd_scoped int directory_fd = local_open_directory(local, err);
    if (directory_fd < 0)
        return -1;
    if (unlinkat(directory_fd, LOCAL_STOPPED_MARK, 0) == 0 || errno == ENOENT)
        return 0;
    return error_set(err, ERROR_PROVIDER_UNAVAILABLE, "sandbox \"%s\" cannot be woken: %s",
                     local->id, strerror(errno));
}

/* ---- destroy ---- */

static int remove_tree(int parent_fd, const char *name, dev_t device, int depth);

/* Everything in a directory; links are removed, not followed. 0 or errno. */
static int empty_directory(int fd, dev_t device, int depth)
{
    DIR *directory = fdopendir(fd);
    int failed = 0;
    if (!directory) {
        failed = errno;
        (void)close(fd);
        return failed;
    }
    for (struct dirent *entry = readdir(directory); entry && !failed;
         entry = readdir(directory)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            failed = remove_tree(dirfd(directory), entry->d_name, device, depth);
    }
    (void)closedir(directory);
    return failed;
}

/* A file, or a directory with all that is in it on the same device. 0 or errno. */
static int remove_tree(int parent_fd, const char *name, dev_t device, int depth)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return errno;
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    struct stat status;
    if (depth >= DEPTH_MAX || fstat(fd, &status) != 0 || status.st_dev != device) {
        (void)close(fd);
        return depth >= DEPTH_MAX ? ELOOP : EXDEV;
    }
    int failed = empty_directory(fd, device, depth + 1);
    if (failed)
        return failed;
    return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

struct removal {
    const struct local *local;
    int failure;  /* errno */
    bool is_gone; /* there was no such directory */
};

/* What destroys that were cut short have left, this one's own too. */
static int remove_gone(int root_fd, dev_t device)
{
    int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *root = fd < 0 ? NULL : fdopendir(fd);
    int failed = 0;
    if (!root)
        return errno;
    for (struct dirent *entry = readdir(root); entry; entry = readdir(root)) {
        if (strncmp(entry->d_name, GONE_PREFIX, sizeof(GONE_PREFIX) - 1) != 0)
            continue;
        int why = remove_tree(root_fd, entry->d_name, device, 0);
        failed = failed ? failed : why;
    }
    (void)closedir(root);
    return failed;
}

static void remove_sandbox(void *arg)
{
    struct removal *removal = arg;
    char name[sizeof(GONE_PREFIX) + 32];
    char digits[17];
    struct stat status;
    fd_scoped int root_fd = open(removal->local->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0 || fstat(root_fd, &status) != 0) {
        removal->failure = errno;
        return;
    }
    random_hex(digits, sizeof(digits) / 2);
    (void)snprintf(name, sizeof(name), "%s%s", GONE_PREFIX, digits);
    if (renameat(root_fd, removal->local->id, root_fd, name) != 0) {
        removal->is_gone = errno == ENOENT;
        removal->failure = errno;
        return;
    }
    removal->failure = remove_gone(root_fd, status.st_dev);
}

int local_destroy(struct sandbox *sandbox, struct error *err)
{
    const struct local *local = (const struct local *)sandbox;
    fd_scoped int directory_fd = local_open_directory(local, err);
    if (directory_fd < 0)
        return -1;
    if (local_stop(sandbox, err) != 0)
        return -1;
    struct removal removal = {.local = local};
    if (task_work("remove a sandbox", remove_sandbox, &removal) != 0)
        return error_set_memory(err, "a removal");
    if (removal.is_gone)
        return error_set(err, ERROR_SANDBOX_NOT_FOUND,
                         "there is no local sandbox \"%s\" on this worker's host",
                         local->id);
    if (removal.failure)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "the files of sandbox \"%s\" cannot all be removed: %s", local->id,
                         strerror(removal.failure));
    return 0;
}
