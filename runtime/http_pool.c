/* Shards, sockets and easy handles.
 *
 * The glue between libcurl and libuv follows three facts of libcurl. A transfer's end says
 * "remove" for a socket that stays open for the next request, so the watch is only stopped
 * then. The one word of the later close is the close-socket callback, which closes the
 * watch before the descriptor. Two kinds of sockets get no such callback, and their watch
 * is forgotten at "remove": those that libcurl opens for itself (a name lookup's), and in
 * libcurl 7.88 those given up while they were connecting. */
#include "runtime/http_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "runtime/http.h"
#include "runtime/loop.h"
#include "runtime/task.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

enum {
    IDLE_EASY_HANDLES = 256,
    /* A shard without transfers is closed after this, and its kept connections with it. */
    IDLE_SHARD_MS = 60000,
    /* Servers and balancers usually drop idle connections after 60 s or more; being first
     * keeps requests off connections that are about to be closed. */
    IDLE_CONNECTION_S = 55,
    /* Old connections would stay with an address that the name has left. */
    CONNECTION_LIFETIME_S = 300,
    /* A network that swallows packets shows as data that nobody acknowledges. */
    UNACKNOWLEDGED_MS = 20000,
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_INTERVAL_S = 5
};

struct http_socket {
    uv_poll_t poll;
    struct http_shard *shard; /* whose transfer uses it now */
    bool is_own;              /* opened by open_socket */
    bool is_connected;
};

struct http_shard {
    struct http_shard *next;
    struct http_pool *pool;
    CURLM *multi;
    uv_timer_t timer; /* libcurl's */
    uv_timer_t idle;
    size_t running;
    int open_timers;
};

struct http_pool {
    struct loop *loop;
    struct http_shard *shards; /* the first one with room serves, so that few are in use */
    struct http_socket **sockets; /* by descriptor */
    size_t socket_capacity;
    CURL *easy[IDLE_EASY_HANDLES];
    size_t easy_count;
};

/* ---- sockets ---- */

static struct http_socket *socket_find(const struct http_pool *pool, int fd)
{
    return (size_t)fd < pool->socket_capacity ? pool->sockets[fd] : NULL;
}

static int make_room(struct http_pool *pool, int fd)
{
    if ((size_t)fd < pool->socket_capacity)
        return 0;
    size_t capacity = pool->socket_capacity ? pool->socket_capacity : 64;
    while (capacity <= (size_t)fd)
        capacity *= 2;
    struct http_socket **sockets =
        reallocarray(pool->sockets, capacity, sizeof(struct http_socket *));
    if (!sockets)
        return -ENOMEM;
    for (size_t i = pool->socket_capacity; i < capacity; i++)
        sockets[i] = NULL;
    pool->sockets = sockets;
    pool->socket_capacity = capacity;
    return 0;
}

static struct http_socket *socket_add(struct http_pool *pool, int fd, bool is_own)
{
    if (make_room(pool, fd) != 0)
        return NULL;
    struct http_socket *socket = calloc(1, sizeof(*socket));
    if (!socket)
        return NULL;
    if (uv_poll_init(&pool->loop->uv, &socket->poll, fd) != 0) {
        free(socket);
        return NULL;
    }
    socket->poll.data = socket;
    socket->is_own = is_own;
    pool->sockets[fd] = socket;
    return socket;
}

static void on_socket_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void socket_forget(struct http_pool *pool, int fd)
{
    struct http_socket *socket = socket_find(pool, fd);
    if (!socket)
        return;
    pool->sockets[fd] = NULL;
    uv_close((uv_handle_t *)&socket->poll, on_socket_closed);
}

static void set_tcp_options(int fd)
{
    /* Best effort: a kernel without one of them only notices a dead network later. */
    const int on = 1;
    const int idle_s = KEEPALIVE_IDLE_S;
    const int interval_s = KEEPALIVE_INTERVAL_S;
    const unsigned unacknowledged_ms = UNACKNOWLEDGED_MS;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms,
                     sizeof(unacknowledged_ms));
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose,
                                 struct curl_sockaddr *address)
{
    (void)purpose;
    struct http_pool *pool = arg;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    if (address->family != AF_UNIX)
        set_tcp_options(fd);
    socket_forget(pool, fd); /* a leftover: see is_gone() */
    if (!socket_add(pool, fd, true)) {
        (void)close(fd);
        return CURL_SOCKET_BAD;
    }
    return fd;
}

static int close_socket(void *arg, curl_socket_t fd)
{
    socket_forget(arg, fd);
    return close(fd);
}

/* ---- what ends a transfer ---- */

static void on_idle(uv_timer_t *timer);

static void detach(struct http_transfer *transfer)
{
    struct http_shard *shard = transfer->shard;
    transfer->shard = NULL;
    (void)curl_multi_remove_handle(shard->multi, transfer->easy);
    shard->running--;
    if (shard->running == 0)
        (void)uv_timer_start(&shard->idle, on_idle, IDLE_SHARD_MS, 0);
}

static void drain(struct http_shard *shard)
{
    int left = 0;
    CURLMsg *message = NULL;
    while ((message = curl_multi_info_read(shard->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode result = message->data.result; /* detach() frees the message */
        struct http_transfer *transfer = NULL;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        transfer->result = result;
        transfer->ended = true;
        detach(transfer);
        task_wake(transfer->task);
    }
}

static void act(struct http_shard *shard, curl_socket_t fd, int events)
{
    int running = 0;
    (void)curl_multi_socket_action(shard->multi, fd, events, &running);
    drain(shard);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct http_socket *socket = poll->data;
    uv_os_fd_t fd = -1;
    (void)uv_fileno((uv_handle_t *)poll, &fd);
    int action = status < 0 ? CURL_CSELECT_ERR : 0;
    if (events & UV_READABLE)
        action |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        action |= CURL_CSELECT_OUT;
    act(socket->shard, fd, action);
}

static void on_timer(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

/* ---- what libcurl asks for ---- */

/* Whether "remove" is the last that is heard of the socket. A descriptor given up while it
 * was connecting has been closed just before; should a thread have got its number since,
 * the watch lies stopped until the number comes back to open_socket. */
static bool is_gone(const struct http_socket *socket, int fd)
{
    return !socket->is_own || (!socket->is_connected && fcntl(fd, F_GETFD) < 0);
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
    (void)easy;
    (void)unused;
    struct http_shard *shard = arg;
    struct http_socket *socket = socket_find(shard->pool, fd);
    if (what == CURL_POLL_REMOVE) {
        if (socket && is_gone(socket, fd))
            socket_forget(shard->pool, fd);
        else if (socket)
            (void)uv_poll_stop(&socket->poll);
        return 0;
    }
    if (!socket)
        socket = socket_add(shard->pool, fd, false);
    if (!socket)
        return 0; /* a name lookup's: libcurl looks at it by a timer too */
    socket->shard = shard;
    int events = 0;
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) {
        events |= UV_READABLE;
        socket->is_connected = true; /* before that, only writing is of interest */
    }
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        events |= UV_WRITABLE;
    (void)uv_poll_start(&socket->poll, events, on_poll);
    return 0;
}

static int set_timer(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    struct http_shard *shard = arg;
    if (timeout_ms < 0)
        (void)uv_timer_stop(&shard->timer);
    else
        (void)uv_timer_start(&shard->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

/* ---- shards ---- */

static void on_shard_timer_closed(uv_handle_t *handle)
{
    struct http_shard *shard = handle->data;
    if (--shard->open_timers == 0)
        free(shard);
}

/* The shard must be off the pool's list. */
static void shard_free(struct http_shard *shard)
{
    (void)curl_multi_cleanup(shard->multi);
    uv_close((uv_handle_t *)&shard->timer, on_shard_timer_closed);
    uv_close((uv_handle_t *)&shard->idle, on_shard_timer_closed);
}

static void on_idle(uv_timer_t *timer)
{
    struct http_shard *shard = timer->data;
    struct http_shard **link = &shard->pool->shards;
    while (*link != shard)
        link = &(*link)->next;
    *link = shard->next;
    shard_free(shard);
}

static struct http_shard *shard_new(struct http_pool *pool)
{
    struct http_shard *shard = calloc(1, sizeof(*shard));
    if (!shard)
        return NULL;
    shard->pool = pool;
    shard->multi = curl_multi_init();
    if (!shard->multi) {
        free(shard);
        return NULL;
    }
    /* The multi handle's own wake-up pair is not close-on-exec and no option names it. No
     * descriptor of this process is for its children, who get theirs by dup2. */
    (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    (void)curl_multi_setopt(shard->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    (void)curl_multi_setopt(shard->multi, CURLMOPT_SOCKETDATA, shard);
    (void)curl_multi_setopt(shard->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    (void)curl_multi_setopt(shard->multi, CURLMOPT_TIMERDATA, shard);
    /* Left alone, the cache shrinks with the load and closes good connections. */
    (void)curl_multi_setopt(shard->multi, CURLMOPT_MAXCONNECTS, (long)HTTP_SHARD_TRANSFERS);
    (void)uv_timer_init(&pool->loop->uv, &shard->timer);
    (void)uv_timer_init(&pool->loop->uv, &shard->idle);
    shard->timer.data = shard->idle.data = shard;
    shard->open_timers = 2;
    (void)uv_timer_start(&shard->idle, on_idle, IDLE_SHARD_MS, 0);
    return shard;
}

static struct http_shard *shard_with_room(struct http_pool *pool)
{
    struct http_shard **link = &pool->shards;
    while (*link && (*link)->running >= HTTP_SHARD_TRANSFERS)
        link = &(*link)->next;
    if (!*link)
        *link = shard_new(pool);
    return *link;
}

/* ---- the pool ---- */

static struct http_pool *http_pool_new(struct loop *loop)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return NULL;
    struct http_pool *pool = NULL;
    if (curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_ASYNCHDNS)
        pool = calloc(1, sizeof(*pool));
    if (!pool) {
        curl_global_cleanup();
        return NULL;
    }
    pool->loop = loop;
    return pool;
}

struct http_pool *http_pool_of(struct loop *loop)
{
    if (!loop->http)
        loop->http = http_pool_new(loop);
    return loop->http;
}

void http_pool_free(struct http_pool *pool)
{
    if (!pool)
        return;
    while (pool->shards) {
        struct http_shard *shard = pool->shards;
        pool->shards = shard->next;
        shard_free(shard);
    }
    for (size_t fd = 0; fd < pool->socket_capacity; fd++)
        socket_forget(pool, (int)fd);
    while (pool->easy_count > 0)
        curl_easy_cleanup(pool->easy[--pool->easy_count]);
    free(pool->sockets);
    free(pool);
    curl_global_cleanup();
}

int http_pool_prepare(struct http_pool *pool, struct http_transfer *transfer)
{
    CURL *easy = pool->easy_count > 0 ? pool->easy[--pool->easy_count] : curl_easy_init();
    if (!easy)
        return -ENOMEM;
    transfer->easy = easy;
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    /* Without it libcurl plays with SIGPIPE's handler, and with SIGALRM for lookups. */
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* Ending a transfer in the middle of a name lookup would else wait for the lookup's
     * thread, and the whole loop with it. */
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, pool);
    /* A connection keeps these two of the transfer that opened it: hence the pool. */
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, pool);
    (void)curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)IDLE_CONNECTION_S);
    (void)curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, (long)CONNECTION_LIFETIME_S);
    return 0;
}

int http_pool_begin(struct http_pool *pool, struct http_transfer *transfer)
{
    struct http_shard *shard = shard_with_room(pool);
    if (!shard || curl_multi_add_handle(shard->multi, transfer->easy) != CURLM_OK)
        return -ENOMEM;
    (void)uv_timer_stop(&shard->idle);
    transfer->shard = shard;
    shard->running++;
    return 0;
}

void http_pool_end(struct http_pool *pool, struct http_transfer *transfer)
{
    if (!transfer->easy)
        return;
    if (transfer->shard)
        detach(transfer);
    curl_easy_reset(transfer->easy);
    if (pool->easy_count < IDLE_EASY_HANDLES)
        pool->easy[pool->easy_count++] = transfer->easy;
    else
        curl_easy_cleanup(transfer->easy);
    transfer->easy = NULL;
}

size_t http_pool_shard_count(const struct http_pool *pool)
{
    size_t count = 0;
    for (const struct http_shard *shard = pool->shards; shard; shard = shard->next)
        count++;
    return count;
}

size_t http_pool_fullest_shard(const struct http_pool *pool)
{
    size_t fullest = 0;
    for (const struct http_shard *shard = pool->shards; shard; shard = shard->next)
        if (shard->running > fullest)
            fullest = shard->running;
    return fullest;
}
