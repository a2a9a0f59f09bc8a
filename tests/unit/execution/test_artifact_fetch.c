/* Artifacts behind an address, against a server that plays scripts. */
#include "artifact_scene.h"

#include <ctype.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <signal.h>

#include "scripted_server.h"

static const char zeros64[] =
    "0000000000000000000000000000000000000000000000000000000000000000";

/* libcurl's lookups end here, so that no test asks a name server. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_addresses)
{
    (void)node;
    (void)service;
    (void)hints;
    (void)ret_addresses;
    return EAI_NONAME;
}

struct fetch_scene {
    struct artifact_scene scene;
    const struct scripted_step *script;
    const char *url;    /* NULL: that of the server with `path` */
    const char *path;   /* NULL: a secret one */
    const char *sha256; /* NULL: that of the archive */
    const char *hosts;  /* NULL: the server's */
    size_t requests;
};

static struct archive packed; /* what the good server sends */
static char packed_sha256[65];
static char *answer; /* head and body of it */
static size_t answer_bytes;

static int make_packed(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    struct archive archive = {0};
    unsigned char sum[EVP_MAX_MD_SIZE];
    archive_entry(&archive, '0', "./package.json", NULL, "{\"name\":\"v\"}");
    char *noise = malloc(200000);
    if (!noise)
        return -1;
    for (size_t i = 0; i < 200000; i++)
        noise[i] = (char)(i * i >> 5);
    archive_bytes(&archive, '0', "./noise", noise, 200000);
    free(noise);
    archive_end(&archive);
    packed.data = archive_gzip(&archive, &packed.bytes);
    archive_done(&archive);
    if (EVP_Digest(packed.data, packed.bytes, sum, NULL, EVP_sha256(), NULL) != 1)
        return -1;
    for (size_t i = 0; i < 32; i++)
        (void)snprintf(packed_sha256 + i * 2, 3, "%02x", sum[i]);
    int head =
        asprintf(&answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", packed.bytes);
    answer = realloc(answer, (size_t)head + packed.bytes);
    memcpy(answer + head, packed.data, packed.bytes);
    answer_bytes = (size_t)head + packed.bytes;
    return 0;
}

static int free_packed(void **state)
{
    (void)state;
    free(answer);
    archive_done(&packed);
    return 0;
}

static int get_url(struct artifact_scene *scene, struct arena *arena,
                   struct artifact **ret_artifact, struct error *err)
{
    struct fetch_scene *fetch = scene->arg;
    char url[256];
    char hosts[64];
    static const struct scripted_step nothing[] = {{SCRIPTED_END, NULL, 0}};
    const struct scripted_step *const scripts[] = {fetch->script ? fetch->script : nothing,
                                                   NULL};
    struct scripted_server *server =
        scripted_server_start(&(struct scripted_options){.scripts = scripts});
    if (!server)
        return -7;
    (void)snprintf(hosts, sizeof(hosts), "http://127.0.0.1:%d",
                   scripted_server_port(server));
    (void)snprintf(url, sizeof(url), "%s%s", hosts,
                   fetch->path ? fetch->path : "/secret-path/a.tgz?secret-query=1");
    const struct artifact_address address = {.url = fetch->url ? fetch->url : url,
                                             .sha256 = fetch->sha256 ? fetch->sha256
                                                                     : packed_sha256,
                                             .hosts = fetch->hosts ? fetch->hosts : hosts};
    int returned = artifact_from_url(&address, &scene->limits, scene->install_command,
                                     arena, ret_artifact, err);
    fetch->requests = scripted_server_requests(server);
    scripted_server_free(server);
    return returned;
}

static void fetch(struct fetch_scene *fetch)
{
    fetch->scene.get = get_url;
    fetch->scene.arg = fetch;
    scene_run(&fetch->scene);
    if (strstr(fetch->scene.err.message, "secret"))
        fail_msg("tells the path: %s", fetch->scene.err.message);
}

static void an_artifact_is_fetched_and_checked(void **state)
{
    (void)state;
    const struct scripted_step script[] = {{SCRIPTED_EXPECT, NULL, 0},
                                           {SCRIPTED_SEND, answer, answer_bytes},
                                           {SCRIPTED_END, NULL, 0}};
    struct fetch_scene lower = {.script = script};
    fetch(&lower);
    assert_taken(&lower.scene);
    assert_int_equal(lower.scene.kept_bytes, packed.bytes);
    assert_memory_equal(lower.scene.kept, packed.data, packed.bytes);
    /* Row 258 of the recorded answers. */
    assert_string_equal(lower.scene.install_hash,
                        "94ba98a7f07031210858513697da93e60c2e8e2a7c97bab8002216f570c31c2c");
    scene_done(&lower.scene);
}

static void assert_upload_failed(const struct fetch_scene *fetch, bool retryable,
                                 const char *said)
{
    assert_int_equal(fetch->scene.returned, -1);
    assert_true(fetch->scene.untouched);
    assert_string_equal(error_code_name(fetch->scene.err.code), "deploy_failed");
    assert_string_equal(fetch->scene.err.phase, "upload");
    assert_int_equal(fetch->scene.err.retryable, retryable);
    if (!strstr(fetch->scene.err.message, said))
        fail_msg("\"%s\" does not say \"%s\"", fetch->scene.err.message, said);
}

static void other_bytes_than_those_named_are_refused(void **state)
{
    (void)state;
    const struct scripted_step script[] = {{SCRIPTED_EXPECT, NULL, 0},
                                           {SCRIPTED_SEND, answer, answer_bytes},
                                           {SCRIPTED_END, NULL, 0}};
    struct fetch_scene scene = {.script = script, .sha256 = zeros64};
    fetch(&scene);
    assert_upload_failed(&scene, false, "not the one in artifact.sha256");
    assert_int_equal(scene.requests, 1);
}

/* Every digit counts, and none by its case. */
static void the_whole_hash_is_compared(void **state)
{
    (void)state;
    const struct scripted_step script[] = {{SCRIPTED_EXPECT, NULL, 0},
                                           {SCRIPTED_SEND, answer, answer_bytes},
                                           {SCRIPTED_END, NULL, 0}};
    char other[65];
    memcpy(other, packed_sha256, sizeof(other));
    other[63] = other[63] == '0' ? '1' : '0';
    struct fetch_scene last_digit = {.script = script, .sha256 = other};
    fetch(&last_digit);
    assert_upload_failed(&last_digit, false, "not the one in artifact.sha256");
    for (size_t i = 0; i < 64; i++)
        other[i] = (char)toupper((unsigned char)packed_sha256[i]);
    assert_string_not_equal(other, packed_sha256);
    struct fetch_scene upper = {.script = script, .sha256 = other};
    fetch(&upper);
    assert_taken(&upper.scene);
    scene_done(&upper.scene);
}

static void each_status_has_its_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        bool retryable;
        const char *said;
        int64_t retry_after_ms;
    } cases[] = {
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", false, "answered 404", 0},
        {"HTTP/1.1 403 No\r\nContent-Length: 4\r\n\r\nnope", false, "answered 403", 0},
        {"HTTP/1.1 204 None\r\n\r\n", false, "answered 204", 0},
        {"HTTP/1.1 206 Part\r\nContent-Length: 1\r\n\r\nx", false, "answered 206", 0},
        {"HTTP/1.1 302 Found\r\nLocation: http://secret/\r\nContent-Length: 0\r\n\r\n",
         false, "answered 302, and redirects are not followed", 0},
        {"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", true,
         "answered 429", 7000},
        {"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", true, "answered 500", 0},
        {"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n", true,
         "answered 503", 2000},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", true, "no whole answer", 0},
        {"not HTTP\r\n\r\n", true, "no whole answer", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct scripted_step script[] = {{SCRIPTED_EXPECT, NULL, 0},
                                               {SCRIPTED_SEND, cases[i].answer, 0},
                                               {SCRIPTED_CLOSE, NULL, 0},
                                               {SCRIPTED_END, NULL, 0}};
        struct fetch_scene scene = {.script = script};
        fetch(&scene);
        assert_upload_failed(&scene, cases[i].retryable, cases[i].said);
        assert_int_equal(scene.scene.err.retry_after_ms, cases[i].retry_after_ms);
    }
}

static void nobody_there_may_pass(void **state)
{
    (void)state;
    /* Port 1 of this host: nothing listens there. */
    struct fetch_scene scene = {.url = "http://127.0.0.1:1/secret",
                                .hosts = "http://127.0.0.1:1"};
    fetch(&scene);
    assert_upload_failed(&scene, true, "127.0.0.1:1: no connection");
}

static void assert_refused_url(const struct fetch_scene *fetch, const char *field,
                               const char *said)
{
    if (fetch->scene.returned == 0)
        fail_msg("taken: %s", fetch->url);
    assert_true(fetch->scene.untouched);
    assert_int_equal(fetch->scene.err.code, ERROR_INVALID_ARGUMENT);
    assert_string_equal(fetch->scene.err.field, field);
    if (!strstr(fetch->scene.err.message, said))
        fail_msg("%s: \"%s\" does not say \"%s\"", fetch->url ? fetch->url : "",
                 fetch->scene.err.message, said);
    assert_int_equal(fetch->requests, 0);
}

static void only_hosts_on_the_list_are_asked(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *hosts;
    } cases[] = {
        {"https://evil.test/a", "good.test"},
        {"https://good.test.evil.test/a", "good.test"},
        {"https://evil.test/good.test", "good.test"},
        {"https://evil.test#good.test", "good.test"},
        {"https://sub.good.test/a", "good.test"},
        {"https://good.test./a", "good.test"},
        {"https://good.test:8443/a", "good.test"},
        {"https://good.test/a", "good.test:8443"},
        {"http://good.test/a", "good.test"},
        {"http://good.test:443/a", "https://good.test"},
        {"https://good.test/a", "http://good.test:443"},
        {"https://good.test/a", ""},
        {"https://good.test/a", " , "},
        {"https://good.test/a", "other.test, good.tes good"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fetch_scene scene = {.url = cases[i].url, .hosts = cases[i].hosts};
        fetch(&scene);
        assert_refused_url(&scene, "artifact.url", "artifacts may not be fetched from");
        assert_non_null(strstr(scene.scene.err.remedy, "artifact_hosts"));
    }
}

static void what_is_no_plain_url_is_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "",
        "good.test/a",
        "ftp://good.test/a",
        "file:///etc/passwd",
        "https://user:secret@good.test/a",
        "https://evil.test@good.test/a",
        "https://",
        "https://good.test/a b",
        "https://good.test/a\r\nX: y",
    };
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct fetch_scene scene = {.url = urls[i], .hosts = "good.test"};
        fetch(&scene);
        assert_refused_url(&scene, "artifact.url", "url must be a plain https URL");
    }
}

/* The name does not exist, so that getting as far as looking it up is enough. */
static void a_host_is_found_anywhere_on_the_list(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *hosts;
    } cases[] = {
        {"https://good.invalid/a", "good.invalid"},
        {"https://GOOD.invalid:443/a", "other.test,good.invalid"},
        {"https://good.invalid/a", "other.test https://good.invalid\tmore.test"},
        {"https://good.invalid:8443/a", "good.invalid,good.invalid:8443"},
        {"http://good.invalid/a", ", http://good.invalid ,"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fetch_scene scene = {.url = cases[i].url, .hosts = cases[i].hosts};
        fetch(&scene);
        assert_upload_failed(&scene, true, "no connection");
    }
}

static void the_hash_must_be_one(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "abc", "x"};
    char long_one[66];
    memset(long_one, 'a', 65);
    long_one[65] = '\0';
    for (size_t i = 0; i < 4; i++) {
        struct fetch_scene scene = {.sha256 = i < 3 ? bad[i] : long_one};
        fetch(&scene);
        assert_refused_url(&scene, "artifact.sha256", "64 hexadecimal digits");
    }
}

static void more_than_the_limit_is_not_fetched(void **state)
{
    (void)state;
    static const struct scripted_step script[] = {
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n", 0},
        {SCRIPTED_FILL, NULL, 1000000},
        {SCRIPTED_STALL, NULL, 0},
        {SCRIPTED_END, NULL, 0}};
    struct fetch_scene scene = {.script = script,
                                .scene = {.limits = {.max_bytes = 50000}}};
    fetch(&scene);
    assert_int_equal(scene.scene.returned, -1);
    assert_int_equal(scene.scene.err.code, ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(scene.scene.err.message, "larger than 50000 bytes"));
}

static void no_place_for_it_may_pass(void **state)
{
    (void)state;
    struct fetch_scene scene = {.scene = {.limits = {.temp_dir = "/nowhere"}}};
    fetch(&scene);
    assert_upload_failed(&scene, true, "the worker's temporary directory");
    assert_int_equal(scene.requests, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_artifact_is_fetched_and_checked),
        cmocka_unit_test(other_bytes_than_those_named_are_refused),
        cmocka_unit_test(the_whole_hash_is_compared),
        cmocka_unit_test(each_status_has_its_meaning),
        cmocka_unit_test(nobody_there_may_pass),
        cmocka_unit_test(only_hosts_on_the_list_are_asked),
        cmocka_unit_test(what_is_no_plain_url_is_refused),
        cmocka_unit_test(a_host_is_found_anywhere_on_the_list),
        cmocka_unit_test(the_hash_must_be_one),
        cmocka_unit_test(more_than_the_limit_is_not_fetched),
        cmocka_unit_test(no_place_for_it_may_pass),
    };
    return cmocka_run_group_tests(tests, make_packed, free_packed);
}
