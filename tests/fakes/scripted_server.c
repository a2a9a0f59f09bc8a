/* One thread, one poll over all connections; a connection is its place in a script. */
#include "scripted_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <linux/sockios.h>
#include <openssl/ssl.h>

enum { KEPT_REQUESTS = 64, MAX_CONNECTIONS = 2048, BACKLOG = 1024, TICK_MS = 1 };

struct connection {
    int fd;
    SSL *ssl;
    const struct scripted_step *script;
    size_t step;
    size_t sent; /* of the step's bytes */
    bool wants_out;
    bool wants_tick;
    char *input;
    size_t input_bytes;
};

struct scripted_server {
    struct scripted_options options;
    int listener;
    int wake;
    int port;
    SSL_CTX *tls;
    pthread_t thread;
    bool running;
    struct connection *connections[MAX_CONNECTIONS];
    size_t connection_count;
    struct pollfd polls[MAX_CONNECTIONS + 2];

    pthread_mutex_t mutex; /* guards what follows */
    bool released;
    bool stopping;
    size_t accepted;
    size_t ends;
    size_t hangups;
    size_t bytes;
    size_t request_count;
    char *requests[KEPT_REQUESTS];
};

static bool read_flag(struct scripted_server *server, const bool *flag)
{
    (void)pthread_mutex_lock(&server->mutex);
    bool value = *flag;
    (void)pthread_mutex_unlock(&server->mutex);
    return value;
}

static void add_to(struct scripted_server *server, size_t *counter, size_t amount)
{
    (void)pthread_mutex_lock(&server->mutex);
    *counter += amount;
    (void)pthread_mutex_unlock(&server->mutex);
}

static size_t read_counter(struct scripted_server *server, const size_t *counter)
{
    (void)pthread_mutex_lock(&server->mutex);
    size_t value = *counter;
    (void)pthread_mutex_unlock(&server->mutex);
    return value;
}

/* ---- a connection ---- */

static void connection_end(struct scripted_server *server, struct connection *connection)
{
    if (connection->fd < 0)
        return;
    SSL_free(connection->ssl);
    connection->ssl = NULL;
    (void)close(connection->fd);
    connection->fd = -1;
    add_to(server, &server->ends, 1);
}

static void connection_reset(struct scripted_server *server, struct connection *connection)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    connection_end(server, connection);
}

static ssize_t receive(struct connection *connection, char *data, size_t bytes)
{
    if (!connection->ssl)
        return recv(connection->fd, data, bytes, 0);
    int count = SSL_read(connection->ssl, data, (int)bytes);
    if (count > 0)
        return count;
    errno = EAGAIN;
    return SSL_get_error(connection->ssl, count) == SSL_ERROR_WANT_READ ? -1 : 0;
}

static ssize_t transmit(struct connection *connection, const char *data, size_t bytes)
{
    if (!connection->ssl)
        return send(connection->fd, data, bytes, MSG_NOSIGNAL);
    int count = SSL_write(connection->ssl, data, (int)bytes);
    if (count > 0)
        return count;
    errno = SSL_get_error(connection->ssl, count) == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
    return -1;
}

static void connection_read(struct scripted_server *server, struct connection *connection)
{
    char data[2048];
    ssize_t count = 0;
    while ((count = receive(connection, data, sizeof(data))) > 0) {
        size_t bytes = (size_t)count;
        char *input = realloc(connection->input, connection->input_bytes + bytes + 1);
        if (!input)
            abort();
        memcpy(input + connection->input_bytes, data, bytes);
        connection->input = input;
        connection->input_bytes += bytes;
        input[connection->input_bytes] = '\0';
        add_to(server, &server->bytes, bytes);
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        add_to(server, &server->hangups, 1);
        connection_end(server, connection);
    }
}

/* The length of the whole request at the start of the input; 0: not there yet. */
static size_t request_bytes(const struct connection *connection)
{
    if (connection->input_bytes == 0)
        return 0;
    const char *end = strstr(connection->input, "\r\n\r\n");
    if (!end)
        return 0;
    size_t body_bytes = 0;
    const char *line = connection->input;
    while (line < end) {
        if (strncasecmp(line, "content-length:", 15) == 0)
            body_bytes = (size_t)strtoul(line + 15, NULL, 10);
        line = strstr(line, "\r\n") + 2;
    }
    size_t whole = (size_t)(end - connection->input) + 4 + body_bytes;
    return whole <= connection->input_bytes ? whole : 0;
}

static bool take_request(struct scripted_server *server, struct connection *connection)
{
    size_t bytes = request_bytes(connection);
    if (bytes == 0)
        return false;
    (void)pthread_mutex_lock(&server->mutex);
    if (server->request_count < KEPT_REQUESTS)
        server->requests[server->request_count] = strndup(connection->input, bytes);
    server->request_count++;
    (void)pthread_mutex_unlock(&server->mutex);
    connection->input_bytes -= bytes;
    memmove(connection->input, connection->input + bytes, connection->input_bytes + 1);
    return true;
}

/* Sends more of the step; true: all of it is out. */
static bool send_more(struct scripted_server *server, struct connection *connection,
                      const struct scripted_step *step)
{
    static const char filler[4096] = {[0 ... 4095] = 'x'};
    size_t total = step->bytes ? step->bytes : strlen(step->text);
    bool singly = step->action == SCRIPTED_SEND_SINGLY;
    while (connection->sent < total) {
        size_t part = total - connection->sent;
        const char *from = step->text ? step->text + connection->sent : filler;
        if (!step->text && part > sizeof(filler))
            part = sizeof(filler);
        int unread = 0;
        if (singly) {
            part = 1;
            connection->wants_tick =
                ioctl(connection->fd, SIOCOUTQ, &unread) == 0 && unread > 0;
            if (connection->wants_tick)
                return false;
        }
        ssize_t count = transmit(connection, from, part);
        connection->wants_out = count < 0 && errno == EAGAIN;
        if (connection->wants_out)
            return false;
        if (count < 0) {
            add_to(server, &server->hangups, 1);
            connection_end(server, connection);
            return false;
        }
        connection->sent += (size_t)count;
    }
    connection->sent = 0;
    return true;
}

/* Plays one step; true: it is done, the next one may follow. */
static bool play_step(struct scripted_server *server, struct connection *connection)
{
    const struct scripted_step *step = &connection->script[connection->step];
    switch (step->action) {
    case SCRIPTED_EXPECT:
        return take_request(server, connection);
    case SCRIPTED_SEND:
    case SCRIPTED_SEND_SINGLY:
    case SCRIPTED_FILL:
        return send_more(server, connection, step);
    case SCRIPTED_STALL:
        return read_flag(server, &server->released);
    case SCRIPTED_CLOSE:
        connection_end(server, connection);
        return false;
    case SCRIPTED_RESET:
        connection_reset(server, connection);
        return false;
    case SCRIPTED_REPEAT:
        connection->step = (size_t)-1; /* the step after this one is the first */
        return true;
    case SCRIPTED_END:
        break;
    }
    return false;
}

static void connection_play(struct scripted_server *server, struct connection *connection)
{
    while (connection->fd >= 0 && play_step(server, connection))
        connection->step++;
}

/* ---- the thread ---- */

static const struct scripted_step *script_for(const struct scripted_server *server,
                                              size_t index)
{
    const struct scripted_step *const *scripts = server->options.scripts;
    while (index > 0 && scripts[1]) {
        scripts++;
        index--;
    }
    return *scripts;
}

/* The handshake blocks, within a bound: tests with TLS make one connection at a time. */
static void shake_hands(struct scripted_server *server, struct connection *connection)
{
    struct timeval bound = {.tv_sec = 10};
    (void)setsockopt(connection->fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    connection->ssl = SSL_new(server->tls);
    if (!connection->ssl || SSL_set_fd(connection->ssl, connection->fd) != 1 ||
        SSL_accept(connection->ssl) != 1) {
        add_to(server, &server->hangups, 1);
        connection_end(server, connection);
    }
}

static void accept_one(struct scripted_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection || server->connection_count == MAX_CONNECTIONS)
        abort();
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    connection->fd = fd;
    connection->script = script_for(server, read_counter(server, &server->accepted));
    server->connections[server->connection_count++] = connection;
    add_to(server, &server->accepted, 1);
    if (server->tls)
        shake_hands(server, connection);
    if (connection->fd >= 0)
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    connection_play(server, connection);
}

static void drop_ended(struct scripted_server *server)
{
    size_t kept = 0;
    for (size_t i = 0; i < server->connection_count; i++) {
        struct connection *connection = server->connections[i];
        if (connection->fd >= 0) {
            server->connections[kept++] = connection;
            continue;
        }
        free(connection->input);
        free(connection);
    }
    server->connection_count = kept;
}

static int fill_polls(struct scripted_server *server)
{
    int timeout_ms = -1;
    server->polls[0] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    server->polls[1] = (struct pollfd){.fd = server->wake, .events = POLLIN};
    for (size_t i = 0; i < server->connection_count; i++) {
        const struct connection *connection = server->connections[i];
        short events = POLLIN;
        if (connection->wants_out)
            events |= POLLOUT;
        if (connection->wants_tick)
            timeout_ms = TICK_MS;
        server->polls[i + 2] = (struct pollfd){.fd = connection->fd, .events = events};
    }
    return timeout_ms;
}

static void *serve(void *arg)
{
    struct scripted_server *server = arg;
    while (!read_flag(server, &server->stopping)) {
        int timeout_ms = fill_polls(server);
        size_t count = server->connection_count;
        (void)poll(server->polls, count + 2, timeout_ms);
        uint64_t wakes = 0;
        if (server->polls[1].revents)
            (void)!read(server->wake, &wakes, sizeof(wakes));
        for (size_t i = 0; i < count; i++) {
            struct connection *connection = server->connections[i];
            if (server->polls[i + 2].revents & (POLLIN | POLLHUP | POLLERR))
                connection_read(server, connection);
            connection_play(server, connection);
        }
        if (server->polls[0].revents)
            accept_one(server);
        drop_ended(server);
    }
    return NULL;
}

/* ---- start and stop ---- */

static int listen_unix(struct scripted_server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, server->options.unix_path, sizeof(address.sun_path) - 1);
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(server->listener, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return -1;
    return listen(server->listener, BACKLOG);
}

static int listen_tcp(struct scripted_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(server->listener, (const struct sockaddr *)&address, bytes) != 0 ||
        listen(server->listener, BACKLOG) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &bytes) != 0)
        return -1;
    server->port = ntohs(address.sin_port);
    return 0;
}

static int open_tls(struct scripted_server *server)
{
    if (!server->options.cert_file)
        return 0;
    server->tls = SSL_CTX_new(TLS_server_method());
    if (!server->tls ||
        SSL_CTX_use_certificate_file(server->tls, server->options.cert_file,
                                     SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(server->tls, server->options.key_file,
                                    SSL_FILETYPE_PEM) != 1)
        return -1;
    (void)SSL_CTX_set_mode(server->tls, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return 0;
}

/* The thread blocks every signal: they are the program's. */
static int start_thread(struct scripted_server *server)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    server->running = pthread_create(&server->thread, NULL, serve, server) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return server->running ? 0 : -1;
}

struct scripted_server *scripted_server_start(const struct scripted_options *options)
{
    struct scripted_server *server = calloc(1, sizeof(*server));
    if (!server)
        return NULL;
    server->options = *options;
    server->listener = -1;
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&server->mutex, NULL);
    int listening = options->unix_path ? listen_unix(server) : listen_tcp(server);
    if (server->wake < 0 || listening != 0 || open_tls(server) != 0 ||
        start_thread(server) != 0) {
        scripted_server_free(server);
        return NULL;
    }
    return server;
}

static void raise_flag(struct scripted_server *server, bool *flag)
{
    const uint64_t one = 1;
    (void)pthread_mutex_lock(&server->mutex);
    *flag = true;
    (void)pthread_mutex_unlock(&server->mutex);
    (void)!write(server->wake, &one, sizeof(one));
}

void scripted_server_release(struct scripted_server *server)
{
    raise_flag(server, &server->released);
}

void scripted_server_stop(struct scripted_server *server)
{
    if (server->running) {
        raise_flag(server, &server->stopping);
        (void)pthread_join(server->thread, NULL);
        server->running = false;
    }
    for (size_t i = 0; i < server->connection_count; i++)
        connection_end(server, server->connections[i]);
    drop_ended(server);
    SSL_CTX_free(server->tls);
    server->tls = NULL;
    if (server->listener >= 0)
        (void)close(server->listener);
    if (server->wake >= 0)
        (void)close(server->wake);
    server->listener = server->wake = -1;
}

void scripted_server_free(struct scripted_server *server)
{
    if (!server)
        return;
    scripted_server_stop(server);
    for (size_t i = 0; i < KEPT_REQUESTS; i++)
        free(server->requests[i]);
    (void)pthread_mutex_destroy(&server->mutex);
    free(server);
}

int scripted_server_port(const struct scripted_server *server)
{
    return server->port;
}

size_t scripted_server_connections(struct scripted_server *server)
{
    return read_counter(server, &server->accepted);
}

size_t scripted_server_requests(struct scripted_server *server)
{
    return read_counter(server, &server->request_count);
}

size_t scripted_server_bytes(struct scripted_server *server)
{
    return read_counter(server, &server->bytes);
}

size_t scripted_server_ends(struct scripted_server *server)
{
    return read_counter(server, &server->ends);
}

size_t scripted_server_hangups(struct scripted_server *server)
{
    return read_counter(server, &server->hangups);
}

const char *scripted_server_request(struct scripted_server *server, size_t index)
{
    (void)pthread_mutex_lock(&server->mutex);
    const char *text = index < KEPT_REQUESTS ? server->requests[index] : NULL;
    (void)pthread_mutex_unlock(&server->mutex);
    return text;
}
