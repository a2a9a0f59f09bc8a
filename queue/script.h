/* The Lua scripts of queue/lua, called by their digest. */
#pragma once

#include <hiredis/hiredis.h>

#include "queue/call.h"
#include "queue/connection.h"
#include "runtime/attributes.h"

/* script, file without .lua */
#define SCRIPTS(X)                                                                         \
    X(SCRIPT_FINISH, finish)                                                               \
    X(SCRIPT_RENEW, renew)                                                                 \
    X(SCRIPT_REAP, reap)                                                                   \
    X(SCRIPT_DEAD_LETTER, dead_letter)                                                     \
    X(SCRIPT_RELEASE, release)                                                             \
    X(SCRIPT_PROGRESS, progress)                                                           \
    X(SCRIPT_LEAVE, leave)

enum script {
#define SCRIPT_ENUM(script, file) script,
    SCRIPTS(SCRIPT_ENUM)
#undef SCRIPT_ENUM
};

/* Begins a call of the script: EVALSHA, digest, number of keys. The caller adds the keys,
 * then the arguments, and gives the call to script_run. */
void script_begin(struct call *call, enum script script, int key_count,
                  struct arena *arena);

/* As connection_call; where the server does not know the script (restart, failover, SCRIPT
 * FLUSH), the call is sent once more with its text. */
SUSPENDS NODISCARD int script_run(struct connection *connection, enum script script,
                                  struct call *call, redisReply **ret_reply);

/* As connection_post. Sent with its text each time, since nobody is there to hear that the
 * server does not know the digest: for short scripts. */
void script_post(struct connection *connection, enum script script, struct call *call);
