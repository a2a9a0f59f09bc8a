/* A small server that plays a script to each connection: expect a request, send these
 * bytes, stall, break off. It runs on a thread of its own on a port that the kernel chose
 * (127.0.0.1) or on a Unix socket, with TLS where a certificate is given, and records what
 * it received. It speaks no HTTP beyond finding the end of a request. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum scripted_action {
    SCRIPTED_END,    /* nothing more; reads on until the peer closes */
    SCRIPTED_EXPECT, /* wait for a whole request: headers, and the body they announce */
    SCRIPTED_SEND,   /* the text */
    SCRIPTED_SEND_SINGLY, /* the text, byte by byte; on a Unix socket each one only when the
                             peer has read the one before */
    SCRIPTED_FILL,        /* that many bytes 'x' */
    SCRIPTED_STALL,       /* until scripted_server_release */
    SCRIPTED_CLOSE,       /* in good order */
    SCRIPTED_RESET,       /* so that the peer sees a reset */
    SCRIPTED_REPEAT       /* from the first step again */
};

struct scripted_step {
    enum scripted_action action;
    const char *text;
    size_t bytes; /* of a text with NULs in it, or to fill; 0: the text's length */
};

struct scripted_options {
    /* NULL-ended: the first connection plays the first script and so on; the last script
     * serves all that follow. A script ends with SCRIPTED_END. Lent. */
    const struct scripted_step *const *scripts;
    const char *unix_path; /* NULL: TCP */
    const char *cert_file; /* PEM; NULL: no TLS */
    const char *key_file;
};

struct scripted_server;

/* NULL: it could not be started. */
struct scripted_server *scripted_server_start(const struct scripted_options *options);

/* Lets everything go on that stalls, now or later. */
void scripted_server_release(struct scripted_server *server);

/* Ends the thread and closes every descriptor; what was recorded stays readable. */
void scripted_server_stop(struct scripted_server *server);

/* Stops it if need be. NULL is fine. */
void scripted_server_free(struct scripted_server *server);

int scripted_server_port(const struct scripted_server *server);

/* What was recorded so far. Ends counts the connections that are over; hang-ups, those that
 * the peer closed before the script did. */
size_t scripted_server_connections(struct scripted_server *server);
size_t scripted_server_requests(struct scripted_server *server);
size_t scripted_server_bytes(struct scripted_server *server);
size_t scripted_server_ends(struct scripted_server *server);
size_t scripted_server_hangups(struct scripted_server *server);

/* The whole text of the request of that index, of the first 64; NULL: none. Lives as long
 * as the server. */
const char *scripted_server_request(struct scripted_server *server, size_t index);
