/* URLs are split and percent-decoded by libcurl's URL interface. */
#include "queue/address.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void url_cleanup(CURLU **url)
{
    curl_url_cleanup(*url);
}

/* Copies one decoded part; an absent one leaves `text` as it is. */
static int take_part(CURLU *url, CURLUPart part, const char *name, char *text, size_t size,
                     struct error *err)
{
    char *value = NULL;
    CURLUcode failed = curl_url_get(url, part, &value, CURLU_URLDECODE);
    if (failed == CURLUE_NO_USER || failed == CURLUE_NO_PASSWORD ||
        failed == CURLUE_NO_PORT || failed == CURLUE_NO_QUERY || failed == CURLUE_NO_HOST)
        return 0;
    if (failed != CURLUE_OK)
        return error_set(err, ERROR_CONFIGURATION, "the %s of the Redis URL: %s", name,
                         curl_url_strerror(failed));
    int written = snprintf(text, size, "%s", value);
    curl_free(value);
    if (written < 0 || (size_t)written >= size)
        return error_set(err, ERROR_CONFIGURATION, "the %s of the Redis URL is too long",
                         name);
    return 0;
}

static int parse_db(const char *text, int *ret_db, struct error *err)
{
    char *end = NULL;
    errno = 0;
    long db = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || db < 0 || db > 65535)
        return error_set(err, ERROR_CONFIGURATION,
                         "the database of a Redis URL is a number such as 0");
    *ret_db = (int)db;
    return 0;
}

static int parse_tcp(CURLU *url, struct address *address, struct error *err)
{
    char port[8] = "6379";
    char path[16] = "/";
    if (take_part(url, CURLUPART_HOST, "host", address->host, sizeof(address->host), err) !=
            0 ||
        take_part(url, CURLUPART_PORT, "port", port, sizeof(port), err) != 0 ||
        take_part(url, CURLUPART_PATH, "path", path, sizeof(path), err) != 0)
        return -1;
    size_t length = strlen(address->host);
    if (length > 2 && address->host[0] == '[') {
        memmove(address->host, address->host + 1, length - 2);
        address->host[length - 2] = '\0';
    }
    address->port = (int)strtol(port, NULL, 10);
    if (address->host[0] == '\0' || address->port == 0)
        return error_set(err, ERROR_CONFIGURATION,
                         "a redis:// URL needs a host and a port");
    return path[1] ? parse_db(path + 1, &address->db, err) : 0;
}

static int parse_unix(CURLU *url, struct address *address, struct error *err)
{
    char query[32] = "";
    if (take_part(url, CURLUPART_PATH, "socket path", address->path, sizeof(address->path),
                  err) != 0 ||
        take_part(url, CURLUPART_QUERY, "query", query, sizeof(query), err) != 0)
        return -1;
    if (address->path[0] != '/' || address->path[1] == '\0')
        return error_set(err, ERROR_CONFIGURATION,
                         "a unix:// URL needs the absolute path of a socket, as in "
                         "unix:///run/redis/redis.sock");
    address->is_unix = true;
    if (strncmp(query, "db=", 3) == 0)
        return parse_db(query + 3, &address->db, err);
    if (query[0])
        return error_set(err, ERROR_CONFIGURATION, "a unix:// URL takes only ?db=N");
    return 0;
}

/* libcurl wants a host where unix://[user:password@]/path has none: one is put in. */
static int with_host(const char *text, char *full, size_t size, struct error *err)
{
    static const char scheme[] = "unix://";
    const char *host = "localhost";
    size_t head = strlen(text);
    if (strncmp(text, scheme, sizeof(scheme) - 1) == 0) {
        const char *authority = text + sizeof(scheme) - 1;
        head = sizeof(scheme) - 1 + strcspn(authority, "/");
        if (head > sizeof(scheme) - 1 && text[head - 1] != '@')
            return error_set(err, ERROR_CONFIGURATION,
                             "a unix:// URL has no host: write unix:///path/to/socket");
    } else {
        host = "";
    }
    int written = snprintf(full, size, "%.*s%s%s", (int)head, text, host, text + head);
    if (written < 0 || (size_t)written >= size)
        return error_set(err, ERROR_CONFIGURATION, "the Redis URL is too long");
    return 0;
}

int address_parse(const char *text, struct address *ret_address, struct error *err)
{
    char full[2048];
    __attribute__((cleanup(url_cleanup))) CURLU *url = curl_url();
    struct address address = {0};
    char scheme[16] = "";
    if (!url)
        return error_set_memory(err, "a Redis URL");
    if (with_host(text, full, sizeof(full), err) != 0)
        return -1;
    if (curl_url_set(url, CURLUPART_URL, full, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
        return error_set(err, ERROR_CONFIGURATION,
                         "not a Redis URL (redis://host:port/db or unix:///path)");
    if (take_part(url, CURLUPART_SCHEME, "scheme", scheme, sizeof(scheme), err) != 0 ||
        take_part(url, CURLUPART_USER, "user", address.user, sizeof(address.user), err) !=
            0 ||
        take_part(url, CURLUPART_PASSWORD, "password", address.password,
                  sizeof(address.password), err) != 0)
        return -1;
    int failed;
    if (strcmp(scheme, "redis") == 0)
        failed = parse_tcp(url, &address, err);
    else if (strcmp(scheme, "unix") == 0)
        failed = parse_unix(url, &address, err);
    else
        failed = error_set(err, ERROR_CONFIGURATION,
                           "Redis URLs begin with redis:// or unix://, not %s://", scheme);
    if (failed)
        return -1;
    *ret_address = address;
    return 0;
}

void address_describe(const struct address *address, char *text, unsigned size)
{
    if (address->is_unix)
        (void)snprintf(text, size, "unix:%s db %d", address->path, address->db);
    else
        (void)snprintf(text, size, "%s:%d db %d", address->host, address->port,
                       address->db);
}
