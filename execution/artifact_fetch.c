/* An artifact behind an address: on the operator's list, over TLS, streamed into a file
 * without a name, its hash taken on the way. */
#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "execution/artifact.h"
#include "execution/artifact_origin.h"
#include "execution/artifact_temp.h"
#include "runtime/deadline.h"
#include "runtime/http.h"

enum { SHA256_LENGTH = 64, HOST_MAX = 256, PORT_MAX = 8 };

/* ---- the list ---- */

struct place {
    bool is_plain; /* http */
    char host[HOST_MAX];
    char port[PORT_MAX];
};

static bool copy_part(CURLU *url, CURLUPart part, unsigned flags, char *text, size_t size)
{
    char *value = NULL;
    bool fits = curl_url_get(url, part, &value, flags) == CURLUE_OK &&
                strlen(value) < size && value[0];
    if (fits)
        memcpy(text, value, strlen(value) + 1);
    curl_free(value);
    return fits;
}

/* Read as the transfer itself will read it. */
static bool read_place(const char *text, struct place *ret_place)
{
    char scheme[8] = "";
    struct place place = {0};
    CURLU *url = curl_url();
    if (!url)
        return false;
    bool usable =
        curl_url_set(url, CURLUPART_URL, text, CURLU_DISALLOW_USER) == CURLUE_OK &&
        copy_part(url, CURLUPART_SCHEME, 0, scheme, sizeof(scheme)) &&
        copy_part(url, CURLUPART_HOST, 0, place.host, sizeof(place.host)) &&
        copy_part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT, place.port, sizeof(place.port));
    curl_url_cleanup(url);
    place.is_plain = strcmp(scheme, "http") == 0;
    if (!usable || (!place.is_plain && strcmp(scheme, "https") != 0))
        return false;
    *ret_place = place;
    return true;
}

/* One word of the list; the scheme is https where none is given. */
static bool entry_allows(const char *entry, size_t bytes, const struct place *place)
{
    char text[HOST_MAX + 32];
    struct place allowed;
    bool has_scheme = memmem(entry, bytes, "://", 3) != NULL;
    int length = snprintf(text, sizeof(text), "%s%.*s", has_scheme ? "" : "https://",
                          (int)bytes, entry);
    if (length < 0 || (size_t)length >= sizeof(text) || !read_place(text, &allowed))
        return false;
    return allowed.is_plain == place->is_plain &&
           strcasecmp(allowed.host, place->host) == 0 &&
           strcmp(allowed.port, place->port) == 0;
}

static bool list_allows(const char *hosts, const struct place *place)
{
    static const char separators[] = " \t,";
    while (hosts && *hosts) {
        hosts += strspn(hosts, separators);
        size_t bytes = strcspn(hosts, separators);
        if (bytes > 0 && entry_allows(hosts, bytes, place))
            return true;
        hosts += bytes;
    }
    return false;
}

static int refuse_place(const struct artifact_address *address, const struct place *place,
                        struct error *err)
{
    bool has_list = address->hosts && address->hosts[0];
    (void)error_set_field(
        err, "artifact.url", "artifacts may not be fetched from %s%.128s:%s",
        place->is_plain ? "http://" : "https://", place->host, place->port);
    if (err)
        err->remedy = has_list ? "The operator can add the host to artifact_hosts "
                                 "(ATTACHD_ARTIFACT_HOSTS)."
                               : "The operator can name hosts in artifact_hosts "
                                 "(ATTACHD_ARTIFACT_HOSTS); none is named.";
    return -1;
}

static bool is_sha256(const char *text)
{
    if (!text || strlen(text) != SHA256_LENGTH)
        return false;
    for (const char *c = text; *c; c++) {
        if (!isxdigit((unsigned char)*c))
            return false;
    }
    return true;
}

static int check_address(const struct artifact_address *address, struct error *err)
{
    struct place place;
    if (!is_sha256(address->sha256))
        return error_set_field(err, "artifact.sha256",
                               "sha256 must be 64 hexadecimal digits");
    if (!address->url || !read_place(address->url, &place))
        return error_set_field(err, "artifact.url",
                               "url must be a plain https URL without a user");
    if (!list_allows(address->hosts, &place))
        return refuse_place(address, &place, err);
    return 0;
}

/* ---- the transfer ---- */

struct fetch {
    const struct artifact_address *address;
    const char *temp_dir;
    int fd;
    uint64_t bytes;
    uint64_t max_bytes;
    EVP_MD_CTX *digest;
    int failed; /* -errno of the file; -EFBIG: larger than allowed */
};

/* On the loop's stack. The file is the page cache's, so writing 16 KiB is a copy. */
static int take_piece(void *arg, const void *data, size_t bytes)
{
    struct fetch *fetch = arg;
    if (bytes > fetch->max_bytes - fetch->bytes)
        fetch->failed = -EFBIG;
    else
        fetch->failed = artifact_temp_write(fetch->fd, fetch->bytes, data, bytes);
    if (!fetch->failed && EVP_DigestUpdate(fetch->digest, data, bytes) != 1)
        fetch->failed = -ENOMEM;
    if (fetch->failed)
        return -1;
    fetch->bytes += bytes;
    return 0;
}

static int transfer_failed(const struct fetch *fetch, struct error *err)
{
    if (fetch->failed == -EFBIG)
        return error_set_field(err, "artifact.url",
                               "the artifact is larger than %llu bytes "
                               "(artifact_max_bytes)",
                               (unsigned long long)fetch->max_bytes);
    if (fetch->failed)
        return artifact_temp_fail(err, fetch->failed);
    if (err && err->code == ERROR_OUTCOME_UNKNOWN && deadline_left_ms() == 0)
        return error_set(err, ERROR_TIMEOUT, "fetching the artifact took too long");
    if (err && err->code == ERROR_INVALID_ARGUMENT)
        return error_set_field(err, "artifact.url",
                               "url must be a plain https URL without a user");
    if (err &&
        (err->code == ERROR_PROVIDER_UNAVAILABLE || err->code == ERROR_OUTCOME_UNKNOWN)) {
        err->retryable = true; /* reading twice does no harm */
        return artifact_upload_failed(err);
    }
    return -1;
}

static int check_status(const struct http_response *response, struct error *err)
{
    if (response->status == 200)
        return 0;
    bool is_redirect = response->status >= 300 && response->status <= 399;
    (void)error_set(err, ERROR_DEPLOY_FAILED, "the artifact's server answered %ld%s",
                    response->status,
                    is_redirect ? ", and redirects are not followed" : "");
    if (err) {
        err->retryable = response->status == 429 || response->status >= 500;
        if (err->retryable && response->retry_after_ms > 0)
            err->retry_after_ms = response->retry_after_ms;
    }
    return artifact_upload_failed(err);
}

static int check_sum(const struct fetch *fetch, const char *wanted, struct error *err)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    char text[SHA256_LENGTH + 1];
    if (EVP_DigestFinal_ex(fetch->digest, sum, NULL) != 1)
        return error_set_memory(err, "the artifact's hash");
    for (int i = 0; i < SHA256_LENGTH / 2; i++)
        (void)snprintf(text + (size_t)i * 2, 3, "%02x", sum[i]);
    if (strcasecmp(text, wanted) == 0)
        return 0;
    (void)error_set(err, ERROR_DEPLOY_FAILED,
                    "the artifact that was fetched has the SHA-256 %.16s..., not the one "
                    "in artifact.sha256",
                    text);
    return artifact_upload_failed(err);
}

static int transfer(struct fetch *fetch, struct arena *arena, struct error *err)
{
    const struct http_request request = {.method = "GET",
                                         .url = fetch->address->url,
                                         .on_data = take_piece,
                                         .on_data_arg = fetch};
    struct http_response response;
    if (http_perform(&request, arena, &response, err) != 0)
        return transfer_failed(fetch, err);
    if (check_status(&response, err) != 0)
        return -1;
    return check_sum(fetch, fetch->address->sha256, err);
}

/* In the thread pool: neither libcurl's parser nor libcrypto is a guest for the small stack
 * of a task. */
static int prepare(void *arg, struct error *err)
{
    struct fetch *fetch = arg;
    if (check_address(fetch->address, err) != 0)
        return -1;
    fetch->digest = EVP_MD_CTX_new();
    if (!fetch->digest || EVP_DigestInit_ex(fetch->digest, EVP_sha256(), NULL) != 1)
        return error_set_memory(err, "the artifact's hash");
    fetch->fd = artifact_temp_open(fetch->temp_dir);
    return fetch->fd >= 0 ? 0 : artifact_temp_fail(err, fetch->fd);
}

int artifact_from_url(const struct artifact_address *address,
                      const struct artifact_limits *limits, const char *install_command,
                      struct arena *arena, struct artifact **ret_artifact,
                      struct error *err)
{
    struct fetch fetch = {.address = address,
                          .temp_dir = artifact_temp_dir(limits),
                          .fd = -1,
                          .max_bytes = limits->max_bytes};
    int failed = artifact_work("prepare artifact", prepare, &fetch, err);
    if (!failed)
        failed = transfer(&fetch, arena, err);
    EVP_MD_CTX_free(fetch.digest);
    if (!failed)
        return artifact_take_file(fetch.fd, fetch.bytes, limits, install_command, arena,
                                  ret_artifact, err);
    if (fetch.fd >= 0)
        (void)close(fetch.fd);
    return -1;
}
