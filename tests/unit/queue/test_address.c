/* Redis URLs: a table of good and bad ones. */
#include "support.h"

#include <string.h>

#include "queue/address.h"

static const struct {
    const char *url;
    struct address expected;
} good[] = {
    {"redis://localhost", {.host = "localhost", .port = 6379}},
    {"redis://10.0.0.1:7000/3", {.host = "10.0.0.1", .port = 7000, .db = 3}},
    {"redis://[::1]:7000", {.host = "::1", .port = 7000}},
    {"redis://:se%40cret@h:1/0", {.host = "h", .port = 1, .password = "se@cret"}},
    {"redis://bob:pw@h", {.host = "h", .port = 6379, .user = "bob", .password = "pw"}},
    {"unix:///run/redis.sock", {.is_unix = true, .path = "/run/redis.sock"}},
    {"unix:///run/a%20b.sock?db=2", {.is_unix = true, .path = "/run/a b.sock", .db = 2}},
    {"unix://:pw@/run/r.sock", {.is_unix = true, .path = "/run/r.sock", .password = "pw"}},
};

static void good_urls_are_taken_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const struct address *expected = &good[i].expected;
        struct address address = {0};
        struct error err = {0};
        if (address_parse(good[i].url, &address, &err) != 0)
            fail_msg("%s: %s", good[i].url, err.message);
        assert_int_equal(address.is_unix, expected->is_unix);
        assert_string_equal(address.host, expected->host);
        assert_int_equal(address.port, expected->port);
        assert_string_equal(address.path, expected->path);
        assert_string_equal(address.user, expected->user);
        assert_string_equal(address.password, expected->password);
        assert_int_equal(address.db, expected->db);
    }
}

static const char *const bad[] = {
    "",
    "localhost:6379",
    "http://h/0",
    "rediss://h", /* TLS is not there yet: better refused than in clear */
    "redis://h:6379/x",
    "redis://h:6379/-1",
    "redis://h:99999",
    "redis://",
    "unix://",
    "unix:///",
    "unix://host/path",
    "unix:///p?db=x",
    "unix:///p?other=1",
    "redis://:a%0Ab@h", /* a password that cannot be taken is not left out */
};

static void bad_urls_are_refused_with_the_output_untouched(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct address address = {.port = 42};
        struct error err = {0};
        if (address_parse(bad[i], &address, &err) == 0)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(err.code, ERROR_CONFIGURATION);
        assert_int_equal(address.port, 42);
    }
}

static void a_path_longer_than_a_socket_address_is_refused(void **state)
{
    (void)state;
    char url[256] = "unix:///";
    struct address address;
    struct error err = {0};
    memset(url + 8, 'p', 150);
    assert_int_equal(address_parse(url, &address, &err), -1);
    assert_non_null(strstr(err.message, "too long"));
}

static void neither_error_nor_description_holds_the_password(void **state)
{
    (void)state;
    struct address address;
    struct error err = {0};
    char text[256];
    assert_int_equal(address_parse("redis://u:s3cret@h:1/zz", &address, &err), -1);
    assert_null(strstr(err.message, "s3cret"));
    assert_int_equal(address_parse("redis://u:s3cret@h:1/4", &address, &err), 0);
    address_describe(&address, text, sizeof(text));
    assert_string_equal(text, "h:1 db 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_urls_are_taken_apart),
        cmocka_unit_test(bad_urls_are_refused_with_the_output_untouched),
        cmocka_unit_test(a_path_longer_than_a_socket_address_is_refused),
        cmocka_unit_test(neither_error_nor_description_holds_the_password),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
