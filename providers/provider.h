/* Providers and the sandboxes they give handles to.
 *
 * A provider is a table of functions for one kind of sandbox; a sandbox is a handle that
 * one of them has opened. Everything else in attachd calls the sandbox_ functions below:
 * they are the one dispatcher that turns a missing member into the typed capability error,
 * checks what holds for every provider, and counts the commands sent.
 *
 * Attach connects, it never creates: there is no create member, and wake never makes a new
 * machine. Opening does no I/O; looking, waking and executing are separate, since for some
 * providers looking boots a machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/task.h"

struct profile; /* profile.h: a provider as this worker's configuration sets it up */
struct sandbox;
struct loop;

/* capability, its name in replies and errors. What a sandbox can be asked for. */
#define CAPABILITIES(X)                                                                    \
    X(CAPABILITY_EXECUTE_COMMAND, "execute_command")                                       \
    X(CAPABILITY_PROBE, "probe")                                                           \
    X(CAPABILITY_WRITE_FILE, "write_file")                                                 \
    X(CAPABILITY_WAKE, "wake")                                                             \
    X(CAPABILITY_STOP, "stop")                                                             \
    X(CAPABILITY_DESTROY, "destroy")                                                       \
    X(CAPABILITY_PORT_URL, "port_url")                                                     \
    X(CAPABILITY_BACKGROUND_PROCESSES, "background_processes")

enum capability {
#define CAPABILITY_ENUM(capability, name) capability,
    CAPABILITIES(CAPABILITY_ENUM)
#undef CAPABILITY_ENUM
        CAPABILITY_COUNT
};

const char *capability_name(enum capability capability);

/* Static facts about a kind of sandbox; a handle starts with its provider's and may narrow
 * them when it is opened. */
enum provider_trait {
    TRAIT_PROBE_WAKES = 1 << 0,    /* looking at it boots or resumes it */
    TRAIT_EXEC_WAKES = 1 << 1,     /* executing does */
    TRAIT_BINARY_SAFE = 1 << 2,    /* output arrives byte for byte; else use base64 */
    TRAIT_NATIVE_CWD = 1 << 3,     /* exec_request.cwd is obeyed by the provider */
    TRAIT_NATIVE_ENV = 1 << 4,     /* exec_request.env is obeyed by the provider */
    TRAIT_SERVER_TIMEOUT = 1 << 5, /* a timeout ends the command, not just our waiting */
    TRAIT_BACKGROUND = 1 << 6,     /* what a command leaves running outlives it */
    TRAIT_RUNS_ON_HOST = 1 << 7,   /* commands run on the worker's own host */
};

struct provider_limits {
    size_t max_script_bytes; /* longest exec_request.script */
    size_t max_file_bytes;   /* largest write_file */
};

/* The names in a job, checked by its reader; values are NUL-terminated UTF-8. */
struct descriptor_key {
    const char *name;
    const char *value;
};

struct descriptor {
    const char *provider; /* as the job gave it */
    const char *sandbox_id;
    const struct descriptor_key *keys; /* the provider's own keys beyond those two */
    size_t key_count;
};

/* Bytes to be written into a sandbox, read piece by piece as they are sent, so that a large
 * file never stands in memory. read gives exactly `bytes` bytes from `offset` on, which lie
 * within the source's own `bytes`, as a pread that is never short; it returns 0 or -errno.
 * It is called from the loop's thread pool, one call at a time, and must not wait for the
 * loop. */
struct file_source {
    uint64_t bytes;
    int (*read)(void *arg, uint64_t offset, void *buffer, size_t bytes);
    void *arg;
};

/* One command: `sh -c script`, standard input closed or empty. */
struct exec_request {
    const char *script;
    const char *cwd;           /* NULL: the sandbox's default */
    const char *const *env;    /* "NAME=value", NULL-ended; NULL: none */
    uint64_t timeout_ms;       /* then TERM, grace, KILL; 0: only the task's deadline */
    size_t output_limit_bytes; /* of each stream: the tail is kept, the rest counted */
    const char *request_id;    /* the same for every attempt of one job */
};

enum exec_end {
    EXEC_EXITED,   /* exit_code stands */
    EXEC_SIGNALED, /* signal stands */
    EXEC_TIMED_OUT /* ended by us, at timeout_ms */
};

struct exec_output {
    const char *data; /* in the arena given, followed by a NUL */
    size_t size;
    uint64_t dropped_bytes; /* from the front, past output_limit_bytes */
};

/* How a command that ran ended. A command that could not be started, or whose end could not
 * be learnt (outcome_unknown), is an error instead: end of stream is never success. */
struct exec_result {
    enum exec_end end;
    int exit_code;
    int signal;
    struct exec_output out;
    struct exec_output err;
};

/* state, name. What the provider says of the machine, not of what runs in it. */
#define SANDBOX_STATES(X)                                                                  \
    X(SANDBOX_UNKNOWN, "unknown")                                                          \
    X(SANDBOX_STARTING, "starting")                                                        \
    X(SANDBOX_RUNNING, "running")                                                          \
    X(SANDBOX_STOPPING, "stopping")                                                        \
    X(SANDBOX_STOPPED, "stopped")                                                          \
    X(SANDBOX_DESTROYING, "destroying")                                                    \
    X(SANDBOX_DESTROYED, "destroyed")                                                      \
    X(SANDBOX_FAILED, "error")

enum sandbox_state {
#define SANDBOX_STATE_ENUM(state, name) state,
    SANDBOX_STATES(SANDBOX_STATE_ENUM)
#undef SANDBOX_STATE_ENUM
};

const char *sandbox_state_name(enum sandbox_state state);

struct sandbox_info {
    enum sandbox_state state;
    int64_t expires_at_ms;   /* Unix time; -1: none or not known */
    const char *provider_id; /* the provider's own id, in the arena */
};

/* One kind of sandbox. open and close are mandatory; any other member may be NULL, which
 * means that the capability is missing. Members are called through the dispatcher only.
 * Those that talk to somebody suspend, allocate results in the arena, and obey the task's
 * cancel and deadline. */
struct provider {
    const char *name;
    const char *summary; /* one line for people */
    unsigned traits;     /* enum provider_trait */
    struct provider_limits limits;
    const char *const
        *descriptor_keys; /* NULL-ended: keys a job may set beside id; may be NULL */

    /* The settings a profile may have, NULL-ended; one that ends in a dot takes any name
     * after it. NULL: none. */
    const char *const *settings;
    /* Checks the settings of a profile when the configuration is read; -1 with
     * ERROR_CONFIGURATION. NULL: there is nothing to check. */
    int (*check_profile)(const struct profile *profile, struct error *err);
    /* Checks the descriptor and makes a handle; no I/O. The handle lives in the arena and
     * begins with struct sandbox, whose members the dispatcher fills after open returns. */
    int (*open)(const struct descriptor *descriptor, const struct profile *profile,
                struct arena *arena, struct sandbox **ret_sandbox, struct error *err);
    /* Frees what is not in the arena. */
    void (*close)(struct sandbox *sandbox);
    SUSPENDS int (*probe)(struct sandbox *sandbox, struct arena *arena,
                          struct sandbox_info *ret_info, struct error *err);
    SUSPENDS int (*exec)(struct sandbox *sandbox, const struct exec_request *request,
                         struct arena *arena, struct exec_result *ret_result,
                         struct error *err);
    SUSPENDS int (*write_file)(struct sandbox *sandbox, const char *path, unsigned mode,
                               const void *data, size_t bytes, struct error *err);
    SUSPENDS int (*wake)(struct sandbox *sandbox, struct error *err);
    SUSPENDS int (*stop)(struct sandbox *sandbox, struct error *err);
    SUSPENDS int (*destroy)(struct sandbox *sandbox, struct error *err);
    SUSPENDS int (*port_url)(struct sandbox *sandbox, int port, struct arena *arena,
                             const char **ret_url, struct error *err);
    /* Refuses a directory that a job names and that lies outside the sandbox, where the
     * provider's commands could reach it (TRAIT_RUNS_ON_HOST). NULL: the sandbox confines
     * by itself. Local and quick. */
    int (*check_directory)(struct sandbox *sandbox, const char *path, struct error *err);
};

/* A handle. Providers put this first in a struct of their own. */
struct sandbox {
    const struct provider *provider;
    const struct profile *profile;
    const char *provider_name; /* as the job gave it */
    const char *id;            /* the provider's own sandbox identity */
    unsigned traits;
    unsigned missing_traits; /* set by open: what this one lacks of its provider's traits */
    uint32_t exec_count;     /* commands sent so far */
};

/* Opens a handle from the descriptor and the profile it names. The handle and all it points
 * to live in the arena; sandbox_close frees the rest. Errors: invalid_argument. */
int sandbox_open(const struct descriptor *descriptor, const struct profile *profile,
                 struct arena *arena, struct sandbox **ret_sandbox, struct error *err);
/* NULL is fine. */
void sandbox_close(struct sandbox *sandbox);

bool sandbox_can(const struct sandbox *sandbox, enum capability capability);
bool provider_can(const struct provider *provider, enum capability capability);

/* 0, or capability_unavailable with capability, message and remedy filled. For
 * execute_command the message is the one callers match on:
 *   Sandbox provider "NAME" does not support executeCommand, which is required for worker
 *   deploys. */
int sandbox_require(const struct sandbox *sandbox, enum capability capability,
                    struct error *err);

/* The same of a kind of sandbox, before any is opened. */
int provider_require(const struct provider *provider, enum capability capability,
                     struct error *err);

/* The dispatcher. Each suspends, and returns 0 or -1 with err filled. */
SUSPENDS int sandbox_probe(struct sandbox *sandbox, struct arena *arena,
                           struct sandbox_info *ret_info, struct error *err);
SUSPENDS int sandbox_exec(struct sandbox *sandbox, const struct exec_request *request,
                          struct arena *arena, struct exec_result *ret_result,
                          struct error *err);
SUSPENDS int sandbox_write_file(struct sandbox *sandbox, const char *path, unsigned mode,
                                const void *data, size_t bytes, struct error *err);
SUSPENDS int sandbox_wake(struct sandbox *sandbox, struct error *err);
SUSPENDS int sandbox_stop(struct sandbox *sandbox, struct error *err);
SUSPENDS int sandbox_destroy(struct sandbox *sandbox, struct error *err);
int sandbox_check_directory(struct sandbox *sandbox, const char *path, struct error *err);
