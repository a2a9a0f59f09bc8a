/* Starting and killing a real redis-server. */
#include "redis_server.h"

#include "support.h"

#include <fcntl.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_TRIES = 1000, TRY_MS = 10 };

void redis_server_init(struct redis_server *server)
{
    *server = (struct redis_server){.directory = "/tmp/attachd-test-XXXXXX"};
    assert_non_null(mkdtemp(server->directory));
    (void)snprintf(server->socket_path, sizeof(server->socket_path), "%s/redis.sock",
                   server->directory);
    (void)snprintf(server->url, sizeof(server->url), "unix://%s", server->socket_path);
}

static bool takes_connections(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    (void)close(fd);
    return yes;
}

void redis_server_start(struct redis_server *server, const char *password)
{
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        int null = open("/dev/null", O_RDWR);
        (void)dup2(null, STDOUT_FILENO);
        (void)execlp("redis-server", "redis-server", "--port", "0", "--unixsocket",
                     server->socket_path, "--save", "", "--dir", server->directory,
                     "--requirepass", password ? password : "", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < START_TRIES; i++) {
        const struct timespec pause = {.tv_nsec = TRY_MS * 1000000L};
        if (takes_connections(server->socket_path))
            return;
        assert_int_equal(waitpid(server->pid, NULL, WNOHANG), 0);
        (void)nanosleep(&pause, NULL);
    }
    fail_msg("redis-server did not start");
}

void redis_server_kill(struct redis_server *server)
{
    if (server->pid == 0)
        return;
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    server->pid = 0;
    (void)unlink(server->socket_path);
}

void redis_server_done(struct redis_server *server)
{
    char command[128];
    redis_server_kill(server);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", server->directory);
    assert_int_equal(system(command), 0);
}
