/* The state of an execution: the grammar of the status file, and the judgement that weighs
 * it against the process that should be there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/attributes.h"

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
    const char *reason;   /* unknown, lost: see below */
    const char *provider_state; /* provider_unavailable */
};

const char *status_state_name(enum status_state state);
bool status_is_terminal(const struct status *status);

/* Why an execution is unknown:
 *   absent         there is no record: no directory, or no status file in it
 *   unreadable     there is one that cannot be read or is no status (empty after a full
 *                  disk, no regular file, not to be entered by the sandbox's user)
 *   foreign        it is another execution's
 *   stale_process  no usable record, and the pid file names a process of another identity
 * Why it is lost, although the record says starting or running:
 *   no_process     the pid file's process does not exist
 *   zombie         it has ended and nothing reaps it
 *   pid_reused     that pid is another process now
 *   rebooted       it looks like that process, but the machine was started anew since
 *   no_pid         running, and no pid file
 *   invalid_pid    the pid file holds no pid
 *   no_launcher    starting, no pid file, and no launcher that could write one */

/* What the attach program saw, raw: texts as they stand in the files. */
struct observation {
    bool directory_exists;   /* the execution's own directory, or something in its place */
    bool status_exists;      /* something of that name */
    bool status_readable;    /* a regular file that could be read and was not too long */
    const char *status_text; /* the whole status file, lines joined by LF; NULL: not read */
    bool pid_file_exists;
    const char *pid_text;         /* first line of pid; NULL: none */
    const char *token_text;       /* first line of pid-start; NULL: no file */
    bool has_proc;                /* the sandbox has a usable /proc */
    const char *claimed_boot;     /* the boot it was launched in; NULL: not recorded */
    const char *boot;             /* this boot; NULL: not known */
    char process_state;           /* field 3 of /proc/PID/stat; 0: no such process */
    const char *start_time;       /* field 22, split after the last ')' */
    const char *blank_start_time; /* field 22, split at blanks as awk does */
    bool signalable;              /* kill -0 said yes */
    bool launcher_alive;          /* a process whose command line ends in this launch.sh */
    bool launcher_looked_for;
};

/* Parses a status file's text for that execution. Texts go to the arena. Gives a status
 * unless memory runs out (-1): what is no status of that execution is unknown, with the
 * reason. Numbers are strict: decimal digits, exit codes 0 to 255. Blanks and line ends
 * around the text do not matter; a second line makes it unreadable; fields beyond the
 * grammar's are ignored. */
NODISCARD int status_parse(const char *text, const char *execution_id, struct arena *arena,
                           struct status *ret_status);

/* Weighs the record against the process. A live process of the recorded identity beats the
 * file, also a terminal record. Identity holds where the token equals either reading of the
 * start time and no other boot is recorded; what is not recorded cannot be checked, and a
 * live process counts. Without a live process, starting and running stand only while the
 * launcher lives, or where nothing can be known (starting, no pid file, no /proc to look
 * for the launcher in). Returns as status_parse. */
NODISCARD int status_judge(const struct observation *observation, const char *execution_id,
                           struct arena *arena, struct status *ret_status);
