/* Running a child process and waiting for it, without a stall of the loop.
 *
 * posix_spawn runs in the thread pool (it blocks its caller until the child's exec); the
 * end is learnt through a pidfd, so nothing is scanned per child (where there is no pidfd,
 * SIGCHLD and a look at that one pid serve). The child has a session of its own, standard
 * input from /dev/null (or given bytes), a pipe for each output, default signal handling,
 * and no other descriptor of ours.
 *
 * What this process must do for it: keep descriptors 0, 1 and 2 open, ignore SIGPIPE where
 * input is given, leave SIGCHLD alone and wait for no child that is not its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/task.h"

struct process_request {
    const char *const
        *argv;              /* NULL-ended; argv[0] is a path, or a name looked up in PATH */
    const char *const *env; /* NULL-ended, the whole environment; NULL: an empty one */
    int cwd_fd;             /* a directory to start in; -1: ours */
    /* NULL, or called in the thread pool once the child runs: false, and it gets KILL. */
    bool (*is_wanted)(void *arg);
    void *is_wanted_arg;
    const void *input; /* bytes for standard input; NULL: /dev/null */
    size_t input_bytes;
    uint64_t timeout_ms; /* then TERM to the group, grace_ms, KILL; 0: none */
    uint64_t grace_ms;   /* between TERM and KILL; 0: KILL at once */
    uint64_t drain_ms;   /* how long to read on after the child's end, when something else
                            holds its pipes open; 0: 250 */
    size_t
        output_limit_bytes; /* of each output: the tail is kept, what is dropped counted */
};

enum process_end {
    PROCESS_EXITED,
    PROCESS_SIGNALED, /* by somebody else */
    PROCESS_TIMED_OUT /* ended by us at timeout_ms, with TERM or KILL */
};

struct process_output {
    char *data; /* in the arena, followed by a NUL */
    size_t size;
    uint64_t dropped_bytes;
    bool held_open; /* something else still held the pipe when we stopped reading */
};

struct process_result {
    enum process_end end;
    int exit_code; /* PROCESS_EXITED */
    int signal; /* PROCESS_SIGNALED, or the one that ended it after a timeout; 0: it exited
                 */
    struct process_output out;
    struct process_output err;
    uint64_t run_ms;
};

/* Runs the command to its end and collects what it wrote. Suspends.
 *
 * When timeout_ms passes, the child's group gets TERM; once the child has ended and its
 * outputs are closed, or after grace_ms, what is left of the group gets KILL, and the child
 * is reaped. The same happens when the task is cancelled or its deadline passes, and the
 * call then fails with cancelled or timeout: no child is left behind on any path. A command
 * that ends by itself may leave processes running (background launches); on a timeout only
 * those with a session of their own survive.
 *
 * Returns 0 when the command ran, however it ended. Errors: command_failed where it could
 * not be started for its own sake (exit_code 127 no such program, 126 not executable);
 * provider_unavailable, retryable, where the machine is short of processes, memory or
 * descriptors; cancelled and timeout (the command was not started, where the task was so
 * already at the call); internal where memory for the output ran out (the command was
 * killed); outcome_unknown where somebody else took the child's status. Outputs untouched
 * on failure. */
SUSPENDS int process_run(const struct process_request *request, struct arena *arena,
                         struct process_result *ret_result, struct error *err);
