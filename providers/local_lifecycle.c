/* Stopping, waking and destroying a directory.
 *
 * A stopped sandbox has no process and a mark in its directory: commands are refused until
 * it is woken. Destroying stops it as far as that can be done, takes its name away in one
 * step, kills what still runs and removes what it held. Each step can be the last one of a
 * worker; the next destroy goes on from there, also where the name is gone. */
#include "providers/local.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- stop and wake ---- */

bool local_is_stopped(int directory_fd)
{
    struct stat status;
    return fstatat(directory_fd, LOCAL_STOPPED_MARK, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whatever bears the mark's name is the mark: a FIFO or a directory is not opened. */
static int put_mark(int directory_fd)
{
    fd_scoped int fd = openat(directory_fd, LOCAL_STOPPED_MARK,
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 || errno == EEXIST ? 0 : errno;
}

/* The mark comes first: nothing is started any more while the rest is ended. */
int local_stop(struct sandbox *sandbox, struct error *err)
{
    const struct local *local = (const struct local *)sandbox;
    fd_scoped int directory_fd = local_open_directory(local, err);
    if (directory_fd < 0)
        return -1;
    int failed = put_mark(directory_fd);
    if (failed)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "sandbox \"%s\" cannot be marked as stopped: %s", local->id,
                         strerror(failed));
    return local_end_processes(local, err);
}

static int remove_mark(int directory_fd)
{
    if (unlinkat(directory_fd, LOCAL_STOPPED_MARK, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return errno;
    if (unlinkat(directory_fd, LOCAL_STOPPED_MARK, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return errno == ENOTDIR ? EPERM : errno;
}

int local_wake(struct sandbox *sandbox, struct error *err)
{
    const struct local *local = (const struct local *)sandbox;
    fd_scoped int directory_fd = local_open_directory(local, err);
    if (directory_fd < 0)
        return -1;
    int failed = remove_mark(directory_fd);
    if (!failed)
        return 0;
    return error_set(err, ERROR_PROVIDER_UNAVAILABLE, "sandbox \"%s\" cannot be woken: %s",
                     local->id, strerror(failed));
}

/* ---- destroy ---- */

/* The mark and TERM come before the name goes: programs that end in order write to their
 * directory. Neither has to succeed, the disk may be full, and what is started all the same
 * gets KILL later: a command that is just being started finds the directory gone (see
 * local_exec). */
SUSPENDS static int take_away(const struct local *local, int directory_fd,
                              bool *ret_was_there, struct error *err)
{
    int left = 0;
    (void)put_mark(directory_fd);
    if (local_ask_to_end(local, &left, err) != 0)
        return -1;
    int failed = local_rename_to_gone(local);
    if (failed && failed != ENOENT)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "the directory of sandbox \"%s\" cannot be taken away: %s",
                         local->id, strerror(failed));
    *ret_was_there = !failed;
    return 0;
}

int local_destroy(struct sandbox *sandbox, struct error *err)
{
    const struct local *local = (const struct local *)sandbox;
    struct error why = {0};
    bool was_there = false;
    fd_scoped int directory_fd = local_open_directory(local, &why);
    if (directory_fd < 0 && why.code != ERROR_SANDBOX_NOT_FOUND) {
        if (err)
            *err = why;
        return -1;
    }
    if (directory_fd >= 0 && take_away(local, directory_fd, &was_there, err) != 0)
        return -1;
    if (local_kill(local, err) != 0 || local_remove_gone(local, err) != 0)
        return -1;
    if (was_there)
        return 0;
    return error_set(err, ERROR_SANDBOX_NOT_FOUND,
                     "there is no local sandbox \"%s\" on this worker's host", local->id);
}
