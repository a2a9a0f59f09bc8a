/* A connection to Redis that keeps itself up.
 *
 * A task of its own connects, authenticates, and connects again with jittered backoff.
 * Commands of all tasks share it; hiredis pipelines what one turn of the loop sends. Every
 * command has a deadline: when one passes it, the connection is thrown away and made anew,
 * since a late reply must never be taken for the answer to the next command. A command that
 * was sent and not answered may have run. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "queue/address.h"
#include "queue/call.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

struct connection;
struct loop;

struct connection_options {
    struct address address;
    const char *name;            /* CLIENT SETNAME; lent; NULL: none */
    uint64_t connect_timeout_ms; /* 0: 5,000 */
    uint64_t command_timeout_ms; /* 0: 5,000 */
    /* Told of every change, for the log: up, or down and why. May be NULL. Must not wait.
     */
    void (*on_change)(void *arg, bool is_up, const char *why);
    void *on_change_arg;
};

/* Starts connecting. NULL: out of memory. */
struct connection *connection_new(struct loop *loop,
                                  const struct connection_options *options);

/* Ends it: what is pending is lost, nothing connects again. Waits for its task, then frees.
 * NULL is fine. Must be called from a task. */
SUSPENDS void connection_free(struct connection *connection);

bool connection_is_up(const struct connection *connection);

/* Redis' id of this client, for CLIENT UNBLOCK; 0 while down. */
int64_t connection_client_id(const struct connection *connection);

/* Waits until it is up. 0, -ECANCELED, or -ETIMEDOUT by the task's deadline; -ENOTCONN once
 * it is being freed. */
SUSPENDS NODISCARD int connection_wait_up(struct connection *connection);

/* Sends the call and waits for its answer, which the caller frees (redis_reply_scoped). An
 * error answer of Redis is an answer too (refusal.h).
 *
 * extra_ms is added to the command timeout, for commands that block in the server. Returns
 * 0; -ENOTCONN: not up, not sent; -ECONNRESET: sent, the connection was lost, it may have
 * run; -ECANCELED, -ETIMEDOUT: the task's own, it may run still; -ENOMEM: not sent. */
SUSPENDS NODISCARD int connection_call(struct connection *connection,
                                       const struct call *call, uint64_t extra_ms,
                                       redisReply **ret_reply);

/* Sends the call and drops its answer; does not suspend. Nothing is sent while it is down,
 * or where memory is short. From a task or the loop. */
void connection_post(struct connection *connection, const struct call *call);

/* Throws the present connection away, as if it had broken; the task connects anew. */
void connection_break(struct connection *connection, const char *why);

void redis_reply_cleanup(redisReply **reply);
#define redis_reply_scoped __attribute__((cleanup(redis_reply_cleanup)))
