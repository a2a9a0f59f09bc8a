/* What went wrong, as a caller of attachd is told it.
 *
 * An error is a report and a return value: a function that fails fills the caller's struct
 * error and returns a negative number, `return error_set(err, ...)`. No heap is involved,
 * so running out of memory can be reported too. The codes are those of docs/protocol.md.
 *
 * Own an error on the stack, zero it with `struct error err = {0};`. Functions that succeed
 * leave it alone. Return an error or log it, never both. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* code, name on the wire, retryable unless the place that sets it says otherwise */
#define ERROR_CODES(X)                                                                     \
    X(ERROR_NONE, "none", false)                                                           \
    X(ERROR_MALFORMED_JOB, "malformed_job", false)                                         \
    X(ERROR_UNSUPPORTED_VERSION, "unsupported_version", false)                             \
    X(ERROR_UNKNOWN_OPERATION, "unknown_operation", false)                                 \
    X(ERROR_INVALID_ARGUMENT, "invalid_argument", false)                                   \
    X(ERROR_UNKNOWN_PROVIDER, "unknown_provider", false)                                   \
    X(ERROR_CAPABILITY_UNAVAILABLE, "capability_unavailable", false)                       \
    X(ERROR_SANDBOX_NOT_FOUND, "sandbox_not_found", false)                                 \
    X(ERROR_SANDBOX_STOPPED, "sandbox_stopped", false)                                     \
    X(ERROR_UNAUTHORIZED, "unauthorized", false)                                           \
    X(ERROR_RATE_LIMITED, "rate_limited", true)                                            \
    X(ERROR_PROVIDER_UNAVAILABLE, "provider_unavailable", true)                            \
    X(ERROR_TIMEOUT, "timeout", true)                                                      \
    X(ERROR_COMMAND_FAILED, "command_failed", false)                                       \
    X(ERROR_DEPLOY_FAILED, "deploy_failed", false)                                         \
    X(ERROR_OUTCOME_UNKNOWN, "outcome_unknown", false)                                     \
    X(ERROR_DEADLINE_EXCEEDED, "deadline_exceeded", false)                                 \
    X(ERROR_CANCELLED, "cancelled", false)                                                 \
    X(ERROR_ATTEMPTS_EXHAUSTED, "attempts_exhausted", false)                               \
    X(ERROR_CRASH_LOOP, "crash_loop", false)                                               \
    X(ERROR_INTERNAL, "internal", true)                                                    \
    /* Never on the wire: Redis cannot be reached or refuses; the job stays where it is.   \
     */                                                                                    \
    X(ERROR_QUEUE_UNAVAILABLE, "queue_unavailable", true)                                  \
    /* Never on the wire: a setting of this process is wrong. */                           \
    X(ERROR_CONFIGURATION, "configuration", false)

enum error_code {
#define ERROR_ENUM(code, name, retryable) code,
    ERROR_CODES(ERROR_ENUM)
#undef ERROR_ENUM
};

struct error {
    enum error_code code;
    bool retryable;
    bool has_exit_code;
    int32_t exit_code;
    int64_t retry_after_ms; /* 0: nothing said */
    char capability[32];    /* capability_unavailable: which one, in snake case */
    char field[64];         /* the producer's field that is wrong */
    char phase[16];         /* of a deploy */
    const char *remedy;     /* static text: what to do next; may be NULL */
    const char *detail;     /* more of the cause, in the job's arena; may be NULL */
    char message[384];      /* for a person; never holds a secret; always terminated */
};

/* The name on the wire, and back (ERROR_INTERNAL for a name that is none). */
const char *error_code_name(enum error_code code);
enum error_code error_code_from_name(const char *name);

/* Fills err (which may be NULL) with the code and a message that is cut to fit; every other
 * member is reset, and retryable set by the table. Returns -1. */
__attribute__((format(printf, 3, 4))) int error_set(struct error *err, enum error_code code,
                                                    const char *format, ...);

/* As error_set with ERROR_INVALID_ARGUMENT, naming the producer's field. Returns -1. */
__attribute__((format(printf, 3, 4))) int
error_set_field(struct error *err, const char *field, const char *format, ...);

/* Puts "context: " before the message that is there. Returns -1. */
int error_wrap(struct error *err, const char *context);

/* Maps an allocation that failed; `what` names the thing wanted. Returns -1. */
int error_set_memory(struct error *err, const char *what);

/* Maps what a waiting function returned (-ETIMEDOUT, -ECANCELED, ...) while doing `what`.
 * Returns -1. */
int error_set_wait(struct error *err, int wait_result, const char *what);
