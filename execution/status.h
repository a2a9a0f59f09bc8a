/* The state of an execution: the grammar of the status file, and the judgement that weighs
 * it against the process that should be there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

/* state, name on the wire, whether nothing more will come */
#define STATUS_STATES(X)                                                                   \
    X(STATUS_UNKNOWN, "unknown", false)                                                    \
    X(STATUS_STARTING, "starting", false)                                                  \
    X(STATUS_RUNNING, "running", false)                                                    \
    X(STATUS_EXITED, "exited", true)                                                       \
    X(STATUS_RESOURCE_EXHAUSTED, "resource_exhausted", true)                               \
    X(STATUS_CANCELLED, "cancelled", true)                                                 \
    X(STATUS_TIMED_OUT, "timed_out", true)                                                 \
    X(STATUS_FAILED, "failed", true)                                                       \
    X(STATUS_LOST, "lost", true)                                                           \
    X(STATUS_PROVIDER_UNAVAILABLE, "provider_unavailable", false)

enum status_state {
#define STATUS_ENUM(state, name, terminal) state,
    STATUS_STATES(STATUS_ENUM)
#undef STATUS_ENUM
};

/* Texts are static or in the arena; NULL: the state has no such field. */
struct status {
    enum status_state state;
    bool has_exit_code;
    int exit_code;        /* exited */
    const char *signal;   /* exited, resource_exhausted: SIGTERM; cancelled: as recorded */
    const char *resource; /* resource_exhausted: cpu, file_size */
    int64_t limit;        /* resource_exhausted */
    const char *phase;    /* timed_out, failed */
    const char *message;  /* failed, provider_unavailable */
    const char *reason;   /* unknown: absent, unreadable, foreign, stale_process; lost */
    const char *provider_state; /* provider_unavailable */
};

const char *status_state_name(enum status_state state);
bool status_is_terminal(const struct status *status);

/* What the attach program saw, raw: texts as they stand in the files. */
struct observation {
    bool directory_exists;   /* the execution's own directory */
    bool status_readable;    /* a regular file that could be read and was not too long */
    const char *status_text; /* the whole status file, lines joined by LF; NULL: no file */
    bool pid_file_exists;
    const char *pid_text;         /* first line of pid; NULL: none */
    const char *token_text;       /* first line of pid-start; NULL: no file */
    bool has_proc;                /* the sandbox has a usable /proc */
    char process_state;           /* field 3 of /proc/PID/stat; 0: no such process */
    const char *start_time;       /* field 22, split after the last ')' */
    const char *blank_start_time; /* field 22, split at blanks as awk does */
    bool signalable;              /* kill -0 said yes */
    bool launcher_alive;          /* a process whose command line ends in this launch.sh */
    bool launcher_looked_for;
};

/* Parses a status file's text for that execution. Texts go to the arena. Always gives a
 * status; what is no status of that execution is unknown, with the reason. */
void status_parse(const char *text, const char *execution_id, struct arena *arena,
                  struct status *ret_status);

/* Weighs the record against the process. */
void status_judge(const struct observation *observation, const char *execution_id,
                  struct arena *arena, struct status *ret_status);
