/* Running a command: from its options to what is written and the exit status. */
#pragma once

#include <stdbool.h>

#include "ctl/options.h"
#include "runtime/buffer.h"

enum exit_status {
    EXIT_ANSWER_OK = 0,
    EXIT_ANSWER_ERROR = 1,
    EXIT_USAGE = 2, /* the command line, a setting, a file */
    EXIT_NO_ANSWER = 3,
    EXIT_INTERRUPTED = 130, /* as shells count an end by SIGINT */
};

/* To be written by the caller, also after a failure. */
struct run_output {
    struct buffer out;    /* for standard output */
    struct buffer err;    /* for standard error */
    bool is_stuck;        /* the process has to be left with _exit() (session.h) */
    bool out_is_terminal; /* where foreign bytes must not steer it */
    bool err_is_terminal;
    size_t err_columns; /* of the terminal that standard error is; 0: not known, or none */
    /* Writes what both hold and empties them, for what is not to wait for the end. NULL:
     * all of it does. Negative errno where it cannot be written. */
    int (*flush)(struct run_output *output);
};

void run_output_init(struct run_output *output);
void run_output_done(struct run_output *output);

/* Runs the command line (words beside the program's name). */
enum exit_status run_line(int count, const char *const *words,
                          const char *(*get)(const char *variable),
                          struct run_output *output);
