/* Ending the processes of a sandbox.
 *
 * They are found in /proc by the mark, a variable that every command gets and children
 * inherit; one that clears its environment escapes, as it would a container that it left. A
 * process is held by a pidfd before its environment is read, and signalled through it: a
 * pid that has become another process by then is never hit.
 *
 * While a process executes a program, its environment is empty for a moment. So nothing is
 * there only when two looks in succession have found nothing. */
#include "providers/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "runtime/loop.h"

enum {
    GRACE_MS = 2000,
    LOOK_EVERY_MS = 20,
    KILL_MS = 4000,
    QUIET_ROUNDS = 2,
    CHUNK_BYTES = 16 * 1024,
};

/* A round of signalling, in the thread pool: /proc is long on a busy host. */
struct hunt {
    const char *mark;
    int signal; /* 0: only counted */
    int found;
    int failure;  /* errno: the round says nothing */
    char *buffer; /* CHUNK_BYTES */
};

/* The entry of an environment that is being read, over however many chunks. */
struct scan {
    const char *mark;
    size_t matched; /* of the mark, its NUL included */
    bool differs;   /* this entry is another */
};

/* Whether the mark ends in this chunk. */
static bool scan_chunk(struct scan *scan, const char *chunk, size_t size)
{
    for (size_t at = 0; at < size; at++) {
        if (scan->differs) {
            at += strnlen(chunk + at, size - at);
            if (at == size)
                break;
        } else if (chunk[at] == scan->mark[scan->matched]) {
            if (chunk[at] == '\0')
                return true;
            scan->matched++;
            continue;
        }
        scan->differs = chunk[at] != '\0';
        scan->matched = 0;
    }
    return false;
}

/* Whether a failure means that there is no such process, or none that is ours to see. */
static bool is_none(int why)
{
    return why == ENOENT || why == ESRCH || why == EACCES || why == EPERM;
}

/* A zombie has no environment any more, so it does not count. */
static bool belongs(struct hunt *hunt, int proc_fd, const char *pid)
{
    char path[64];
    struct scan scan = {.mark = hunt->mark};
    (void)snprintf(path, sizeof(path), "%.32s/environ", pid);
    fd_scoped int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0) {
        got = read(fd, hunt->buffer, CHUNK_BYTES);
        if (got > 0 && scan_chunk(&scan, hunt->buffer, (size_t)got))
            return true;
        if (got < 0 && errno == EINTR)
            got = 1;
    }
    if (got < 0 && !is_none(errno))
        hunt->failure = errno;
    return false;
}

static void hunt_process(struct hunt *hunt, int proc_fd, pid_t pid, const char *name)
{
    fd_scoped int pidfd = pidfd_open(pid, 0);
    bool has_pidfd = pidfd >= 0 || errno != ENOSYS;
    if (pidfd < 0 && has_pidfd) {
        if (!is_none(errno))
            hunt->failure = errno;
        return;
    }
    if (!belongs(hunt, proc_fd, name))
        return;
    hunt->found++;
    if (hunt->signal == 0)
        return;
    if (has_pidfd)
        (void)pidfd_send_signal(pidfd, hunt->signal, NULL, 0);
    else /* valgrind; every kernel that has openat2 has pidfds */
        (void)kill(pid, hunt->signal);
}

static void hunt_once(void *arg)
{
    struct hunt *hunt = arg;
    DIR *proc = opendir("/proc");
    if (!proc) {
        hunt->failure = errno;
        return;
    }
    while (!hunt->failure) {
        char *end = NULL;
        errno = 0;
        const struct dirent *entry = readdir(proc);
        if (!entry) {
            hunt->failure = errno;
            break;
        }
        long pid = strtol(entry->d_name, &end, 10);
        if (!*end && pid >= 2 && pid != getpid())
            hunt_process(hunt, dirfd(proc), (pid_t)pid, entry->d_name);
    }
    (void)closedir(proc);
}

SUSPENDS static int hunt(const struct local *local, int signal, int *ret_found,
                         struct error *err)
{
    struct hunt round = {.mark = local->mark, .signal = signal};
    round.buffer = malloc(CHUNK_BYTES);
    int failed =
        round.buffer ? task_work("look for processes", hunt_once, &round) : -ENOMEM;
    free(round.buffer);
    if (failed)
        return error_set_memory(err, "a look for processes");
    if (round.failure)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "the processes of sandbox \"%s\" cannot be looked for: %s",
                         local->id, strerror(round.failure));
    *ret_found = round.found;
    return 0;
}

/* TERM is sent once, by the first look that finds something; KILL by each. */
SUSPENDS static int wait_for_end(const struct local *local, int signal, uint64_t wait_ms,
                                 int *ret_found, struct error *err)
{
    const struct loop *loop = task_loop(task_self());
    uint64_t until_ms = loop_now_ms(loop) + wait_ms;
    int quiet = 0;
    bool signalled = false;
    for (;;) {
        bool is_due = signal == SIGKILL || !signalled;
        if (hunt(local, is_due ? signal : 0, ret_found, err) != 0)
            return -1;
        signalled = signalled || *ret_found > 0;
        quiet = *ret_found ? 0 : quiet + 1;
        if (quiet == QUIET_ROUNDS || (quiet == 0 && loop_now_ms(loop) >= until_ms))
            return 0;
        int result = task_sleep(LOOK_EVERY_MS);
        if (result)
            return error_set_wait(err, result, "wait for the sandbox's processes");
    }
}

int local_ask_to_end(const struct local *local, int *ret_left, struct error *err)
{
    return wait_for_end(local, SIGTERM, GRACE_MS, ret_left, err);
}

int local_kill(const struct local *local, struct error *err)
{
    int found = 0;
    if (wait_for_end(local, SIGKILL, KILL_MS, &found, err) != 0)
        return -1;
    if (found == 0)
        return 0;
    return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                     "%d processes of sandbox \"%s\" do not end", found, local->id);
}

int local_end_processes(const struct local *local, struct error *err)
{
    int left = 0;
    if (local_ask_to_end(local, &left, err) != 0)
        return -1;
    return left ? local_kill(local, err) : 0;
}
