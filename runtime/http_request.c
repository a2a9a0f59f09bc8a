/* Checks on what callers put together from names that came with a job: one line break too
 * many in a header or URL would be a second request. */
#include "runtime/http_request.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/error.h"
#include "runtime/http.h"

struct method {
    const char *name;
    bool wants_body;
};

static const struct method *find_method(const char *name)
{
    static const struct method methods[] = {{"GET", false},    {"POST", true},
                                            {"PUT", true},     {"PATCH", true},
                                            {"DELETE", false}, {"HEAD", false}};
    for (size_t i = 0; name && i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    }
    return NULL;
}

bool http_request_wants_body(const struct http_request *request)
{
    const struct method *method = find_method(request->method);
    return method && method->wants_body;
}

static bool has_control_or_space(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c <= ' ' || *c == 0x7f)
            return true;
    }
    return false;
}

static int name_host(CURLU *url, char *ret_host, size_t host_bytes)
{
    char *host = NULL;
    char *port = NULL;
    int named = -1;
    if (curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK && host[0]) {
        bool has_port = curl_url_get(url, CURLUPART_PORT, &port, 0) == CURLUE_OK;
        (void)snprintf(ret_host, host_bytes, "%s%s%s", host, has_port ? ":" : "",
                       has_port ? port : "");
        named = 0;
    }
    curl_free(host);
    curl_free(port);
    return named;
}

int http_request_check(const struct http_request *request, char *ret_host,
                       size_t host_bytes, struct error *err)
{
    const struct method *method = find_method(request->method);
    if (!method || (strcmp(method->name, "HEAD") == 0 && request->body))
        return error_set(err, ERROR_INVALID_ARGUMENT,
                         "the HTTP method is not one of GET, POST, PUT, PATCH, DELETE, and "
                         "HEAD without a body");
    if (!request->url || has_control_or_space(request->url))
        return error_set(err, ERROR_INVALID_ARGUMENT,
                         "the URL is missing or holds a space or control character");
    CURLU *url = curl_url();
    if (!url)
        return error_set_memory(err, "URL");
    char *scheme = NULL;
    bool usable =
        curl_url_set(url, CURLUPART_URL, request->url, CURLU_DISALLOW_USER) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
        (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0) &&
        name_host(url, ret_host, host_bytes) == 0;
    curl_free(scheme);
    curl_url_cleanup(url);
    if (!usable)
        return error_set(err, ERROR_INVALID_ARGUMENT,
                         "the URL is not a plain http or https URL without a user");
    return 0;
}

/* ---- headers ---- */

static bool is_name_character(unsigned char c)
{
    return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* The length of the header's name; 0: the header is not "Name: value" on one line. */
static size_t check_header(const char *header)
{
    size_t name_bytes = 0;
    while (is_name_character((unsigned char)header[name_bytes]))
        name_bytes++;
    if (header[name_bytes] != ':')
        return 0;
    const unsigned char *value = (const unsigned char *)header + name_bytes + 1;
    for (; *value; value++) {
        if ((*value < ' ' && *value != '\t') || *value == 0x7f)
            return 0;
    }
    return name_bytes;
}

static bool is_named(const char *header, size_t name_bytes, const char *name)
{
    return strlen(name) == name_bytes && strncasecmp(header, name, name_bytes) == 0;
}

static int append(struct curl_slist **list, const char *header, struct error *err)
{
    struct curl_slist *longer = curl_slist_append(*list, header);
    if (!longer)
        return error_set_memory(err, "HTTP headers");
    *list = longer;
    return 0;
}

/* libcurl reads "Name:" as "leave that header out" and "Name;" as an empty one. */
static int append_empty(struct curl_slist **list, const char *header, size_t name_bytes,
                        struct error *err)
{
    char *empty = strndup(header, name_bytes + 1);
    if (!empty)
        return error_set_memory(err, "HTTP headers");
    empty[name_bytes] = ';';
    int failed = append(list, empty, err);
    free(empty);
    return failed;
}

static int add_header(struct curl_slist **list, const char *header, const char *host,
                      struct error *err)
{
    size_t name_bytes = check_header(header);
    if (name_bytes == 0)
        return error_set(err, ERROR_INVALID_ARGUMENT,
                         "%s: a request header is not \"Name: value\" on one line", host);
    if (is_named(header, name_bytes, "Content-Length") ||
        is_named(header, name_bytes, "Transfer-Encoding"))
        return error_set(err, ERROR_INVALID_ARGUMENT,
                         "%s: the request's length is not for its headers to say", host);
    const char *value = header + name_bytes + 1;
    if (value[strspn(value, " \t")] == '\0')
        return append_empty(list, header, name_bytes, err);
    return append(list, header, err);
}

static int add_all(const struct http_request *request, const char *host,
                   struct curl_slist **list, struct error *err)
{
    bool has_type = false;
    for (const char *const *header = request->headers; header && *header; header++) {
        if (add_header(list, *header, host, err) != 0)
            return -1;
        has_type |= is_named(*header, strcspn(*header, ":"), "Content-Type");
    }
    if (!has_type && append(list, "Content-Type:", err) != 0)
        return -1; /* libcurl would call the body a form */
    /* No waiting for "100 Continue": servers that never say it cost a second each. */
    return append(list, "Expect:", err);
}

int http_request_headers(const struct http_request *request, const char *host,
                         struct curl_slist **ret_list, struct error *err)
{
    struct curl_slist *list = NULL;
    if (add_all(request, host, &list, err) != 0) {
        curl_slist_free_all(list);
        return -1;
    }
    *ret_list = list;
    return 0;
}
