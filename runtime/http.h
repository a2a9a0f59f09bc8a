/* HTTP requests by libcurl's multi interface, driven by the loop.
 *
 * Straight-line use: fill a request, call http_perform, read the response. Connections are
 * kept and shared by all tasks of the loop. Redirects are never followed, proxies of the
 * environment are not used, no request is ever repeated by itself, whatever its method:
 * what may have run is told apart from what cannot have. The process ignores SIGPIPE: TLS
 * writes to sockets that may be closed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/task.h"

struct loop;
struct http_pool;

struct http_request {
    const char *method;           /* GET, POST, PUT, DELETE, HEAD, PATCH */
    const char *url;              /* http or https; nothing else is taken */
    const char *unix_socket_path; /* connect there instead of the URL's host; NULL: no */
    const char *const *headers;   /* "Name: value", NULL-ended; NULL: none. Not the body's
                                     length, which is known */
    const void *body;             /* NULL: none; lent, not copied */
    size_t body_bytes;
    uint64_t timeout_ms;          /* for the whole exchange; 0: only the task's deadline */
    uint64_t connect_timeout_ms;  /* 0: 10,000 */
    size_t max_response_bytes;    /* more is an error, not a cut; 0: 8 MiB, and no limit
                                     on what on_data takes */
    const char *ca_file;          /* PEM; NULL: the system's */
    const char *client_cert_file; /* PEM; NULL: none */
    const char *client_key_file;
    bool cleartext_http2; /* HTTP/2 on http:// without asking first; else HTTP/1.1 there,
                             and negotiated on https:// */
    /* Takes the body piece by piece, on the loop's stack, instead of collecting it; must
     * not wait. Nonzero ends the transfer: http_perform then fails with cancelled. Only
     * called for statuses 200 to 299; other bodies are collected. */
    int (*on_data)(void *arg, const void *data, size_t bytes);
    void *on_data_arg;
};

struct http_header {
    const char *name; /* lower case */
    const char *value;
};

struct http_response {
    long status;
    const char *body; /* in the arena, followed by a NUL; empty with on_data */
    size_t body_bytes;
    const struct http_header *headers;
    size_t header_count;    /* the last answer's, in order; no trailers */
    int64_t retry_after_ms; /* of Retry-After, seconds or date, 1 for now or the past;
                               0: none, -1: unreadable */
    bool connection_reused;
};

/* Sends the request and waits for the whole answer. Any HTTP status is a success here.
 * Suspends.
 *
 * Errors: provider_unavailable, retryable: it cannot have run (no name, no connection, TLS
 * refused, no connection within connect_timeout_ms). outcome_unknown: the connection broke,
 * the time was up, the answer was not HTTP, too large (body, more than 256 headers or 64
 * KiB of them) or found no room in the arena after the request was sent: it may have run.
 * timeout: the time was up before anything was sent. cancelled: the task was, or on_data
 * ended it; it may have run. invalid_argument: method, URL or header unusable. internal.
 * The message names the host, never the path, query or a header. Outputs untouched on
 * failure. */
SUSPENDS int http_perform(const struct http_request *request, struct arena *arena,
                          struct http_response *ret_response, struct error *err);

/* The first header of that lower-case name; NULL: absent. */
const char *http_response_header(const struct http_response *response, const char *name);

/* For loop.c: ends everything that libcurl holds. NULL is fine. */
void http_pool_free(struct http_pool *pool);
