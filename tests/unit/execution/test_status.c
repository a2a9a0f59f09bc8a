/* The judgement: record against process, as a table. */
#include "support.h"

#include <string.h>

#include "execution/status.h"

struct row {
    const char *what;
    struct observation seen;
    enum status_state state;
    const char *reason;
};

/* A record and a pid file as a launcher leaves them. */
#define RECORD(text)                                                                       \
    .directory_exists = true, .status_exists = true, .status_readable = true,              \
    .status_text = (text), .has_proc = true
#define BOOT(then, now) .claimed_boot = (then), .boot = (now)
#define PID(pid, token) .pid_file_exists = true, .pid_text = (pid), .token_text = (token)
#define PROCESS(letter, start, blank)                                                      \
    .process_state = (letter), .start_time = (start), .blank_start_time = (blank),         \
    .signalable = true
#define NO_LAUNCHER   .launcher_looked_for = true
#define LAUNCHER_LIVE .launcher_looked_for = true, .launcher_alive = true

static const struct row rows[] = {
    {"a live process",
     {RECORD("running|a"), PID("7", "50"), PROCESS('S', "50", "50")},
     STATUS_RUNNING,
     NULL},
    {"a live process under a starting record",
     {RECORD("starting|a"), PID("7", "50"), PROCESS('R', "50", "50")},
     STATUS_RUNNING,
     NULL},
    {"a live process beats a terminal record",
     {RECORD("exited|a|0|"), PID("7", "50"), PROCESS('D', "50", "50")},
     STATUS_RUNNING,
     NULL},
    {"a live process beats a foreign record",
     {RECORD("running|b"), PID("7", "50"), PROCESS('S', "50", "50")},
     STATUS_RUNNING,
     NULL},
    {"a live process, no status file",
     {.directory_exists = true, .has_proc = true, PID("7", "50"), PROCESS('S', "50", "0")},
     STATUS_RUNNING,
     NULL},
    {"the token as awk reads it",
     {RECORD("running|a"), PID("7", "0"), PROCESS('S', "50", "0")},
     STATUS_RUNNING,
     NULL},
    {"an empty token cannot be checked",
     {RECORD("running|a"), PID("7", ""), PROCESS('S', "50", "50")},
     STATUS_RUNNING,
     NULL},
    {"a missing token cannot be checked",
     {RECORD("running|a"), PID("7", NULL), PROCESS('S', "50", "50")},
     STATUS_RUNNING,
     NULL},
    {"CRLF in pid and token",
     {RECORD("running|a\r"), PID("7\r", "50\r"), PROCESS('S', "50", "50")},
     STATUS_RUNNING,
     NULL},
    {"no /proc, the signal says alive",
     {.directory_exists = true,
      .status_exists = true,
      .status_readable = true,
      .status_text = "running|a",
      PID("7", "50"),
      .signalable = true},
     STATUS_RUNNING,
     NULL},
    {"no /proc, the signal says dead",
     {.directory_exists = true,
      .status_exists = true,
      .status_readable = true,
      .status_text = "running|a",
      PID("7", "50")},
     STATUS_LOST,
     "no_process"},
    {"no /proc, starting, no pid: nothing can be known",
     {.directory_exists = true,
      .status_exists = true,
      .status_readable = true,
      .status_text = "starting|a"},
     STATUS_STARTING,
     NULL},
    {"no /proc, running, no pid",
     {.directory_exists = true,
      .status_exists = true,
      .status_readable = true,
      .status_text = "running|a"},
     STATUS_LOST,
     "no_pid"},
    {"a zombie",
     {RECORD("running|a"), PID("7", "50"), PROCESS('Z', "50", "50"), NO_LAUNCHER},
     STATUS_LOST,
     "zombie"},
    {"dying",
     {RECORD("running|a"), PID("7", "50"), PROCESS('X', "50", "50"), NO_LAUNCHER},
     STATUS_LOST,
     "zombie"},
    {"an old kernel's dying",
     {RECORD("running|a"), PID("7", "50"), PROCESS('x', "50", "50"), NO_LAUNCHER},
     STATUS_LOST,
     "zombie"},
    {"a zombie whose launcher lives",
     {RECORD("running|a"), PID("7", "50"), PROCESS('Z', "50", "50"), LAUNCHER_LIVE},
     STATUS_RUNNING,
     NULL},
    {"a dead pid (W1)",
     {RECORD("running|a"), PID("7", "50"), NO_LAUNCHER},
     STATUS_LOST,
     "no_process"},
    {"a dead pid whose launcher lives",
     {RECORD("running|a"), PID("7", "50"), LAUNCHER_LIVE},
     STATUS_RUNNING,
     NULL},
    {"a dead pid under a terminal record",
     {RECORD("exited|a|0|"), PID("7", "50")},
     STATUS_EXITED,
     NULL},
    {"a reused pid",
     {RECORD("running|a"), PID("7", "50"), PROCESS('S', "51", "0"), NO_LAUNCHER},
     STATUS_LOST,
     "pid_reused"},
    {"a reused pid under a terminal record",
     {RECORD("cancelled|a|TERM"), PID("7", "50"), PROCESS('S', "51", "0")},
     STATUS_CANCELLED,
     NULL},
    {"a reused pid without a usable record",
     {RECORD(""), PID("7", "50"), PROCESS('S', "51", "0")},
     STATUS_UNKNOWN,
     "stale_process"},
    {"a reused pid under a foreign record",
     {RECORD("running|b"), PID("7", "50"), PROCESS('S', "51", "0")},
     STATUS_UNKNOWN,
     "stale_process"},
    {"no pid file", {RECORD("running|a"), NO_LAUNCHER}, STATUS_LOST, "no_pid"},
    {"no pid file yet", {RECORD("starting|a"), LAUNCHER_LIVE}, STATUS_STARTING, NULL},
    {"a launcher that never came",
     {RECORD("starting|a"), NO_LAUNCHER},
     STATUS_LOST,
     "no_launcher"},
    {"pid -1 (W10)",
     {RECORD("running|a"), PID("-1", ""), .signalable = true},
     STATUS_LOST,
     "invalid_pid"},
    {"pid 0",
     {RECORD("running|a"), PID("0", ""), .signalable = true},
     STATUS_LOST,
     "invalid_pid"},
    {"pid 1",
     {RECORD("running|a"), PID("1", ""), PROCESS('S', "1", "1")},
     STATUS_LOST,
     "invalid_pid"},
    {"another boot, the same start time",
     {RECORD("running|a"), PID("77", "5"), PROCESS('S', "5", "5"), BOOT("b1", "b2")},
     STATUS_LOST,
     "rebooted"},
    {"another boot while starting, without a start time",
     {RECORD("starting|a"), PID("77", ""), BOOT("b1", "b2"), .signalable = true},
     STATUS_LOST,
     "rebooted"},
    {"another boot, another start time",
     {RECORD("running|a"), PID("77", "5"), PROCESS('S', "6", "6"), BOOT("b1", "b2")},
     STATUS_LOST,
     "pid_reused"},
    {"another boot after the end",
     {RECORD("exited|a|0|"), PID("77", "5"), PROCESS('S', "5", "5"), BOOT("b1", "b2")},
     STATUS_EXITED,
     NULL},
    {"another boot without a record",
     {RECORD(""), PID("77", "5"), PROCESS('S', "5", "5"), BOOT("b1", "b2")},
     STATUS_UNKNOWN,
     "stale_process"},
    {"the same boot",
     {RECORD("running|a"), PID("77", "5"), PROCESS('S', "5", "5"), BOOT("b1", "b1")},
     STATUS_RUNNING,
     NULL},
    {"a boot that is not known",
     {RECORD("running|a"), PID("77", "5"), PROCESS('S', "5", "5"), BOOT("b1", NULL)},
     STATUS_RUNNING,
     NULL},
    {"the largest pid",
     {RECORD("running|a"), PID("4194304", "1"), PROCESS('S', "1", "1")},
     STATUS_RUNNING,
     NULL},
    {"a pid beyond",
     {RECORD("running|a"), PID("4194305", "1"), PROCESS('S', "1", "1")},
     STATUS_LOST,
     "invalid_pid"},
    {"an empty pid",
     {RECORD("running|a"), PID("", "1"), .signalable = true},
     STATUS_LOST,
     "invalid_pid"},
    {"a pid file that is none",
     {RECORD("running|a"), .pid_file_exists = true},
     STATUS_LOST,
     "invalid_pid"},
    {"a huge pid",
     {RECORD("running|a"), PID("99999999999999999999999", ""), .signalable = true},
     STATUS_LOST,
     "invalid_pid"},
    {"no directory", {.has_proc = true}, STATUS_UNKNOWN, "absent"},
    {"no status file",
     {.directory_exists = true, .has_proc = true},
     STATUS_UNKNOWN,
     "absent"},
    {"a status that cannot be read",
     {.directory_exists = true, .status_exists = true, .has_proc = true},
     STATUS_UNKNOWN,
     "unreadable"},
    {"a status that was too long",
     {.directory_exists = true, .status_exists = true, .status_text = "running|a"},
     STATUS_UNKNOWN,
     "unreadable"},
    {"an empty status (full disk)", {RECORD("")}, STATUS_UNKNOWN, "unreadable"},
};

static void judges_the_record_against_the_process(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        arena_scoped struct arena *arena = arena_new(4096);
        struct status status;
        assert_int_equal(status_judge(&rows[i].seen, "a", arena, &status), 0);
        const char *reason = rows[i].reason;
        if (status.state != rows[i].state || !status.reason != !reason ||
            (reason && strcmp(reason, status.reason) != 0))
            fail_msg("%s: %s, %s", rows[i].what, status_state_name(status.state),
                     status.reason ? status.reason : "-");
    }
}

static void parse(struct arena *arena, const char *text, struct status *status)
{
    assert_int_equal(status_parse(text, "a", arena, status), 0);
}

static void names_signals_by_their_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *signal;
    } signals[] = {
        {"exited|a|143|SIG15", "SIGTERM"},
        {"exited|a|137|SIG9", "SIGKILL"},
        {"exited|a|143|SIGTERM", "SIGTERM"},
        {"exited|a|200|SIG72", NULL},
        {"exited|a|255|SIG127", NULL},
        {"exited|a|128|SIG0", NULL},
        {"exited|a|162|SIG34", "SIG34"},
        {"exited|a|0|", NULL},
        {"exited|a|0", NULL},
        {"exited|a|1|SIG015", NULL},
        {"cancelled|a|TERM", "TERM"},
        {"cancelled|a|SIG9", "SIG9"},
        {"cancelled|a|", NULL},
    };
    arena_scoped struct arena *arena = arena_new(65536);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct status status;
        parse(arena, signals[i].text, &status);
        assert_true(status_is_terminal(&status));
        if (signals[i].signal)
            assert_string_equal(status.signal, signals[i].signal);
        else
            assert_null(status.signal);
    }
}

static void takes_only_plain_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"exited|a",
                                      "exited|a|",
                                      "exited|a||SIG9",
                                      "exited|a|-1|",
                                      "exited|a|+1|",
                                      "exited|a| 1|",
                                      "exited|a|1 |",
                                      "exited|a|0x1|",
                                      "exited|a|01|",
                                      "exited|a|256|",
                                      "exited|a|1e2|",
                                      "exited|a|99999999999999999999|",
                                      "resource_exhausted|a|cpu|0|SIGXCPU",
                                      "resource_exhausted|a|cpu||SIGXCPU",
                                      "resource_exhausted|a|cpu|9007199254740992|SIGXCPU",
                                      "resource_exhausted|a|cpu|1|SIGXFSZ",
                                      "resource_exhausted|a|cpu|1",
                                      "resource_exhausted|a|memory|1|SIGKILL",
                                      "timed_out|a|",
                                      "timed_out|a",
                                      "failed|a",
                                      "failed|a|",
                                      "failed|a|startup|x",
                                      "lost|a|",
                                      "unknown|a",
                                      "stale|a",
                                      "provider_unavailable|a",
                                      "running",
                                      "running|",
                                      "|a",
                                      "|",
                                      "",
                                      "RUNNING|a",
                                      "running |a",
                                      "running|a\nrunning|a",
                                      "running\n|a"};
    arena_scoped struct arena *arena = arena_new(65536);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct status status;
        parse(arena, bad[i], &status);
        if (status.state != STATUS_UNKNOWN || strcmp(status.reason, "unreadable") != 0)
            fail_msg("%s: %s", bad[i], status_state_name(status.state));
        assert_false(status_is_terminal(&status));
    }
}

static void reads_every_field(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(65536);
    struct status status;
    parse(arena, "  exited|a|255|SIG1|more|and more\r\n", &status);
    assert_true(status.has_exit_code);
    assert_int_equal(status.exit_code, 255);
    assert_string_equal(status.signal, "SIGHUP");
    parse(arena, "resource_exhausted|a|file_size|9007199254740991|SIGXFSZ|x\n", &status);
    assert_string_equal(status.resource, "file_size");
    assert_true(status.limit == 9007199254740991);
    assert_string_equal(status.signal, "SIGXFSZ");
    parse(arena, "timed_out|a|startup", &status);
    assert_string_equal(status.phase, "startup");
    parse(arena, "failed|a|install|no space left|more", &status);
    assert_string_equal(status.phase, "install");
    assert_string_equal(status.message, "no space left");
    parse(arena, "failed|a|launch", &status);
    assert_null(status.message);
    parse(arena, "exited|b|0|", &status);
    assert_string_equal(status.reason, "foreign");
}

static void running_out_of_memory_is_an_error_and_changes_nothing(void **state)
{
    (void)state;
    int successes = 0;
    int failures = 0;
    for (size_t room = 0; room < 128; room += 8) {
        arena_scoped struct arena *arena = arena_new(room);
        struct status status = {.state = STATUS_LOST, .reason = "untouched"};
        int failed = status_parse("exited|a|143|SIG15", "a", arena, &status);
        if (failed)
            assert_string_equal(status.reason, "untouched");
        else
            assert_string_equal(status.signal, "SIGTERM");
        successes += !failed;
        failures += !!failed;
    }
    assert_true(successes > 0 && failures > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judges_the_record_against_the_process),
        cmocka_unit_test(names_signals_by_their_number),
        cmocka_unit_test(takes_only_plain_numbers),
        cmocka_unit_test(reads_every_field),
        cmocka_unit_test(running_out_of_memory_is_an_error_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
