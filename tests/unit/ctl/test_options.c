/* Command lines, good and bad; the help; the completion against the table. */
#include "support.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ctl/help.h"
#include "ctl/options.h"
#include "queue/job.h"

enum { MAX_WORDS = 64, OFFERS_SIZE = 2048 };

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

static struct arena *arena; /* of all tests */

static int set_up(void **state)
{
    (void)state;
    arena = arena_new(1024 * 1024);
    return arena ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

/* Splits a line at blanks, in place, and parses it. The words live in the arena. */
static int parse(char *line, struct options *options, struct error *err)
{
    const char **words = arena_calloc(arena, MAX_WORDS, sizeof(*words));
    int count = 0;
    char *rest = NULL;
    assert_non_null(words);
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(count < MAX_WORDS);
        words[count++] = word;
    }
    return options_parse(count, words, no_environment, arena, options, err);
}

#define ON "--provider p --sandbox s --execution-id e "

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
        {"deploy " ON "--archive a", "deploy needs -- COMMAND"},
        {"deploy " ON "--archive a --", "deploy needs -- COMMAND"},
        {"deploy " ON "--archive a ./run.sh", "stands after --, and \"./run.sh\" does not"},
        {"deploy " ON "-- ./run.sh", "deploy needs one of --archive"},
        {"deploy " ON "--archive a --artifact-dir d -- c", "deploy needs one of --archive"},
        {"deploy " ON "--archive a --url u --sha256 h -- c",
         "deploy needs one of --archive"},
        {"deploy " ON "--url u -- c", "--url and --sha256 stand together"},
        {"deploy " ON "--archive a --sha256 h -- c", "--url and --sha256 stand together"},
        {"deploy " ON "--archive - --stdin - -- c", "only one of the files can be -"},
        {"deploy " ON "--archive - --env-file - -- c", "only one of the files can be -"},
        {"deploy " ON "--env-file - --env-file - --archive a -- c",
         "only one of the files can be -"},
        {"relaunch --from f " ON "--stdin a --input b --input-path p",
         "--stdin cannot stand beside --input"},
        {"relaunch --from f " ON "--input b", "--input and --input-path stand together"},
        {"relaunch --from f " ON "--input-path p", "--input and --input-path stand"},
        {"relaunch --from f " ON "--env A=1", "relaunch does not take --env"},
        {"relaunch --from f " ON "--cpu-seconds 1", "relaunch does not take --cpu-seconds"},
        {"relaunch " ON, "relaunch needs --from E"},
        {"relaunch --from f " ON "c", "\"c\" is one word too many"},
        {"cancel " ON "--grace-ms 0", "--grace-ms takes an integer from 1"},
        {"cancel " ON "--quiet", "cancel does not take --quiet"},
        {"status " ON "--job-id j", "status does not take --job-id"},
        {"stop --provider p", "stop needs --sandbox ID"},
        {"stop " ON "--attempts 2", "stop does not take --attempts"},
        {"stop " ON "--grace-ms 2", "stop does not take --grace-ms"},
        {"destroy " ON "--attempts 0", "--attempts takes an integer from 1 to 100"},
        {"destroy " ON "--attempts 101", "--attempts takes an integer from 1 to 100"},
        {"destroy " ON "--delay-ms 3600001", "--delay-ms takes an integer from 1 to"},
        {"destroy " ON "--wake", "destroy does not take --wake"},
        {"logs --provider p --sandbox s", "logs needs --execution-id E"},
        {"logs " ON "--json", "logs does not take --json"},
        {"logs " ON "--no-wait", "logs does not take --no-wait"},
        {"status " ON "--follow", "status does not take --follow"},
        {"status " ON "-f", "status does not take --follow"},
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

static void logs_follow_by_a_short_option_too(void **state)
{
    char line[] = "logs " ON "-f -q --raw";
    struct options options;
    struct error err = {0};
    (void)state;
    assert_int_equal(parse(line, &options, &err), 0);
    assert_int_equal(options.command, COMMAND_LOGS);
    assert_true(options.follow && options.quiet && options.raw);
}

static void a_destroy_takes_attempts_and_their_pause(void **state)
{
    char line[] = "destroy --provider p --sandbox s --attempts 100 --delay-ms 3600000";
    struct options options;
    struct error err = {0};
    (void)state;
    assert_int_equal(parse(line, &options, &err), 0);
    assert_int_equal(options.attempts, 100);
    assert_int_equal(options.delay_ms, 3600000);
}

static void a_deploys_command_is_all_that_stands_behind_two_hyphens(void **state)
{
    char line[] =
        "deploy " ON "--archive a.tgz --env A=1 --env-file f --env B --grace-ms 7 -q "
        "--job-id j -- ./run.sh --env C -- -q";
    static const char *const args[] = {"--env", "C", "--", "-q"};
    struct options options;
    struct error err = {0};
    (void)state;
    assert_int_equal(parse(line, &options, &err), 0);
    assert_string_equal(options.operand, "./run.sh");
    assert_int_equal(options.arg_count, 4);
    for (size_t i = 0; i < options.arg_count; i++)
        assert_string_equal(options.args[i], args[i]);
    assert_int_equal(options.launch.env.count, 2);
    assert_string_equal(options.launch.env.items[0], "A=1");
    assert_string_equal(options.launch.env.items[1], "B");
    assert_int_equal(options.launch.env_files.count, 1);
    assert_int_equal(options.grace_ms, 7);
    assert_true(options.quiet);
    assert_string_equal(options.job_id, "j");
}

static void no_error_quotes_what_may_be_a_secret(void **state)
{
    static const char *const lines[] = {
        "deploy --env A=1 B=hush",
        "deploy --environment=A=hush",
        "deploy " ON "--archive a --env A=hush --env-file - --stdin - -- c",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char line[256];
        struct options options;
        struct error err = {0};
        (void)snprintf(line, sizeof(line), "%s", lines[i]);
        assert_int_equal(parse(line, &options, &err), -1);
        assert_null(strstr(err.message, "hush"));
    }
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
    assert_int_equal(options_parse(1, words, full_environment, arena, &options, &err), 0);
    assert_string_equal(options.redis_url, "redis://from-environment/1");
    assert_string_equal(options.queue, "default");
    assert_int_equal(options_parse(3, more, full_environment, arena, &options, &err), 0);
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
    assert_int_equal(options_parse(count - 2, words, no_environment, arena, &options, &err),
                     0);
    assert_int_equal(options_parse(count, words, no_environment, arena, &options, &err),
                     -1);
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
    char offers[OFFERS_SIZE];
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
        char offers[OFFERS_SIZE];
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
        char offers[OFFERS_SIZE];
        if (rows[i].kind == OPTION_FLAG)
            continue;
        (void)snprintf(words, sizeof(words), "attachctl --%s status \"\"", rows[i].name);
        complete_with_bash(words, offers, sizeof(offers));
        expect_offers(offers, "relaunch", true);
        if (rows[i].values || strcmp(rows[i].name, "provider") == 0)
            continue;
        (void)snprintf(words, sizeof(words), "attachctl --%s \"\"", rows[i].name);
        complete_with_bash(words, offers, sizeof(offers));
        expect_offers(offers, "relaunch", false);
    }
}

static void bash_offers_the_values_of_a_stream(void **state)
{
    char offers[OFFERS_SIZE];
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
        cmocka_unit_test(logs_follow_by_a_short_option_too),
        cmocka_unit_test(a_destroy_takes_attempts_and_their_pause),
        cmocka_unit_test(a_deploys_command_is_all_that_stands_behind_two_hyphens),
        cmocka_unit_test(no_error_quotes_what_may_be_a_secret),
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
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
