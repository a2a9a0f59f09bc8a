/* Counts the steps of one operation's jobs, and ends the process at the one asked for. */
#include "worker/kill_hook.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/task.h"

static struct {
    const char *op;
    long at;
    long passed;
    int trace_fd;
} hook;

static void pass(const struct task *task, const char *step, bool ended)
{
    const char *op = task_context_of(task)->op;
    if (!op || strcmp(op, hook.op) != 0)
        return;
    hook.passed++;
    if (hook.trace_fd >= 0)
        (void)dprintf(hook.trace_fd, "%ld %s %s\n", hook.passed, ended ? "end" : "begin",
                      step);
    if (hook.passed == hook.at)
        (void)kill(getpid(), SIGKILL);
}

void kill_hook_begin(void)
{
    const char *at = getenv("ATTACHD_TEST_KILL_AT");
    const char *trace = getenv("ATTACHD_TEST_KILL_TRACE");
    hook.op = getenv("ATTACHD_TEST_KILL_OP");
    if (!hook.op)
        return;
    hook.at = at ? strtol(at, NULL, 10) : 0;
    hook.trace_fd =
        trace ? open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    task_set_wait_hook(pass);
}
