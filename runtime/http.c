/* One exchange: sets libcurl's options, collects the answer, and says what a failure means.
 *
 * libcurl by itself sends a request again when a kept connection breaks before the first
 * byte of the answer, whatever the method. before_request() is called each time before a
 * request goes out; it refuses the second time, and tells what may have run from what
 * cannot have. */
#include "runtime/http.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "runtime/buffer.h"
#include "runtime/deadline.h"
#include "runtime/http_pool.h"
#include "runtime/http_request.h"

enum {
    DEFAULT_CONNECT_TIMEOUT_MS = 10000,
    DEFAULT_RESPONSE_BYTES = 8 * 1024 * 1024,
    MAX_HEADERS = 256,
    MAX_HEADER_BYTES = 64 * 1024,
    MAX_RETRY_AFTER_S = 366 * 24 * 3600
};

enum stop { STOP_NONE, STOP_BY_CALLER, STOP_TOO_LARGE, STOP_HEADERS, STOP_MEMORY };

struct exchange {
    struct http_transfer transfer;
    const struct http_request *request;
    struct http_pool *pool;
    struct error *err;
    bool refused; /* err says why; nothing was started */

    struct curl_slist *header_list;
    CURLcode option_result;
    char host[128];               /* for messages */
    char detail[CURL_ERROR_SIZE]; /* libcurl's words */

    bool sent;        /* a request was about to go out */
    bool broke_early; /* libcurl wanted to send it again */
    bool headers_ended;
    enum stop stop; /* why a callback ended the transfer */
    struct buffer body;
    size_t passed_on_bytes; /* to on_data */
    struct buffer headers;  /* name NUL value NUL ... */
    size_t header_count;
    size_t header_bytes; /* of every header received, kept or not */

    /* What libcurl says at the end. */
    long status;
    long request_bytes;
    long new_connections;
    long os_error;
};

/* ---- the answer, as libcurl brings it ---- */

static int before_request(void *arg, char *ip, char *local_ip, int port, int local_port)
{
    (void)ip;
    (void)local_ip;
    (void)port;
    (void)local_port;
    struct exchange *exchange = arg;
    long request_bytes = 0;
    (void)curl_easy_getinfo(exchange->transfer.easy, CURLINFO_REQUEST_SIZE, &request_bytes);
    if (exchange->sent && request_bytes > 0) {
        exchange->broke_early = true;
        return CURL_PREREQFUNC_ABORT;
    }
    exchange->sent = true;
    return CURL_PREREQFUNC_OK;
}

static size_t take_body(char *data, size_t size, size_t count, void *arg)
{
    struct exchange *exchange = arg;
    const struct http_request *request = exchange->request;
    size_t bytes = size * count;
    long status = 0;
    (void)curl_easy_getinfo(exchange->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (!request->on_data || status < 200 || status > 299) {
        int failed = buffer_append(&exchange->body, data, bytes);
        if (failed)
            exchange->stop = failed == -EMSGSIZE ? STOP_TOO_LARGE : STOP_MEMORY;
        return failed ? 0 : bytes;
    }
    exchange->passed_on_bytes += bytes;
    if (request->max_response_bytes &&
        exchange->passed_on_bytes > request->max_response_bytes) {
        exchange->stop = STOP_TOO_LARGE;
        return 0;
    }
    if (request->on_data(request->on_data_arg, data, bytes) == 0)
        return bytes;
    exchange->stop = STOP_BY_CALLER;
    return 0;
}

/* A piece of the headers, followed by a NUL. */
static int keep_piece(struct exchange *exchange, const char *from, const char *to)
{
    int failed = buffer_append(&exchange->headers, from, (size_t)(to - from));
    return failed ? failed : buffer_append(&exchange->headers, "", 1);
}

/* No header: also a folded line, which nobody sends any more. */
static bool is_header(const char *line, const char *colon, size_t bytes)
{
    return colon && colon != line && !isspace((unsigned char)line[0]) &&
           !memchr(line, '\0', bytes);
}

/* Takes the blanks around a piece away. */
static void trim(const char **from, const char **to)
{
    while (*from < *to && isspace((unsigned char)**from))
        (*from)++;
    while (*to > *from && isspace((unsigned char)(*to)[-1]))
        (*to)--;
}

static int keep_header(struct exchange *exchange, const char *line, size_t bytes)
{
    const char *colon = memchr(line, ':', bytes);
    if (!is_header(line, colon, bytes))
        return 0;
    const char *value = colon + 1;
    const char *end = line + bytes;
    trim(&value, &end);
    size_t name_at = exchange->headers.size;
    if (keep_piece(exchange, line, colon) != 0 || keep_piece(exchange, value, end) != 0)
        return -ENOMEM;
    for (char *c = exchange->headers.data + name_at; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    exchange->header_count++;
    return 0;
}

/* Interim answers (100, 103) come through here too: the last status line counts. What
 * comes after the empty line is a trailer, which must not pass for a header. */
static size_t take_header(char *line, size_t size, size_t count, void *arg)
{
    struct exchange *exchange = arg;
    size_t bytes = size * count;
    exchange->header_bytes += bytes;
    if (exchange->header_bytes > MAX_HEADER_BYTES ||
        exchange->header_count >= MAX_HEADERS) {
        exchange->stop = STOP_HEADERS;
        return 0;
    }
    if (bytes > 5 && memcmp(line, "HTTP/", 5) == 0) {
        buffer_clear(&exchange->headers);
        exchange->header_count = 0;
        exchange->headers_ended = false;
        return bytes;
    }
    if (line[0] == '\r' || line[0] == '\n')
        exchange->headers_ended = true;
    if (exchange->headers_ended || keep_header(exchange, line, bytes) == 0)
        return bytes;
    exchange->stop = STOP_MEMORY;
    return 0;
}

/* ---- options ---- */

/* Texts are copied by libcurl, so only these can fail. */
static void set_text(struct exchange *exchange, CURLoption option, const char *text)
{
    if (exchange->option_result == CURLE_OK)
        exchange->option_result = curl_easy_setopt(exchange->transfer.easy, option, text);
}

static void set_long(struct exchange *exchange, CURLoption option, long value)
{
    (void)curl_easy_setopt(exchange->transfer.easy, option, value);
}

static void set_connection(struct exchange *exchange)
{
    const struct http_request *request = exchange->request;
    uint64_t connect_ms = request->connect_timeout_ms ? request->connect_timeout_ms
                                                      : DEFAULT_CONNECT_TIMEOUT_MS;
    if (connect_ms > INT32_MAX)
        connect_ms = INT32_MAX;
    set_text(exchange, CURLOPT_URL, request->url);
    set_text(exchange, CURLOPT_PROTOCOLS_STR, "http,https");
    set_text(exchange, CURLOPT_PROXY, "");
    set_text(exchange, CURLOPT_NOPROXY, "*");
    if (request->unix_socket_path)
        set_text(exchange, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket_path);
    set_long(exchange, CURLOPT_FOLLOWLOCATION, 0);
    set_long(exchange, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    set_long(exchange, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
    set_long(exchange, CURLOPT_SSL_VERIFYPEER, 1);
    set_long(exchange, CURLOPT_SSL_VERIFYHOST, 2);
    if (request->ca_file) {
        set_text(exchange, CURLOPT_CAINFO, request->ca_file);
        set_text(exchange, CURLOPT_CAPATH, NULL); /* else the system's count as well */
    }
    if (request->client_cert_file)
        set_text(exchange, CURLOPT_SSLCERT, request->client_cert_file);
    if (request->client_key_file)
        set_text(exchange, CURLOPT_SSLKEY, request->client_key_file);
    bool is_tls = strncasecmp(request->url, "https:", 6) == 0;
    long version = CURL_HTTP_VERSION_1_1;
    if (is_tls)
        version = CURL_HTTP_VERSION_2TLS;
    else if (request->cleartext_http2)
        version = CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
    set_long(exchange, CURLOPT_HTTP_VERSION, version);
}

static void set_method(struct exchange *exchange)
{
    const struct http_request *request = exchange->request;
    CURL *easy = exchange->transfer.easy;
    if (strcmp(request->method, "HEAD") == 0) {
        set_long(exchange, CURLOPT_NOBODY, 1);
        return;
    }
    if (request->body || http_request_wants_body(request)) {
        const char *body = request->body ? request->body : "";
        size_t bytes = request->body ? request->body_bytes : 0;
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body); /* lent, not copied */
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
    }
    set_text(exchange, CURLOPT_CUSTOMREQUEST, request->method);
}

static void set_callbacks(struct exchange *exchange)
{
    CURL *easy = exchange->transfer.easy;
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->header_list);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->detail);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_request);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQDATA, exchange);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
}

/* ---- start and end, on the loop's stack ---- */

static int prepare(struct exchange *exchange)
{
    const struct http_request *request = exchange->request;
    if (http_request_check(request, exchange->host, sizeof(exchange->host),
                           exchange->err) != 0 ||
        http_request_headers(request, exchange->host, &exchange->header_list,
                             exchange->err) != 0)
        return -1;
    exchange->pool = http_pool_of(task_loop(exchange->transfer.task));
    if (!exchange->pool || http_pool_prepare(exchange->pool, &exchange->transfer) != 0)
        return error_set(exchange->err, ERROR_INTERNAL,
                         "%s: cannot set up an HTTP transfer", exchange->host);
    set_connection(exchange);
    set_method(exchange);
    set_callbacks(exchange);
    if (exchange->option_result != CURLE_OK)
        return error_set(exchange->err, ERROR_INTERNAL,
                         "%s: cannot set up an HTTP transfer: %s", exchange->host,
                         curl_easy_strerror(exchange->option_result));
    if (http_pool_begin(exchange->pool, &exchange->transfer) != 0)
        return error_set_memory(exchange->err, "HTTP transfer");
    return 0;
}

static void start(void *arg)
{
    struct exchange *exchange = arg;
    if (prepare(exchange) == 0)
        return;
    exchange->refused = true;
    task_wake(exchange->transfer.task);
}

static void end(void *arg)
{
    struct exchange *exchange = arg;
    CURL *easy = exchange->transfer.easy;
    if (!easy)
        goto out;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &exchange->status);
    (void)curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &exchange->request_bytes);
    (void)curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &exchange->new_connections);
    (void)curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &exchange->os_error);
    http_pool_end(exchange->pool, &exchange->transfer);
out:
    curl_slist_free_all(exchange->header_list);
}

/* ---- what it means ---- */

static bool is_tls_failure(CURLcode result)
{
    static const CURLcode codes[] = {
        CURLE_SSL_CONNECT_ERROR,       CURLE_PEER_FAILED_VERIFICATION,
        CURLE_SSL_CERTPROBLEM,         CURLE_SSL_CIPHER,
        CURLE_SSL_CACERT_BADFILE,      CURLE_SSL_CRL_BADFILE,
        CURLE_SSL_ISSUER_ERROR,        CURLE_SSL_INVALIDCERTSTATUS,
        CURLE_SSL_CLIENTCERT,          CURLE_SSL_ENGINE_INITFAILED,
        CURLE_SSL_PINNEDPUBKEYNOTMATCH};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (codes[i] == result)
            return true;
    }
    return false;
}

/* Whether the other side may have seen a request. A first write that failed has sent
 * nothing. */
static bool may_have_run(const struct exchange *exchange)
{
    bool nothing_left = exchange->transfer.result == CURLE_SEND_ERROR &&
                        exchange->request_bytes == 0 && exchange->transfer.ended;
    return exchange->sent && !nothing_left;
}

static int report_not_sent(const struct exchange *exchange)
{
    CURLcode result = exchange->transfer.result;
    if (result == CURLE_URL_MALFORMAT || result == CURLE_UNSUPPORTED_PROTOCOL)
        return error_set(exchange->err, ERROR_INVALID_ARGUMENT, "%s: the URL is unusable",
                         exchange->host);
    if (result == CURLE_OUT_OF_MEMORY)
        return error_set_memory(exchange->err, "HTTP transfer");
    if (result == CURLE_OPERATION_TIMEDOUT)
        return error_set(exchange->err, ERROR_PROVIDER_UNAVAILABLE,
                         "%s: no connection within the connect timeout", exchange->host);
    if (is_tls_failure(result))
        return error_set(
            exchange->err, ERROR_PROVIDER_UNAVAILABLE, "%s: TLS failed: %s", exchange->host,
            exchange->detail[0] ? exchange->detail : curl_easy_strerror(result));
    if (exchange->os_error != 0)
        return error_set(exchange->err, ERROR_PROVIDER_UNAVAILABLE, "%s: no connection: %s",
                         exchange->host, strerror((int)exchange->os_error));
    return error_set(exchange->err, ERROR_PROVIDER_UNAVAILABLE, "%s: no connection: %s",
                     exchange->host, curl_easy_strerror(result));
}

static const char *reason_of(const struct exchange *exchange)
{
    if (exchange->stop == STOP_TOO_LARGE)
        return "the answer is larger than allowed";
    if (exchange->stop == STOP_HEADERS)
        return "the answer's headers are larger than allowed";
    if (exchange->stop == STOP_MEMORY)
        return "no memory for the answer";
    if (exchange->broke_early)
        return "the connection broke before an answer";
    return curl_easy_strerror(exchange->transfer.result);
}

static int report(const struct exchange *exchange, int wait)
{
    const char *host = exchange->host[0] ? exchange->host : "HTTP request";
    if (wait == -ECANCELED || exchange->stop == STOP_BY_CALLER)
        return error_set(exchange->err, ERROR_CANCELLED, "%s: cancelled", host);
    if (wait == -ETIMEDOUT && !may_have_run(exchange))
        return error_set(exchange->err, ERROR_TIMEOUT,
                         "%s: the time was up before the request was sent", host);
    if (wait == -ETIMEDOUT)
        return error_set(exchange->err, ERROR_OUTCOME_UNKNOWN,
                         "%s: the time was up before the answer was complete", host);
    if (!may_have_run(exchange))
        return report_not_sent(exchange);
    return error_set(exchange->err, ERROR_OUTCOME_UNKNOWN,
                     "%s: no whole answer after the request was sent: %s", host,
                     reason_of(exchange));
}

/* Now, or in the past, is 1: 0 means that nothing was said. */
static int64_t retry_after_ms(const char *value)
{
    if (!value)
        return 0;
    size_t digits = strspn(value, "0123456789");
    int64_t seconds = 0;
    if (digits > 0 && value[digits] == '\0') {
        seconds = digits > 9 ? MAX_RETRY_AFTER_S : strtol(value, NULL, 10);
    } else {
        /* libcurl's parser takes much that is no date of HTTP; those begin with a day. */
        time_t at = isalpha((unsigned char)value[0]) ? curl_getdate(value, NULL) : -1;
        if (at == -1)
            return -1;
        seconds = (int64_t)at - (int64_t)time(NULL);
    }
    if (seconds > MAX_RETRY_AFTER_S)
        seconds = MAX_RETRY_AFTER_S;
    return seconds > 0 ? seconds * 1000 : 1;
}

static int build_headers(const struct exchange *exchange, struct arena *arena,
                         struct http_response *response)
{
    size_t count = exchange->header_count;
    struct http_header *headers = arena_calloc(arena, count, sizeof(*headers));
    const char *text = arena_copy(arena, exchange->headers.data, exchange->headers.size);
    if (!headers || !text)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        headers[i].name = text;
        headers[i].value = text + strlen(text) + 1;
        text = headers[i].value + strlen(headers[i].value) + 1;
    }
    response->headers = headers;
    response->header_count = count;
    return 0;
}

static int build_response(const struct exchange *exchange, struct arena *arena,
                          struct http_response *ret_response)
{
    const struct buffer *body = &exchange->body;
    struct http_response response = {
        .status = exchange->status,
        .body = arena_text_n(arena, body->data, body->size),
        .body_bytes = body->size,
        .connection_reused = exchange->new_connections == 0,
    };
    /* The request has run: not to be mistaken for a failure that may be repeated. */
    if (!response.body || build_headers(exchange, arena, &response) != 0)
        return error_set(exchange->err, ERROR_OUTCOME_UNKNOWN,
                         "%s: no memory for the answer", exchange->host);
    response.retry_after_ms =
        retry_after_ms(http_response_header(&response, "retry-after"));
    *ret_response = response;
    return 0;
}

int http_perform(const struct http_request *request, struct arena *arena,
                 struct http_response *ret_response, struct error *err)
{
    size_t max_bytes =
        request->max_response_bytes ? request->max_response_bytes : DEFAULT_RESPONSE_BYTES;
    struct exchange exchange = {
        .transfer = {.task = task_self()}, .request = request, .err = err};
    buffer_init(&exchange.body, max_bytes);
    buffer_init(&exchange.headers, (size_t)MAX_HEADER_BYTES * 2);

    struct deadline deadline;
    deadline_enter(&deadline, request->timeout_ms ? request->timeout_ms : UINT64_MAX);
    int wait = task_await("http", start, &exchange);
    deadline_leave(&deadline);
    task_on_loop(end, &exchange);

    int result = -1;
    if (!exchange.refused) {
        bool complete =
            wait == 0 && exchange.transfer.ended && exchange.transfer.result == CURLE_OK;
        result = complete ? build_response(&exchange, arena, ret_response)
                          : report(&exchange, wait);
    }
    buffer_done(&exchange.body);
    buffer_done(&exchange.headers);
    return result;
}

const char *http_response_header(const struct http_response *response, const char *name)
{
    for (size_t i = 0; i < response->header_count; i++) {
        if (strcmp(response->headers[i].name, name) == 0)
            return response->headers[i].value;
    }
    return NULL;
}
