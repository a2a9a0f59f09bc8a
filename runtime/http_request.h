/* What a request must look like before any of it is sent: for http.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <curl/curl.h>

struct error;
struct http_request;

/* Checks method and URL, and writes "host" or "host:port", cut to fit, for messages. The
 * URL itself is in no message: it may hold a secret. 0 or -1. */
int http_request_check(const struct http_request *request, char *ret_host,
                       size_t host_bytes, struct error *err);

/* The request's headers as libcurl wants them, each checked to be one line, and without
 * those that libcurl would add by itself. The caller frees the list. 0 or -1. */
int http_request_headers(const struct http_request *request, const char *host,
                         struct curl_slist **ret_list, struct error *err);

/* Whether the method says "Content-Length: 0" where there is no body. */
bool http_request_wants_body(const struct http_request *request);
