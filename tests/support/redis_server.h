/* A redis-server of a test's own, on a Unix socket in a temporary directory. */
#pragma once

#include <sys/types.h>

struct redis_server {
    char directory[64];
    char socket_path[96];
    char url[112]; /* unix:// URL of the socket */
    pid_t pid;     /* 0: not running */
};

/* Makes the directory; starts nothing. Fails the test where it cannot. */
void redis_server_init(struct redis_server *server);

/* Starts it and waits until the socket takes connections. `password` may be NULL. */
void redis_server_start(struct redis_server *server, const char *password);

/* Kills it and waits for its end. Fine when it does not run. */
void redis_server_kill(struct redis_server *server);

/* Kills it and removes the directory. */
void redis_server_done(struct redis_server *server);
