/* Configuration: file, environment over it, defaults, and what is said of mistakes. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/provider.h"
#include "worker/config.h"

/* The environment of the case at hand: name, value, name, value, NULL. */
static const char *const *environment;

static const char *get(const char *variable)
{
    for (const char *const *pair = environment; pair && *pair; pair += 2) {
        if (strcmp(pair[0], variable) == 0)
            return pair[1];
    }
    return NULL;
}

static struct arena *arena;
static struct error err;
static struct config config;

static int set_up(void **state)
{
    (void)state;
    arena = arena_new(4 * 1024 * 1024);
    environment = NULL;
    err = (struct error){0};
    config = (struct config){.slots = 42};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static int parse(const char *text)
{
    return config_parse(text, "a.ini", get, arena, &config, &err);
}

static void without_anything_the_defaults_serve(void **state)
{
    (void)state;
    assert_int_equal(parse(NULL), 0);
    assert_string_equal(config.queue, "default");
    assert_int_equal(config.lease_ms, 30000);
    assert_int_equal(config.reply_maxlen, 100000);
    assert_int_equal(config.address.port, 6379);
    assert_int_equal(config.log_level, LOG_INFO);
    assert_string_equal(config.artifact_root, "");
    assert_string_equal(config.artifact_hosts, "");
    assert_int_equal(config.artifact_max_bytes, 256 << 20);
    assert_int_equal(config.artifact_unpacked_max_bytes, 2048L << 20);
    assert_non_null(config_profile(&config, "cua-fleet"));
    /* It runs commands on this host: it exists only where a root is configured. */
    assert_null(config_profile(&config, "local"));
}

static void the_environment_wins_over_the_file(void **state)
{
    (void)state;
    static const char *const pairs[] = {"ATTACHD_QUEUE", "fromenv", "ATTACHD_LOCAL_ROOT",
                                        "/env", NULL};
    environment = pairs;
    assert_int_equal(parse("[queue]\nname = fromfile\nlease_ms = 5000\n"
                           "[provider local]\nroot = /file\n"),
                     0);
    assert_string_equal(config.queue, "fromenv");
    assert_int_equal(config.lease_ms, 5000);
    assert_string_equal(profile_setting(config_profile(&config, "local"), "root"), "/env");
}

static void providers_are_sections_with_a_name_and_a_type(void **state)
{
    (void)state;
    assert_int_equal(parse("[provider eu]\ntype = local\nroot = /srv/eu\nenv.PATH = /bin\n"
                           "[provider desks]\ntype = cua-fleet\n"),
                     0);
    const struct profile *eu = config_profile(&config, "eu");
    assert_non_null(eu);
    assert_string_equal(eu->provider->name, "local");
    assert_string_equal(profile_setting(eu, "env.PATH"), "/bin");
    assert_non_null(config_profile(&config, "desks"));
    assert_null(config_profile(&config, "us"));
}

static const struct {
    const char *text;
    const char *said;
} bad[] = {
    {"[queue]\nnam = x\n", "a.ini:2: there is no setting \"nam\" in section [queue]"},
    {"[que]\nname = x\n", "there is no setting \"name\" in section [que]"},
    {"name = x\n", "a.ini:1"},
    {"[queue]\nno equals\n", "a.ini:2: neither a [section] nor a name = value"},
    {"[worker]\nslots = 0\n",
     "[worker] slots (ATTACHD_SLOTS): must be a whole number from 1"},
    {"[worker]\nslots = 12x\n", "ATTACHD_SLOTS"},
    {"[worker]\nslots = 99999999999999999999\n", "ATTACHD_SLOTS"},
    {"[queue]\nname = a b\n", "ATTACHD_QUEUE"},
    {"[redis]\nurl = http://h\n", "ATTACHD_REDIS_URL"},
    {"[deploy]\nartifact_root = srv\n", "ATTACHD_ARTIFACT_ROOT): must be an absolute path"},
    {"[deploy]\nartifact_max_bytes = 0\n", "ATTACHD_ARTIFACT_MAX_BYTES"},
    {"[log]\nlevel = loud\n", "ATTACHD_LOG_LEVEL"},
    {"[log]\nformat = xml\n", "ATTACHD_LOG_FORMAT"},
    {"[provider eu]\nroot = /srv\n", "[provider eu]: there is no provider type \"eu\""},
    {"[provider local]\ntype = local\n", "[provider local]: "},
    {"[provider a/b]\ntype = local\n", "is no name for a provider"},
    {"[provider ]\ntype = local\n", "is no name for a provider"},
    {"[provider local]\nroot = /r\nbogus = 1\n",
     "[provider local]: provider type local has no setting \"bogus\""},
    {"[provider desks]\ntype = cua-fleet\ncolour = 1\n", "has no setting \"colour\""},
    {"[queue]\nname = a\n  b\n", "a.ini:3: a line must not begin with blanks"},
    {"[queue\nname = a\n", "a.ini:1: the section's head has no closing bracket"},
};

static void mistakes_name_the_line_or_the_setting_and_leave_the_output_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (parse(bad[i].text) == 0)
            fail_msg("taken: %s", bad[i].text);
        if (!strstr(err.message, bad[i].said))
            fail_msg("%s: \"%s\" does not say \"%s\"", bad[i].text, err.message,
                     bad[i].said);
        assert_int_equal(err.code, ERROR_CONFIGURATION);
        assert_int_equal(config.slots, 42);
    }
}

static void a_line_that_the_parser_would_split_is_refused(void **state)
{
    (void)state;
    char text[400] = "[queue]\nname = ";
    memset(text + strlen(text), 'a', 300);
    assert_int_equal(parse(text), -1);
    assert_non_null(strstr(err.message, "a.ini:2: the line is longer"));
}

static void a_secret_is_not_repeated_in_the_error(void **state)
{
    (void)state;
    assert_int_equal(parse("[redis]\nurl = redis://:s3cret@h:1/x\n"), -1);
    assert_null(strstr(err.message, "s3cret"));
}

static void too_many_providers_are_refused(void **state)
{
    (void)state;
    char text[8192] = "";
    for (int i = 0; i < CONFIG_MAX_PROFILES + 1; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used,
                       "[provider p%d]\ntype = cua-fleet\n", i);
    }
    assert_int_equal(parse(text), -1);
    assert_non_null(strstr(err.message, "providers"));
}

/* Every option stands in the documentation with its variable and its default. */
static void every_option_is_documented(void **state)
{
    (void)state;
    char *text = support_read_source_file("docs/configuration.md", NULL);
    size_t count = 0;
    const struct config_option *options = config_options(&count);
    for (size_t i = 0; i < count; i++) {
        char row[200];
        const char *otherwise = options[i].otherwise;
        const char *tick = *otherwise ? "`" : "";
        (void)snprintf(row, sizeof(row), "| `%s` | `%s` | %s%s%s |", options[i].key,
                       options[i].variable, tick, *otherwise ? otherwise : "none", tick);
        if (!strstr(text, row))
            fail_msg("docs/configuration.md lacks: %s", row);
    }
    free(text);
}

#define config_test(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        config_test(without_anything_the_defaults_serve),
        config_test(the_environment_wins_over_the_file),
        config_test(providers_are_sections_with_a_name_and_a_type),
        config_test(mistakes_name_the_line_or_the_setting_and_leave_the_output_alone),
        config_test(a_line_that_the_parser_would_split_is_refused),
        config_test(a_secret_is_not_repeated_in_the_error),
        config_test(too_many_providers_are_refused),
        config_test(every_option_is_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
