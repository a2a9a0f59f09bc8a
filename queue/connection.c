/* hiredis' async interface under tasks.
 *
 * Who frees what: replies are ours (REDIS_OPT_NOAUTOFREEREPLIES), handed to the waiting
 * task, or freed here when nobody waits any more. The async context frees itself after it
 * has told of its end; `context` is NULL from that moment on. */
#include "queue/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <hiredis/async.h>
#include <hiredis/adapters/libuv.h>

#include "queue/refusal.h"
#include "runtime/deadline.h"
#include "runtime/event.h"
#include "runtime/loop.h"
#include "runtime/random.h"
#include "runtime/task.h"

enum {
    HANDSHAKE_BYTES = 16384, /* of arguments */
    DEFAULT_TIMEOUT_MS = 5000,
    PROGRESS_MS = 1000,
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MOST_MS = 2000
};
enum {
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_EVERY_S = 5,
    KEEPALIVE_TRIES = 3,
    USER_TIMEOUT_MS = 20000
};

/* One command under way: on the heap, since it outlives a task that stops waiting. */
struct command {
    struct command *next;
    struct connection *connection;
    const struct call *call;
    uint64_t timeout_ms;
    struct task *task; /* NULL: nobody waits any more */
    redisReply *reply;
    bool done;
    bool lost;
    uint64_t due_at_ms;
};

struct connection {
    struct loop *loop;
    struct connection_options options;
    redisAsyncContext *context;
    bool is_connected; /* hiredis said so; the handshake is still to come */
    bool is_up;
    bool is_wrong_node; /* an answer said so: to be thrown away */
    bool closing;
    bool ended;           /* its task has returned */
    struct task *manager; /* NULL once ended */
    struct event changed;
    struct command *first; /* sent, in the order their answers will come */
    struct command *last;
    uv_timer_t *watchdog;
    uint64_t watchdog_due_ms;
    const struct command *suspect; /* was late at the last look; only ever compared */
    size_t suspect_received;       /* bytes of its answer that had come in by then */
    int64_t client_id;
    char why[160]; /* why it went down last */
    char ip[64];   /* what the host resolved to */
};

void redis_reply_cleanup(redisReply **reply)
{
    if (*reply)
        freeReplyObject(*reply);
}

bool connection_is_up(const struct connection *connection)
{
    return connection->is_up;
}

int64_t connection_client_id(const struct connection *connection)
{
    return connection->is_up ? connection->client_id : 0;
}

static void tell(const struct connection *connection, bool is_up)
{
    const struct connection_options *options = &connection->options;
    if (options->on_change && !connection->closing)
        options->on_change(options->on_change_arg, is_up, connection->why);
}

static void set_up(struct connection *connection, bool is_up)
{
    if (connection->is_up == is_up)
        return;
    connection->is_up = is_up;
    tell(connection, is_up);
    event_broadcast(&connection->changed);
}

/* ---- commands ---- */

static void on_watchdog(uv_timer_t *timer);

/* The timer runs for the command that is due first and is left alone when that one is
 * answered: most never fire, and moving it for each command would cost more than it tells.
 */
static void arm_watchdog(struct connection *connection)
{
    uint64_t now_ms = loop_now_ms(connection->loop);
    if (!connection->watchdog || !connection->first)
        return;
    uint64_t due_ms = connection->first->due_at_ms;
    if (uv_is_active((const uv_handle_t *)connection->watchdog) &&
        connection->watchdog_due_ms <= due_ms)
        return;
    connection->watchdog_due_ms = due_ms;
    (void)uv_timer_start(connection->watchdog, on_watchdog,
                         due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

static void on_watchdog(uv_timer_t *timer)
{
    struct connection *connection = timer->data;
    if (connection->is_wrong_node) {
        connection->is_wrong_node = false;
        connection_break(connection, "the server is no master any more");
        return;
    }
    if (!connection->first)
        return;
    size_t received = connection->context ? connection->context->c.reader->len : 0;
    if (connection->first->due_at_ms > loop_now_ms(connection->loop)) {
        arm_watchdog(connection);
    } else if (connection->suspect == connection->first &&
               connection->suspect_received == received) {
        connection_break(connection, "a command got no answer in time");
    } else {
        /* If this process stood still, the answer may lie in the socket: one more turn. And
         * a large answer may still be coming in: as long as it does, it is waited for. */
        uint64_t again_ms = connection->suspect == connection->first ? PROGRESS_MS : 1;
        connection->suspect = connection->first;
        connection->suspect_received = received;
        (void)uv_timer_start(timer, on_watchdog, again_ms, 0);
    }
}

static void command_done(struct command *command, redisReply *reply)
{
    command->done = true;
    command->lost = !reply;
    command->reply = reply;
    if (command->task) {
        task_wake(command->task);
        return;
    }
    if (reply)
        freeReplyObject(reply);
    free(command);
}

/* Answers come in the order of the commands, so the first one is meant. */
static void on_reply(redisAsyncContext *context, void *answer, void *privdata)
{
    struct command *command = privdata;
    struct connection *connection = command->connection;
    (void)context;
    assert(connection->first == command);
    connection->first = command->next;
    connection->suspect = NULL;
    if (!connection->first)
        connection->last = NULL;
    if (refusal_of(answer) == REFUSAL_WRONG_NODE) {
        /* Not from inside this callback: the watchdog does it in the next turn. */
        connection->is_wrong_node = true;
        (void)uv_timer_start(connection->watchdog, on_watchdog, 0, 0);
    } else {
        arm_watchdog(connection);
    }
    command_done(command, answer);
}

static void send_command(void *arg)
{
    struct command *command = arg;
    struct connection *connection = command->connection;
    const struct call *call = command->call;
    int failed = REDIS_ERR;
    command->due_at_ms = loop_now_ms(connection->loop) + command->timeout_ms;
    if (connection->context)
        failed = redisAsyncCommandArgv(connection->context, on_reply, command, call->count,
                                       call->arguments, call->sizes);
    if (failed != REDIS_OK) {
        command_done(command, NULL);
        return;
    }
    if (connection->last)
        connection->last->next = command;
    else
        connection->first = command;
    connection->last = command;
    if (connection->first == command)
        arm_watchdog(connection);
}

/* Sends on whatever context there is, up or still shaking hands. */
SUSPENDS static int call_now(struct connection *connection, const struct call *call,
                             uint64_t extra_ms, redisReply **ret_reply)
{
    if (call->failed)
        return call->failed;
    struct command *command = calloc(1, sizeof(*command));
    if (!command)
        return -ENOMEM;
    *command = (struct command){
        .connection = connection,
        .call = call,
        .timeout_ms = connection->options.command_timeout_ms + extra_ms,
        .task = task_self(),
    };
    int result = task_await("redis", send_command, command);
    if (!command->done && !command->due_at_ms) {
        free(command); /* it was never sent */
        return result;
    }
    if (!command->done) {
        command->task = NULL; /* its answer will be dropped */
        command->call = NULL;
        return result;
    }
    if (command->lost) {
        free(command);
        return -ECONNRESET;
    }
    *ret_reply = command->reply;
    free(command);
    return 0;
}

int connection_wait_up(struct connection *connection)
{
    while (!connection->is_up) {
        if (connection->closing)
            return -ENOTCONN;
        int result = event_wait(&connection->changed, "redis connection");
        if (result)
            return result;
    }
    return 0;
}

int connection_call(struct connection *connection, const struct call *call,
                    uint64_t extra_ms, redisReply **ret_reply)
{
    if (!connection->is_up || !connection->context)
        return -ENOTCONN;
    return call_now(connection, call, extra_ms, ret_reply);
}

void connection_post(struct connection *connection, const struct call *call)
{
    if (!connection->is_up || !connection->context || call->failed)
        return;
    struct command *command = calloc(1, sizeof(*command));
    if (!command)
        return;
    *command = (struct command){
        .connection = connection,
        .call = call,
        .timeout_ms = connection->options.command_timeout_ms,
    };
    task_on_loop(send_command, command); /* which hiredis copies the call in */
}

struct breaking {
    struct connection *connection;
    const char *why;
};

static void break_on_loop(void *arg)
{
    struct breaking *breaking = arg;
    struct connection *connection = breaking->connection;
    redisAsyncContext *context = connection->context;
    if (!context) {
        set_up(connection, false);
        return;
    }
    if (breaking->why != connection->why)
        (void)snprintf(connection->why, sizeof(connection->why), "%s", breaking->why);
    connection->context = NULL;
    redisAsyncFree(context);
    set_up(connection, false);
    event_broadcast(&connection->changed);
}

void connection_break(struct connection *connection, const char *why)
{
    struct breaking breaking = {.connection = connection, .why = why};
    task_on_loop(break_on_loop, &breaking);
}

/* ---- connecting ---- */

static void on_connect(const redisAsyncContext *context, int status)
{
    struct connection *connection = context->data;
    if (connection->context != context)
        return;
    if (status != REDIS_OK) {
        /* hiredis frees the context when this returns, and says nothing more. */
        (void)snprintf(connection->why, sizeof(connection->why), "%s", context->errstr);
        connection->context = NULL;
    } else {
        connection->is_connected = true;
    }
    event_broadcast(&connection->changed);
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct connection *connection = context->data;
    if (connection->context != context)
        return;
    (void)snprintf(connection->why, sizeof(connection->why), "%s",
                   status == REDIS_OK ? "closed" : context->errstr);
    connection->context = NULL;
    set_up(connection, false);
    event_broadcast(&connection->changed);
}

/* hiredis leaves the descriptor inheritable and without keepalive of ours. */
static void set_socket_options(int fd, bool is_unix)
{
    const int on = 1;
    const int idle = KEEPALIVE_IDLE_S;
    const int every = KEEPALIVE_EVERY_S;
    const int tries = KEEPALIVE_TRIES;
    const unsigned user_timeout_ms = USER_TIMEOUT_MS;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (is_unix)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms,
                     sizeof(user_timeout_ms));
}

static void open_context(void *arg)
{
    struct connection *connection = arg;
    const struct address *address = &connection->options.address;
    redisOptions options = {.options = REDIS_OPT_NOAUTOFREEREPLIES};
    connection->is_connected = false;
    if (address->is_unix)
        REDIS_OPTIONS_SET_UNIX(&options, address->path);
    else
        REDIS_OPTIONS_SET_TCP(&options, connection->ip, address->port);
    redisAsyncContext *context = redisAsyncConnectWithOptions(&options);
    if (!context || context->err) {
        (void)snprintf(connection->why, sizeof(connection->why), "%s",
                       context ? context->errstr : "out of memory");
        if (context)
            redisAsyncFree(context);
        return;
    }
    set_socket_options(context->c.fd, address->is_unix);
    context->data = connection;
    if (redisLibuvAttach(context, &connection->loop->uv) != REDIS_OK) {
        (void)snprintf(connection->why, sizeof(connection->why), "out of memory");
        redisAsyncFree(context);
        return;
    }
    connection->context = context;
    (void)redisAsyncSetConnectCallback(context, on_connect);
    (void)redisAsyncSetDisconnectCallback(context, on_disconnect);
}

struct lookup {
    uv_getaddrinfo_t request;
    struct task *task; /* NULL: nobody waits any more */
    struct connection *connection;
    int status;
    char ip[64];
};

static void on_looked_up(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct lookup *lookup = request->data;
    lookup->status = status;
    if (status == 0)
        (void)getnameinfo(found->ai_addr, found->ai_addrlen, lookup->ip, sizeof(lookup->ip),
                          NULL, 0, NI_NUMERICHOST);
    uv_freeaddrinfo(found);
    if (lookup->task)
        task_wake(lookup->task);
    else
        free(lookup);
}

static void begin_lookup(void *arg)
{
    struct lookup *lookup = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int failed =
        uv_getaddrinfo(&lookup->connection->loop->uv, &lookup->request, on_looked_up,
                       lookup->connection->options.address.host, NULL, &hints);
    lookup->request.data = lookup;
    if (failed) {
        lookup->status = failed;
        task_wake(lookup->task);
    }
}

/* hiredis would resolve names on the loop's thread, and wait. */
SUSPENDS static int resolve(struct connection *connection)
{
    if (connection->options.address.is_unix)
        return 0;
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    if (!lookup)
        return -ENOMEM;
    *lookup = (struct lookup){.task = task_self(), .connection = connection, .status = 1};
    int result = task_await("redis host lookup", begin_lookup, lookup);
    if (lookup->status == 1 && result != 0 && lookup->request.data) {
        lookup->task = NULL;
        (void)snprintf(connection->why, sizeof(connection->why),
                       "host lookup took too long");
        return result;
    }
    if (lookup->status == 0)
        (void)snprintf(connection->ip, sizeof(connection->ip), "%s", lookup->ip);
    else
        (void)snprintf(connection->why, sizeof(connection->why), "host not found: %s",
                       lookup->status < 0 ? uv_strerror(lookup->status) : "not looked up");
    int failed = lookup->status == 0 ? 0 : -ENOTCONN;
    free(lookup);
    return failed;
}

/* One command of the handshake; anything but an error answer will do. Redis repeats
 * arguments in some errors: of the first word alone no secret is to be feared. */
SUSPENDS static int handshake_call(struct connection *connection, const struct call *call,
                                   redisReply **ret_reply)
{
    redis_reply_scoped redisReply *reply = NULL;
    int result = call_now(connection, call, 0, &reply);
    if (result || !reply)
        return result ? result : -EPROTO;
    if (reply->type == REDIS_REPLY_ERROR) {
        (void)snprintf(connection->why, sizeof(connection->why), "%s: %.*s",
                       call->arguments[0], (int)strcspn(reply->str, " "), reply->str);
        return -EACCES;
    }
    if (ret_reply) {
        *ret_reply = reply;
        reply = NULL;
    }
    return 0;
}

/* A replica takes no writes. Who may not ask (ACL) finds out by the first one. */
SUSPENDS static int check_role(struct connection *connection, struct arena *arena)
{
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    call_init(&call, arena, 1);
    call_add_text(&call, "ROLE");
    int result = handshake_call(connection, &call, &reply);
    if (result)
        return result == -EACCES ? 0 : result;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, "master") == 0)
        return 0;
    (void)snprintf(connection->why, sizeof(connection->why), "the server is a %.16s",
                   reply->element[0]->str);
    return -EACCES;
}

SUSPENDS static int ask_id(struct connection *connection, struct arena *arena)
{
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    call_init(&call, arena, 2);
    call_add_text(&call, "CLIENT");
    call_add_text(&call, "ID");
    int result = handshake_call(connection, &call, &reply);
    if (result == 0 && reply->type == REDIS_REPLY_INTEGER)
        connection->client_id = reply->integer;
    return result;
}

SUSPENDS static int shake_hands(struct connection *connection, struct arena *arena)
{
    const struct connection_options *options = &connection->options;
    struct call call;
    int result = 0;
    if (options->address.password[0]) {
        call_init(&call, arena, 4);
        call_add_text(&call, "AUTH");
        if (options->address.user[0])
            call_add_text(&call, options->address.user);
        call_add_text(&call, options->address.password);
        result = handshake_call(connection, &call, NULL);
    }
    if (result == 0 && options->address.db != 0) {
        call_init(&call, arena, 4);
        call_add_text(&call, "SELECT");
        call_add_int(&call, options->address.db);
        result = handshake_call(connection, &call, NULL);
    }
    if (result == 0 && options->name) {
        call_init(&call, arena, 4);
        call_add_text(&call, "CLIENT");
        call_add_text(&call, "SETNAME");
        call_add_text(&call, options->name);
        result = handshake_call(connection, &call, NULL);
    }
    if (result == 0)
        result = check_role(connection, arena);
    if (result == 0)
        result = ask_id(connection, arena);
    return result;
}

SUSPENDS static int connect_once(struct connection *connection)
{
    arena_scoped struct arena *arena = arena_new(HANDSHAKE_BYTES);
    if (!arena)
        return -ENOMEM;
    int result = resolve(connection);
    if (result)
        return result;
    task_on_loop(open_context, connection);
    while (connection->context && !connection->is_connected && !connection->closing) {
        result = event_wait(&connection->changed, "redis connect");
        if (result) {
            if (result == -ETIMEDOUT)
                connection_break(connection, "connecting took too long");
            return result;
        }
    }
    if (!connection->context || connection->closing)
        return -ENOTCONN;
    return shake_hands(connection, arena);
}

/* Connects and stays until the connection ends. Whether it was up at all. */
SUSPENDS static bool connect_and_stay(struct connection *connection)
{
    struct deadline deadline;
    connection->why[0] = '\0';
    deadline_enter(&deadline, connection->options.connect_timeout_ms);
    int result = connect_once(connection);
    deadline_leave(&deadline);
    if (result == 0 && !connection->context)
        result = -ENOTCONN; /* it ended before this task had its turn */
    if (result) {
        if (!connection->why[0])
            (void)snprintf(connection->why, sizeof(connection->why),
                           "no answer to the handshake in time");
        tell(connection, false);
        connection_break(connection, connection->why);
        return false;
    }
    set_up(connection, true);
    while (connection->context && !connection->closing)
        if (event_wait(&connection->changed, "redis is up") != 0)
            break;
    return true;
}

/* The connection's task: connect, stay, back off, again. */
static void keep_up(void *arg)
{
    struct connection *connection = arg;
    uint64_t backoff_ms = BACKOFF_FIRST_MS;
    connection->manager = task_self();
    while (!connection->closing) {
        if (connect_and_stay(connection))
            backoff_ms = BACKOFF_FIRST_MS;
        if (connection->closing || task_sleep(random_spread_ms(backoff_ms)) != 0)
            break;
        backoff_ms = backoff_ms * 2 > BACKOFF_MOST_MS ? BACKOFF_MOST_MS : backoff_ms * 2;
    }
    connection_break(connection, "closed");
    connection->manager = NULL;
    connection->ended = true;
    event_broadcast(&connection->changed);
}

struct connection *connection_new(struct loop *loop,
                                  const struct connection_options *options)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    uv_timer_t *watchdog = calloc(1, sizeof(*watchdog));
    if (!connection || !watchdog)
        goto failed;
    *connection =
        (struct connection){.loop = loop, .options = *options, .watchdog = watchdog};
    if (connection->options.connect_timeout_ms == 0)
        connection->options.connect_timeout_ms = DEFAULT_TIMEOUT_MS;
    if (connection->options.command_timeout_ms == 0)
        connection->options.command_timeout_ms = DEFAULT_TIMEOUT_MS;
    if (task_start(loop, "redis connection", keep_up, connection) != 0)
        goto failed;
    (void)uv_timer_init(&loop->uv, watchdog);
    watchdog->data = connection;
    return connection;
failed:
    free(connection);
    free(watchdog);
    return NULL;
}

static void on_watchdog_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_watchdog(void *arg)
{
    struct connection *connection = arg;
    uv_close((uv_handle_t *)connection->watchdog, on_watchdog_closed);
    connection->watchdog = NULL;
}

void connection_free(struct connection *connection)
{
    if (!connection)
        return;
    struct deadline shield;
    connection->closing = true;
    if (connection->manager)
        task_cancel(connection->manager);
    event_broadcast(&connection->changed);
    deadline_enter_shielded(&shield, UINT64_MAX);
    while (!connection->ended)
        if (event_wait(&connection->changed, "redis connection's end") != 0)
            break;
    deadline_leave(&shield);
    task_on_loop(close_watchdog, connection);
    free(connection);
}
