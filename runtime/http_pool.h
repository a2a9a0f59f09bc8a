/* What http.c borrows from: libcurl's multi handles, driven by the loop.
 *
 * One multi handle grows slow with its transfers (libcurl walks its list of connections for
 * every request), so a pool holds several, called shards, each with a bounded number of
 * transfers. Everything here runs on the loop's stack and outside libcurl's callbacks:
 * libcurl forbids re-entry. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <curl/curl.h>

struct loop;
struct task;
struct http_pool;
struct http_shard;

enum { HTTP_SHARD_TRANSFERS = 256 };

/* One request under way. The caller keeps it until http_pool_end. */
struct http_transfer {
    CURL *easy;               /* the pool's; made by http_pool_prepare */
    struct http_shard *shard; /* NULL: not running */
    struct task *task;        /* woken when the transfer has ended */
    CURLcode result;          /* of an ended transfer */
    bool ended;
};

/* The loop's pool, made by the first call. NULL: no memory or descriptors, or a libcurl
 * whose name lookups would block the loop. */
struct http_pool *http_pool_of(struct loop *loop);

/* Lends an easy handle with the pool's own options set: how sockets are opened and closed,
 * how long connections are kept. 0 or -ENOMEM. */
int http_pool_prepare(struct http_pool *pool, struct http_transfer *transfer);

/* Starts the transfer, whose other options the caller has set by now. 0 or -ENOMEM. */
int http_pool_begin(struct http_pool *pool, struct http_transfer *transfer);

/* Gives the easy handle back; a transfer that has not ended is broken off, which closes its
 * connection. A transfer that was never prepared is fine. */
void http_pool_end(struct http_pool *pool, struct http_transfer *transfer);

/* For tests: the number of shards, and of transfers in the fullest. */
size_t http_pool_shard_count(const struct http_pool *pool);
size_t http_pool_fullest_shard(const struct http_pool *pool);
