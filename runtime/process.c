/* Child processes.
 *
 * Starting happens in the thread pool: pipes, posix_spawn and closing the child's ends are
 * one function there. From then on the loop reads the pipes into tails. Most commands are
 * scripts of a few milliseconds, so their end is first looked for when both outputs have
 * ended: one waitid, and no descriptor for the process at all. Only a command that is still
 * there after WATCH_AFTER_MS, or that closed its outputs and runs on, is watched through a
 * pidfd, or through SIGCHLD where the kernel (or valgrind) has no pidfd.
 *
 * A pid is signalled only while the child has not been reaped: a zombie keeps its number,
 * and with it the number of its group. So the order is always: learn of the end without
 * reaping, kill what is left of the group where that is wanted, reap. */
#include "runtime/process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "runtime/deadline.h"
#include "runtime/loop.h"
#include "runtime/tail.h"

enum { READS_A_TURN = 4, WATCH_AFTER_MS = 20, DRAIN_MS = 250 };

/* A descriptor of ours and the handle that polls it. */
struct watch {
    uv_poll_t poll;
    struct process *process;
    struct tail tail; /* of an output */
    int fd;           /* -1: closed */
    bool polled;
};

struct process {
    const struct process_request *request;
    struct task *task;
    struct loop *loop;
    unsigned references; /* the task's, and one for each handle until it has closed */
    int spawn_errno;
    int failure; /* negative: why the command cannot be followed any further */
    pid_t pid;
    bool ended; /* it is a zombie, or reaped */
    bool reaped;
    bool unwatchable; /* neither pidfd nor SIGCHLD could be had */
    bool signal_used;
    bool timed_out;
    siginfo_t end;
    uint64_t started_at_ms;
    uint64_t ended_at_ms;
    size_t fed_bytes; /* of the input */
    struct watch in;
    struct watch out;
    struct watch err;
    struct watch pidfd;
    struct process *next_watched; /* in the loop's child_watch */
    int child_fds[3];
};

/* ---- starting, in the thread pool ---- */

/* Both ends block: the child's has to, ours is changed by uv_poll_init. */
static int open_pipe(int *ret_read_fd, int *ret_write_fd)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return errno;
    *ret_read_fd = fds[0];
    *ret_write_fd = fds[1];
    return 0;
}

static int open_pipes(struct process *process)
{
    int failed = open_pipe(&process->out.fd, &process->child_fds[1]);
    if (!failed)
        failed = open_pipe(&process->err.fd, &process->child_fds[2]);
    if (!failed && process->request->input)
        failed = open_pipe(&process->child_fds[0], &process->in.fd);
    return failed;
}

static int add_actions(const struct process *process, posix_spawn_file_actions_t *actions)
{
    int failed = 0;
    if (process->request->cwd_fd >= 0)
        failed = posix_spawn_file_actions_addfchdir_np(actions, process->request->cwd_fd);
    if (!failed && process->child_fds[0] >= 0)
        failed = posix_spawn_file_actions_adddup2(actions, process->child_fds[0], 0);
    else if (!failed)
        failed = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(actions, process->child_fds[1], 1);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(actions, process->child_fds[2], 2);
    if (!failed) /* libraries open descriptors without close-on-exec */
        failed = posix_spawn_file_actions_addclosefrom_np(actions, 3);
    return failed;
}

/* A session of its own, so that its group can be signalled; no signal blocked or ignored,
 * whatever this process does with its own. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    memset(&all, 0xff, sizeof(all)); /* sigfillset leaves out two of glibc's own */
    int failed = posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!failed)
        failed = posix_spawnattr_setsigmask(attributes, &none);
    if (!failed)
        failed = posix_spawnattr_setsigdefault(attributes, &all);
    return failed;
}

/* posix_spawn takes char *const *, and does not write. */
static char *const *unconst(const char *const *list)
{
    union {
        const char *const *given;
        char *const *wanted;
    } view = {.given = list};
    return view.wanted;
}

static int spawn_child(struct process *process)
{
    static const char *const empty[] = {NULL};
    const struct process_request *request = process->request;
    const char *const *env = request->env ? request->env : empty;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed)
        return failed;
    failed = posix_spawnattr_init(&attributes);
    if (!failed) {
        failed = add_actions(process, &actions);
        if (!failed)
            failed = set_attributes(&attributes);
        if (!failed)
            failed = posix_spawnp(&process->pid, request->argv[0], &actions, &attributes,
                                  unconst(request->argv), unconst(env));
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static void spawn(void *arg)
{
    struct process *process = arg;
    process->spawn_errno = open_pipes(process);
    if (!process->spawn_errno)
        process->spawn_errno = spawn_child(process);
    if (!process->spawn_errno && process->request->is_wanted &&
        !process->request->is_wanted(process->request->is_wanted_arg))
        (void)kill(-process->pid, SIGKILL); /* nobody has reaped it yet */
    for (size_t i = 0; i < 3; i++) {
        if (process->child_fds[i] >= 0)
            (void)close(process->child_fds[i]);
    }
}

/* ---- handles, on the loop's stack ---- */

static void unref(struct process *process)
{
    if (--process->references == 0)
        free(process);
}

static void on_closed(uv_handle_t *handle)
{
    unref(handle->data);
}

static void watch_close(struct watch *watch)
{
    if (watch->polled) {
        watch->polled = false;
        watch->poll.data = watch->process;
        uv_close((uv_handle_t *)&watch->poll, on_closed);
    }
    if (watch->fd >= 0)
        (void)close(watch->fd);
    watch->fd = -1;
}

/* 0, or libuv's error; the descriptor stays ours either way. */
static int watch_start(struct watch *watch, int events, uv_poll_cb callback)
{
    struct process *process = watch->process;
    int failed = uv_poll_init(&process->loop->uv, &watch->poll, watch->fd);
    if (failed)
        return failed;
    watch->polled = true;
    watch->poll.data = watch;
    process->references++;
    return uv_poll_start(&watch->poll, events, callback);
}

static bool is_silent(const struct process *process)
{
    return process->out.fd < 0 && process->err.fd < 0;
}

static void fail(struct process *process, int failure)
{
    process->failure = failure;
    task_wake(process->task);
}

static void end_output(struct watch *watch)
{
    watch_close(watch);
    if (is_silent(watch->process))
        task_wake(watch->process->task);
}

static void on_output(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct watch *watch = poll->data;
    struct process *process = watch->process;
    char *scratch = process->loop->scratch;
    const size_t room = sizeof(process->loop->scratch);
    if (status < 0) {
        end_output(watch);
        return;
    }
    /* A writer in a hurry is not to keep the loop from everybody else. */
    for (int i = 0; i < READS_A_TURN; i++) {
        ssize_t got = read(watch->fd, scratch, room);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            end_output(watch);
            return;
        }
        if (tail_append(&watch->tail, scratch, (size_t)got) != 0) {
            fail(process, -ENOMEM);
            return;
        }
        if ((size_t)got < room)
            return;
    }
}

static void on_input(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct watch *watch = poll->data;
    struct process *process = watch->process;
    size_t left = process->request->input_bytes - process->fed_bytes;
    if (status == 0 && left > 0) {
        const char *input = process->request->input;
        ssize_t put = write(watch->fd, input + process->fed_bytes, left);
        if (put < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (put > 0)
            process->fed_bytes += (size_t)put;
        if (put > 0 && process->fed_bytes < process->request->input_bytes)
            return;
    }
    watch_close(watch); /* all is written, or nobody reads any more */
}

static void watch_pipes(void *arg)
{
    struct process *process = arg;
    int failed = watch_start(&process->out, UV_READABLE, on_output);
    if (!failed)
        failed = watch_start(&process->err, UV_READABLE, on_output);
    if (!failed && process->in.fd >= 0)
        failed = watch_start(&process->in, UV_WRITABLE, on_input);
    if (failed)
        process->failure = failed;
}

/* ---- the end of the child ---- */

/* Whether the child has ended; with WNOWAIT in the options it stays a zombie. A child that
 * is not ours any more has ended too, only nobody can say how. */
static bool look(struct process *process, int options)
{
    siginfo_t info = {0};
    int failed = waitid(P_PID, (id_t)process->pid, &info, WEXITED | options);
    if (failed && errno != ECHILD)
        return false;
    if (!failed && info.si_pid == 0)
        return false;
    process->ended = true;
    process->end = info;
    if (failed || !(options & WNOWAIT))
        process->reaped = true;
    return true;
}

static void on_pidfd(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct watch *watch = poll->data;
    watch->process->ended = true;
    watch_close(watch);
    task_wake(watch->process->task);
}

/* Without pidfds: one SIGCHLD handle for all children of the loop, which looks at each of
 * them. A handle for each child would not do: libuv drops signals where their messages no
 * longer fit into its pipe, and somebody's only message would be lost. */
struct child_watch {
    uv_signal_t signal;
    struct process *first;
};

static void on_child_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void unwatch_signal(struct process *process)
{
    struct loop *loop = process->loop;
    struct child_watch *watch = loop->child_watch;
    if (!process->signal_used)
        return;
    process->signal_used = false;
    struct process **place = &watch->first;
    while (*place != process)
        place = &(*place)->next_watched;
    *place = process->next_watched;
    if (watch->first)
        return;
    loop->child_watch = NULL;
    uv_close((uv_handle_t *)&watch->signal, on_child_watch_closed);
}

static void on_child_signal(uv_signal_t *signal, int number)
{
    (void)number;
    struct child_watch *watch = signal->data;
    for (struct process *process = watch->first, *next; process; process = next) {
        next = process->next_watched;
        if (!look(process, WNOHANG | WNOWAIT))
            continue;
        unwatch_signal(process);
        task_wake(process->task);
    }
}

/* The loop's handle; made and started where it is not there. NULL with *ret_failed. */
static struct child_watch *child_watch_of(struct loop *loop, int *ret_failed)
{
    if (loop->child_watch)
        return loop->child_watch;
    struct child_watch *watch = calloc(1, sizeof(*watch));
    *ret_failed = watch ? uv_signal_init(&loop->uv, &watch->signal) : -ENOMEM;
    if (*ret_failed) {
        free(watch);
        return NULL;
    }
    watch->signal.data = watch;
    *ret_failed = uv_signal_start(&watch->signal, on_child_signal, SIGCHLD);
    if (*ret_failed) {
        uv_close((uv_handle_t *)&watch->signal, on_child_watch_closed);
        return NULL;
    }
    loop->child_watch = watch;
    return watch;
}

static int watch_signal(struct process *process)
{
    int failed = 0;
    struct child_watch *watch = child_watch_of(process->loop, &failed);
    if (!watch)
        return failed;
    process->signal_used = true;
    process->next_watched = watch->first;
    watch->first = process;
    /* It may have ended before anybody listened. */
    if (look(process, WNOHANG | WNOWAIT))
        unwatch_signal(process);
    return 0;
}

static void watch_end(void *arg)
{
    struct process *process = arg;
    if (process->ended || process->pidfd.polled || process->signal_used ||
        process->unwatchable)
        return;
    process->pidfd.fd = pidfd_open(process->pid, 0);
    if (process->pidfd.fd >= 0 && watch_start(&process->pidfd, UV_READABLE, on_pidfd) == 0)
        return;
    watch_close(&process->pidfd);
    int failed = watch_signal(process);
    if (!failed)
        return;
    process->unwatchable = true;
    process->failure = failed;
}

static void close_pipes(void *arg)
{
    struct process *process = arg;
    watch_close(&process->in);
    watch_close(&process->out);
    watch_close(&process->err);
}

/* ---- following it, on the task's stack ---- */

static bool has_ended(const struct process *process)
{
    return process->ended;
}

static bool has_ended_silently(const struct process *process)
{
    return process->ended && is_silent(process);
}

/* 0 once is_over says so; what interrupted the wait otherwise, or made it pointless. */
SUSPENDS static int wait_until(struct process *process,
                               bool (*is_over)(const struct process *process),
                               const char *step)
{
    int result = 0;
    while (!is_over(process)) {
        if (process->failure)
            return process->failure;
        if (result)
            return result;
        result = task_await(step, NULL, NULL);
    }
    return 0;
}

SUSPENDS static int wait_for_end(struct process *process)
{
    struct deadline quick;
    deadline_enter(&quick, WATCH_AFTER_MS);
    int result = wait_until(process, is_silent, "command");
    deadline_leave(&quick);
    if (result == 0 && look(process, WNOHANG))
        return 0;
    if (result != 0 && result != -ETIMEDOUT)
        return result;
    /* Late for an outer deadline as well? Then the next wait says so at once. */
    task_on_loop(watch_end, process);
    return wait_until(process, has_ended, "command");
}

static void signal_group(const struct process *process, int number)
{
    assert(!process->reaped && "a reaped pid may be somebody else's");
    (void)kill(-process->pid, number);
}

static void reap_blocking(void *arg)
{
    struct process *process = arg;
    while (!look(process, 0))
        continue;
}

/* The last resort where descriptors are too short to be told of the end. */
SUSPENDS static void kill_unwatched(struct process *process)
{
    task_on_loop(close_pipes, process); /* so that nothing else wakes the task */
    signal_group(process, SIGKILL);
    if (task_work("killed command", reap_blocking, process) != 0)
        reap_blocking(process);
}

/* TERM to the group, KILL to what is left of it. The grace is for the whole group, not just
 * for the shell that leads it: the shell dies of TERM at once while the program that it
 * started still cleans up, and as long as that holds an output it is given its time. */
SUSPENDS static void terminate(struct process *process)
{
    uint64_t grace_ms = process->request->grace_ms;
    process->failure = 0;
    task_on_loop(watch_end, process);
    if (process->unwatchable) {
        kill_unwatched(process);
        return;
    }
    if (process->reaped)
        return; /* somebody else reaped it */
    if (grace_ms > 0) {
        struct deadline grace;
        signal_group(process, SIGTERM);
        deadline_enter_shielded(&grace, grace_ms);
        (void)wait_until(process, has_ended_silently, "stopping command");
        deadline_leave(&grace);
    }
    if (!process->reaped)
        signal_group(process, SIGKILL);
    while (!process->ended)
        task_await_surely("killed command", NULL, NULL);
}

/* What the command wrote is still in the pipes; something else may hold them for good. */
SUSPENDS static void drain(struct process *process)
{
    struct deadline deadline;
    if (is_silent(process))
        return;
    uint64_t drain_ms = process->request->drain_ms;
    deadline_enter_shielded(&deadline, drain_ms ? drain_ms : DRAIN_MS);
    (void)wait_until(process, is_silent, "command output");
    deadline_leave(&deadline);
}

/* Waits for the end, or brings it about. 0 when how it ended is known. */
SUSPENDS static int follow(struct process *process, struct error *err)
{
    struct deadline deadline;
    uint64_t timeout_ms = process->request->timeout_ms;
    task_on_loop(watch_pipes, process);
    deadline_enter(&deadline, timeout_ms ? timeout_ms : UINT64_MAX);
    int interrupted = wait_for_end(process);
    bool is_late = deadline.outer && deadline_has_passed(deadline.outer);
    deadline_leave(&deadline);
    if (interrupted)
        terminate(process);
    process->ended_at_ms = loop_now_ms(process->loop);
    process->timed_out = interrupted == -ETIMEDOUT && timeout_ms && !is_late;
    bool is_answer = !interrupted || process->timed_out;
    if (is_answer)
        drain(process);
    if (!process->reaped)
        (void)look(process, 0);
    if (!is_answer)
        return error_set_wait(err, interrupted, "the command");
    if (process->failure)
        return error_set_wait(err, process->failure, "reading the command's output");
    if (process->end.si_pid == 0)
        return error_set(err, ERROR_OUTCOME_UNKNOWN,
                         "the command has ended, but not how: its status was taken by "
                         "somebody else");
    return 0;
}

static int refuse_start(int spawn_errno, const char *program, struct error *err)
{
    const char *why = strerror(spawn_errno);
    int exit_code = 126;
    switch (spawn_errno) {
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "the worker's host cannot start another process: %s", why);
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
        exit_code = 127;
        break;
    default:
        break;
    }
    (void)error_set(err, ERROR_COMMAND_FAILED, "cannot start %s: %s", program, why);
    if (err) {
        err->has_exit_code = true;
        err->exit_code = exit_code;
    }
    return -1;
}

static int collect_output(const struct watch *watch, struct arena *arena,
                          struct process_output *ret_output)
{
    char *data = tail_copy(&watch->tail, arena);
    if (!data)
        return -1;
    *ret_output = (struct process_output){.data = data,
                                          .size = watch->tail.size,
                                          .dropped_bytes = watch->tail.dropped_bytes,
                                          .held_open = watch->fd >= 0};
    return 0;
}

static int collect(const struct process *process, struct arena *arena,
                   struct process_result *ret_result, struct error *err)
{
    bool exited = process->end.si_code == CLD_EXITED;
    struct process_result result = {
        .end = process->timed_out ? PROCESS_TIMED_OUT
               : exited           ? PROCESS_EXITED
                                  : PROCESS_SIGNALED,
        .exit_code = exited ? process->end.si_status : 0,
        .signal = exited ? 0 : process->end.si_status,
        .run_ms = process->ended_at_ms - process->started_at_ms,
    };
    if (collect_output(&process->out, arena, &result.out) != 0 ||
        collect_output(&process->err, arena, &result.err) != 0)
        return error_set_memory(err, "the command's output");
    *ret_result = result;
    return 0;
}

static struct process *process_new(const struct process_request *request)
{
    struct process *process = calloc(1, sizeof(*process));
    if (!process)
        return NULL;
    process->request = request;
    process->task = task_self();
    process->loop = task_loop(process->task);
    process->references = 1;
    process->started_at_ms = loop_now_ms(process->loop);
    struct watch *watches[] = {&process->in, &process->out, &process->err, &process->pidfd};
    for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++) {
        watches[i]->process = process;
        watches[i]->fd = -1;
        tail_init(&watches[i]->tail, request->output_limit_bytes);
    }
    for (size_t i = 0; i < 3; i++)
        process->child_fds[i] = -1;
    return process;
}

static void let_go(void *arg)
{
    struct process *process = arg;
    close_pipes(process);
    watch_close(&process->pidfd);
    unwatch_signal(process);
    tail_done(&process->out.tail);
    tail_done(&process->err.tail);
    unref(process);
}

static void wake(void *arg)
{
    task_wake(arg);
}

int process_run(const struct process_request *request, struct arena *arena,
                struct process_result *ret_result, struct error *err)
{
    /* A task that is late or cancelled already must not run the command at all. */
    int interrupted = task_await("command start", wake, task_self());
    if (interrupted)
        return error_set_wait(err, interrupted, "the command");
    struct process *process = process_new(request);
    if (!process)
        return error_set_memory(err, "a process");
    int failed = 0;
    if (task_work("command start", spawn, process) != 0)
        failed = error_set_memory(err, "a process");
    else if (process->spawn_errno)
        failed = refuse_start(process->spawn_errno, request->argv[0], err);
    else
        failed = follow(process, err);
    if (!failed)
        failed = collect(process, arena, ret_result, err);
    task_on_loop(let_go, process);
    return failed;
}
