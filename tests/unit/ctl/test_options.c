/* Command lines, good and bad; the help; the completion against the table. */
#include "support.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ctl/help.h"
#include "ctl/options.h"
#include "queue/job.h"

enum { MAX_WORDS = 16 };

static const char *no_environment(const char *variable)
{
    (void)variable;
    return NULL;
}

static const char *full_environment(const char *variable)
{
    if (strcmp(variable, "ATTACHD_REDIS_URL") == 0)
        return "redis://from-environment/1";
    return strcmp(variable, "ATTACHD_QUEUE") == 0 ? "" : NULL;
}

/* Splits a line at blanks, in place, and parses it. */
static int parse(char *line, struct options *options, struct error *err)
{
    const char *words[MAX_WORDS] = {0};
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(count < MAX_WORDS);
        words[count++] = word;
    }
    return options_parse(count, words, no_environment, options, err);
}

static void wrong_lines_are_refused_with_what_is_wrong(void **state)
{
    static const struct {
        const char *line;
        const char *message; /* part of it */
    } cases[] = {
        {"", "a command is needed"},
        {"--queue q", "a command is needed"},
        {"frobnicate", "no command \"frobnicate\""},
        {"status --provider p --sandbox s", "status needs --execution-id E"},
        {"attach --sandbox s --execution-id e", "attach needs --provider P"},
        {"info --provider p", "info needs --sandbox ID"},
        {"info --provider p --sandbox s --wake", "info does not take --wake"},
        {"status --provider p --sandbox s --execution-id e --read",
         "status does not take --read"},
        {"attach --provider p --sandbox s --execution-id e --raw",
         "attach does not take --raw"},
        {"providers --no-wait", "providers does not take --no-wait"},
        {"providers extra", "\"extra\" is one word too many"},
        {"enqueue a b", "\"b\" is one word too many"},
        {"enqueue", "enqueue needs FILE"},
        {"info --prov p --sandbox s", "no option --prov"},
        {"info -x", "no option -x"},
        {"info -hh", "no option -hh"},
        {"info --sandbox s --provider", "--provider needs a value: P"},
        {"providers --json=yes", "--json takes no value"},
        {"enqueue - --timeout-ms 0", "--timeout-ms takes an integer from 1"},
        {"enqueue - --timeout-ms -5", "--timeout-ms takes an integer"},
        {"enqueue - --timeout-ms +5", "--timeout-ms takes an integer"},
        {"enqueue - --timeout-ms 5s", "--timeout-ms takes an integer"},
        {"enqueue - --timeout-ms=", "--timeout-ms takes an integer"},
        {"enqueue - --timeout-ms 99999999999999999999", "--timeout-ms takes an integer"},
        {"read-output --provider p --sandbox s --execution-id e --stream both",
         "--stream takes stdout|stderr"},
        {"read-output --provider p --sandbox s --execution-id e --max-bytes 16777217",
         "--max-bytes takes an integer from 1 to 16777216"},
        {"read-output --provider p --sandbox s --execution-id e --raw --json",
         "--raw cannot stand beside"},
        {"read-output --provider p --sandbox s --execution-id e --raw --no-wait",
         "--raw cannot stand beside"},
        {"info --provider p --sandbox s --set region", "--set takes KEY=VALUE"},
        {"info --provider p --sandbox s --set =x", "--set takes KEY=VALUE"},
        {"completion", "completion needs bash"},
        {"completion fish", "for bash only"},
        {"help frobnicate", "no command \"frobnicate\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[256];
        struct options options = {.offset = 77};
        struct error err = {0};
        (void)snprintf(line, sizeof(line), "%s", cases[i].line);
        if (parse(line, &options, &err) != -1)
            fail_msg("taken: %s", cases[i].line);
        assert_int_equal(err.code, ERROR_CONFIGURATION);
        if (!strstr(err.message, cases[i].message))
            fail_msg("%s: %s", cases[i].line, err.message);
        assert_int_equal(options.offset, 77);
    }
}

static void a_full_line_fills_every_member(void **state)
{
    char line[] = "--queue q read-output --provider=p --sandbox s=1 --execution-id e "
                  "--remote-dir /d --stream stderr --offset 5 --max-bytes 6";
    struct options options;
    struct error err = {0};
    (void)state;
    assert_int_equal(parse(line, &options, &err), 0);
    assert_int_equal(options.command, COMMAND_READ_OUTPUT);
    assert_string_equal(options.queue, "q");
    assert_string_equal(options.redis_url, "redis://127.0.0.1:6379/0");
    assert_string_equal(options.provider, "p");
    assert_string_equal(options.sandbox, "s=1");
    assert_string_equal(options.execution_id, "e");
    assert_string_equal(options.remote_dir, "/d");
    assert_string_equal(options.stream, "stderr");
    assert_int_equal(options.offset, 5);
    assert_int_equal(options.max_bytes, 6);
    assert_int_equal(options.timeout_ms, 0);
    assert_false(options.wake || options.json || options.raw || options.no_wait);
}

static void flags_and_settings_are_collected(void **state)
{
    char line[] = "attach --provider p --sandbox s --execution-id e --wake --read --json "
                  "--no-wait --set region=eu=1 --set empty=";
    struct options options;
    struct error err = {0};
    (void)state;
    assert_int_equal(parse(line, &options, &err), 0);
    assert_true(options.wake && options.read && options.json && options.no_wait);
    assert_int_equal(options.setting_count, 2);
    assert_int_equal(options.settings[0].name_bytes, 6);
    assert_memory_equal(options.settings[0].name, "region", 6);
    assert_string_equal(options.settings[0].value, "eu=1");
    assert_string_equal(options.settings[1].value, "");
}

static void words_after_two_hyphens_are_no_options(void **state)
{
    char line[] = "enqueue -- --job.msgpack";
    struct options options;
    struct error err = {0};
    (void)state;
    assert_int_equal(parse(line, &options, &err), 0);
    assert_string_equal(options.operand, "--job.msgpack");
}

static void help_and_version_ask_for_nothing_else(void **state)
{
    char help[] = "status --help";
    char version[] = "-V";
    struct options options;
    struct error err = {0};
    (void)state;
    assert_int_equal(parse(help, &options, &err), 0);
    assert_true(options.help);
    assert_int_equal(options.command, COMMAND_STATUS);
    assert_int_equal(parse(version, &options, &err), 0);
    assert_true(options.version);
}

static void the_environment_stands_behind_the_line_and_before_the_default(void **state)
{
    const char *const words[] = {"providers"};
    const char *const more[] = {"providers", "--redis-url", "redis://from-line"};
    struct options options;
    struct error err = {0};
    (void)state;
    assert_int_equal(options_parse(1, words, full_environment, &options, &err), 0);
    assert_string_equal(options.redis_url, "redis://from-environment/1");
    assert_string_equal(options.queue, "default");
    assert_int_equal(options_parse(3, more, full_environment, &options, &err), 0);
    assert_string_equal(options.redis_url, "redis://from-line");
}

static void more_settings_than_a_job_takes_are_refused(void **state)
{
    const char *words[5 + 2 * (OPTIONS_MAX_SETTINGS + 1)] = {"info", "--provider", "p",
                                                             "--sandbox", "s"};
    const int count = sizeof(words) / sizeof(words[0]);
    struct options options;
    struct error err = {0};
    (void)state;
    assert_int_equal(OPTIONS_MAX_SETTINGS, JOB_MAX_SANDBOX_KEYS);
    for (int i = 5; i < count; i += 2) {
        words[i] = "--set";
        words[i + 1] = "k=v";
    }
    assert_int_equal(options_parse(count - 2, words, no_environment, &options, &err), 0);
    assert_int_equal(options_parse(count, words, no_environment, &options, &err), -1);
}

static void the_help_of_a_command_lists_just_its_options(void **state)
{
    size_t command_count = 0;
    size_t row_count = 0;
    const struct command_row *commands = options_commands(&command_count);
    const struct option_row *rows = options_rows(&row_count);
    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        buffer_scoped struct buffer out;
        buffer_init(&out, 65536);
        assert_int_equal(help_append(commands[i].command, &out), 0);
        for (size_t j = 0; j < row_count; j++) {
            char entry[64];
            bool wanted = rows[j].commands & (1U << commands[i].command);
            (void)snprintf(entry, sizeof(entry), "\n  --%s", rows[j].name);
            assert_int_equal(strstr(out.data, entry) != NULL, wanted);
        }
    }
}

static void no_help_text_is_wider_than_a_terminal(void **state)
{
    (void)state;
    for (int command = COMMAND_NONE; command <= COMMAND_HELP; command++) {
        buffer_scoped struct buffer out;
        buffer_init(&out, 65536);
        assert_int_equal(help_append((enum command)command, &out), 0);
        for (const char *line = out.data; *line; line += strcspn(line, "\n") + 1)
            assert_true(strcspn(line, "\n") <= 88);
    }
}

/* What bash would offer after these words, one a line, each with a line feed before and
 * after it. */
static void complete_with_bash(const char *words, char *offers, size_t size)
{
    char command[768];
    (void)snprintf(command, sizeof(command),
                   "bash -c '. %s/ctl/attachctl.bash; COMP_WORDS=(%s); "
                   "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _attachctl; "
                   "printf \"%%s\\n\" \"${COMPREPLY[@]}\"'",
                   TEST_SOURCE_DIR, words);
    FILE *bash = popen(command, "re"); // NOLINT(cert-env33-c)
    assert_non_null(bash);
    offers[0] = '\n';
    size_t bytes = fread(offers + 1, 1, size - 2, bash);
    offers[1 + bytes] = '\0';
    assert_int_equal(pclose(bash), 0);
}

static void expect_offers(const char *offers, const char *word, bool wanted)
{
    char line[80];
    (void)snprintf(line, sizeof(line), "\n%s\n", word);
    if ((strstr(offers, line) != NULL) != wanted)
        fail_msg("%s is %soffered in: %s", word, wanted ? "not " : "", offers);
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count - 1;
}

static void bash_offers_every_command_and_nothing_else(void **state)
{
    char offers[2048];
    size_t count = 0;
    const struct command_row *commands = options_commands(&count);
    (void)state;
    complete_with_bash("attachctl \"\"", offers, sizeof(offers));
    for (size_t i = 0; i < count; i++)
        expect_offers(offers, commands[i].name, true);
    assert_int_equal(count_lines(offers), count);
}

static void bash_offers_the_options_of_each_command_and_no_others(void **state)
{
    size_t command_count = 0;
    size_t row_count = 0;
    const struct command_row *commands = options_commands(&command_count);
    const struct option_row *rows = options_rows(&row_count);
    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        char words[128];
        char offers[2048];
        (void)snprintf(words, sizeof(words), "attachctl --queue q %s --", commands[i].name);
        complete_with_bash(words, offers, sizeof(offers));
        for (size_t j = 0; j < row_count; j++) {
            char option[64];
            (void)snprintf(option, sizeof(option), "--%s", rows[j].name);
            expect_offers(offers, option, rows[j].commands & (1U << commands[i].command));
        }
    }
}

/* An option whose value bash took for a command would spoil what follows it. */
static void bash_knows_which_options_take_a_value(void **state)
{
    size_t count = 0;
    const struct option_row *rows = options_rows(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        char words[128];
        char offers[2048];
        if (rows[i].kind == OPTION_FLAG)
            continue;
        (void)snprintf(words, sizeof(words), "attachctl --%s status \"\"", rows[i].name);
        complete_with_bash(words, offers, sizeof(offers));
        expect_offers(offers, "providers", true);
        if (rows[i].values || strcmp(rows[i].name, "provider") == 0)
            continue;
        (void)snprintf(words, sizeof(words), "attachctl --%s \"\"", rows[i].name);
        complete_with_bash(words, offers, sizeof(offers));
        expect_offers(offers, "providers", false);
    }
}

static void bash_offers_the_values_of_a_stream(void **state)
{
    char offers[2048];
    (void)state;
    complete_with_bash("attachctl read-output --stream std", offers, sizeof(offers));
    assert_string_equal(offers, "\nstdout\nstderr\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_lines_are_refused_with_what_is_wrong),
        cmocka_unit_test(a_full_line_fills_every_member),
        cmocka_unit_test(flags_and_settings_are_collected),
        cmocka_unit_test(words_after_two_hyphens_are_no_options),
        cmocka_unit_test(help_and_version_ask_for_nothing_else),
        cmocka_unit_test(the_environment_stands_behind_the_line_and_before_the_default),
        cmocka_unit_test(more_settings_than_a_job_takes_are_refused),
        cmocka_unit_test(the_help_of_a_command_lists_just_its_options),
        cmocka_unit_test(no_help_text_is_wider_than_a_terminal),
        cmocka_unit_test(bash_offers_every_command_and_nothing_else),
        cmocka_unit_test(bash_offers_the_options_of_each_command_and_no_others),
        cmocka_unit_test(bash_knows_which_options_take_a_value),
        cmocka_unit_test(bash_offers_the_values_of_a_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
