/* attachctl: runs a command, writes what it gave, ends with its status. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl/run.h"

static const char *from_environment(const char *variable)
{
    return getenv(variable);
}

/* All of it. 0, or -errno. */
static int write_all(int fd, const struct buffer *buffer)
{
    for (size_t at = 0; at < buffer->size;) {
        ssize_t bytes = write(fd, buffer->data + at, buffer->size - at);
        if (bytes < 0 && errno != EINTR)
            return -errno;
        at += bytes > 0 ? (size_t)bytes : 0;
    }
    return 0;
}

static int flush(struct run_output *output)
{
    int failed = write_all(STDOUT_FILENO, &output->out);
    (void)write_all(STDERR_FILENO, &output->err);
    buffer_clear(&output->out);
    buffer_clear(&output->err);
    return failed;
}

/* 0: it is no terminal, or one that does not say. */
static size_t columns_of(int fd)
{
    struct winsize size;
    return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Shells and make see by the signal that the whole line is to end. */
static void end_by_interrupt(void)
{
    (void)signal(SIGINT, SIG_DFL);
    (void)raise(SIGINT);
}

int main(int argc, char **argv)
{
    struct run_output output;
    /* A connection or a reader of ours that has gone is an error code, not our end. */
    (void)signal(SIGPIPE, SIG_IGN);
    run_output_init(&output);
    output.out_is_terminal = isatty(STDOUT_FILENO);
    output.err_is_terminal = isatty(STDERR_FILENO);
    output.err_columns = columns_of(STDERR_FILENO);
    output.flush = flush;
    int words = argc > 0 ? argc - 1 : 0;
    enum exit_status status =
        run_line(words, (const char *const *)argv + (argc > 0), from_environment, &output);
    int failed = flush(&output);
    if (status == EXIT_INTERRUPTED)
        end_by_interrupt();
    /* A reader that has seen enough (head) is fine; a full disk is not. */
    if (failed && failed != -EPIPE) {
        (void)fprintf(stderr, "attachctl: cannot write the output: %s\n",
                      strerror(-failed));
        status = EXIT_USAGE;
    }
    bool is_stuck = output.is_stuck;
    run_output_done(&output);
    if (is_stuck)
        _exit((int)status);
    return (int)status;
}
