/* Limits: their names and values, what a preflight's end says, and both programs under real
 * shells, which reach the limits. */
#include "launch_scene.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const char remote_begin_sh[];

enum { KIB = 1024, MIB = 1024 * 1024 };

static int check(const char *name, double value, struct limits *limits, struct error *err)
{
    const struct limits_entry entry = {.name = name, .is_number = true, .value = value};
    return limits_check(&entry, 1, limits, err);
}

static void takes_positive_safe_integers_only(void **state)
{
    (void)state;
    static const double wrong[] = {0, -1, 0.5, 1.5, 9007199254740992.0, 1e300};
    struct limits limits = {0};
    struct error err = {0};
    assert_int_equal(check("cpu_time_seconds", 1, &limits, &err), 0);
    assert_int_equal(limits.cpu_time_seconds, 1);
    assert_int_equal(check("open_files", 9007199254740991.0, &limits, &err), 0);
    assert_true(limits.open_files == 9007199254740991ULL);
    const struct limits before = limits;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        err = (struct error){0};
        assert_int_not_equal(check("address_space_bytes", wrong[i], &limits, &err), 0);
        assert_int_equal(err.code, ERROR_INVALID_ARGUMENT);
        assert_string_equal(err.field, "resource_limits.address_space_bytes");
        assert_string_equal(
            err.message,
            "Worker resourceLimits.addressSpaceBytes must be a positive safe integer.");
    }
    assert_memory_equal(&limits, &before, sizeof(limits));
}

static void names_come_before_values_and_values_in_their_order(void **state)
{
    (void)state;
    static const struct limits_entry entries[] = {
        {"open_files", true, 0}, {"cpu_time_seconds", false, 0}, {"bogus", true, 1}};
    struct limits limits = {0};
    struct error err = {0};
    assert_int_not_equal(limits_check(entries, 3, &limits, &err), 0);
    assert_string_equal(err.message, "Unknown worker resource limit: bogus.");
    err = (struct error){0};
    assert_int_not_equal(limits_check(entries, 2, &limits, &err), 0);
    assert_string_equal(err.field, "resource_limits.cpu_time_seconds");
    assert_int_equal(limits_check(entries, 0, &limits, &err), 0);
    assert_false(limits_are_set(&limits));
}

struct verdict {
    const char *out;
    const char *err;
    const char *capability;
    const char *detail;
};

static void the_first_name_that_was_printed_is_the_capability(void **state)
{
    (void)state;
#define MARK "MASTRA_WORKER_CAPABILITY:"
    static const struct verdict verdicts[] = {
        {"", MARK "cpu_time\n", "cpu_time", MARK "cpu_time"},
        {MARK "open_files\n", "noise\n", "open_files", "noise"},
        {MARK "open_files\n", MARK "cpu_time", "cpu_time", MARK "cpu_time"},
        {"", MARK "9" MARK "file_size!", "file_size", MARK "9" MARK "file_size!"},
        {"", MARK, "sandbox_command", MARK},
        {" \n", "", "sandbox_command", "Resource-limit preflight command failed."},
    };
    struct arena *arena = arena_new(MIB);
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
        const struct verdict *row = &verdicts[i];
        struct error err = {0};
        const struct exec_result exec = {.end = EXEC_EXITED,
                                         .exit_code = 1,
                                         .out = {row->out, strlen(row->out), 0},
                                         .err = {row->err, strlen(row->err), 0}};
        assert_int_not_equal(limits_judge(&exec, arena, &err), 0);
        assert_int_equal(err.code, ERROR_CAPABILITY_UNAVAILABLE);
        assert_string_equal(err.capability, row->capability);
        assert_string_equal(err.detail, row->detail);
    }
    const struct exec_result fine = {.end = EXEC_EXITED, .err = {MARK "cpu_time", 33, 0}};
    struct error err = {0};
    assert_int_equal(limits_judge(&fine, arena, &err), 0);
    arena_free(arena);
}

/* ------------------------------------------------------------------------- preflight.sh */

/* The function as it is in begin.sh, with `before` in front of its call. */
static const char *preflight(struct place *place, const char *before, const char *limits)
{
    const char *from = strstr(remote_begin_sh, "lacks() {");
    const char *end = strstr(remote_begin_sh, "\nnonce=$1 remote_dir=$2");
    assert_non_null(from);
    assert_non_null(end);
    const char *script =
        arena_printf(place->arena, "%.*s\n%s\n{ preflight %s && echo fine; } 2>&1\n",
                     (int)(end - from), from, before, limits);
    assert_non_null(script);
    buffer_scoped struct buffer answer;
    buffer_init(&answer, PLACE_ANSWER_MAX);
    run_script(place, script, &answer);
    const char *copy =
        arena_text_n(place->arena, answer.data ? answer.data : "", answer.size);
    assert_non_null(copy);
    return copy;
}

static void expect_preflight(struct place *place, const char *before, const char *limits,
                             const char *capability)
{
    char wanted[64] = "fine\n";
    if (capability)
        (void)snprintf(wanted, sizeof(wanted), MARK "%s\n", capability);
    const char *got = preflight(place, before, limits);
    if (strcmp(got, wanted) != 0)
        fail_msg("%s: preflight %s (%s): %s", place->shell->name, limits, before, got);
}

static void wanted(struct place *place)
{
    /* As root, who could raise each again. */
    expect_preflight(place, "", "3 1073741824 2048 64", NULL);
    expect_preflight(place, "", "'' '' '' ''", NULL);
    expect_preflight(place, "", "'' 1023 '' ''", "address_space");
    expect_preflight(place, "", "'' '' 511 ''", "file_size");
    expect_preflight(place, "", "'' '' '' 9007199254740991", "open_files");
    expect_preflight(place, "uname() { echo Darwin; }", "3 '' '' ''", "linux_proc");
    expect_preflight(place, "setsid() { false; }", "3 '' '' ''", "process_groups");
    /* Numbers are enough where the shell has no names, other names are not. */
    expect_preflight(place, "kill() { false; }", "3 '' 2048 ''", NULL);
    expect_preflight(place, "kill() { echo USR1; }", "3 '' 2048 ''", "cpu_signal");
    expect_preflight(place, "kill() { echo USR1; }", "'' '' 2048 ''", "file_size_signal");
    /* Somebody else's limit, below the one wanted. */
    if (geteuid() != 0) {
        expect_preflight(place, "ulimit -H -t 2", "3 '' '' ''", "cpu_time");
        expect_preflight(place, "ulimit -H -t 3", "3 '' '' ''", "cpu_time");
    }
}

static void a_preflight_asks_for_what_the_launch_needs(void **state)
{
    (void)state;
    in_each_shell(wanted);
}

/* ---------------------------------------------------------------------------- launch.sh */

static void expect_run(struct place *place, const struct limits *limits,
                       const char *command, const char *status)
{
    struct scene scene;
    char path[256];
    scene_init(&scene, place, command);
    scene.request.limits = *limits;
    assert_int_equal(scene_run(&scene), 0);
    expect_file(place, "status", status);
    path_of(place, "status", path);
    assert_int_equal(remove(path), 0);
}

static void reached(struct place *place)
{
    expect_run(place, &(struct limits){.cpu_time_seconds = 1}, "while :; do :; done",
               "resource_exhausted|a1|cpu|1|SIGXCPU\n");
    /* The same signals without a limit of ours are an end like any other. */
    expect_run(place, &(struct limits){0}, "kill -24 $$", "exited|a1|152|SIGXCPU\n");
    expect_run(place, &(struct limits){.cpu_time_seconds = 1}, "kill -25 $$",
               "exited|a1|153|SIGXFSZ\n");
    expect_run(place, &(struct limits){.file_size_bytes = 2048},
               "exec dd if=/dev/zero of=big bs=4096 count=4",
               "resource_exhausted|a1|file_size|2048|SIGXFSZ\n");
    expect_run(place, &(struct limits){.open_files = 64}, "test $(ulimit -n) = 64",
               "exited|a1|0|\n");
}

/* S31 to S33 */
static void what_exceeds_a_limit_is_resource_exhausted(void **state)
{
    (void)state;
    in_each_shell(reached);
}

static void held(struct place *place)
{
    const struct limits all = {.cpu_time_seconds = 7,
                               .address_space_bytes = 512ULL * MIB,
                               .file_size_bytes = 4096,
                               .open_files = 32};
    const char *limits = NULL;
    struct scene scene;
    scene_init(&scene, place, "");
    scene_program(&scene, (const char *const[]){"cat", "/proc/self/limits", NULL});
    scene.request.limits = all;
    assert_int_equal(scene_run(&scene), 0);
    limits = text_of_file(place, "stdout");
    /* The hard limit of time is the grace and a second above the soft one. */
    static const char *const rows[] = {
        "Max cpu time              7                    9                    seconds",
        "Max address space         536870912            536870912            bytes",
        "Max file size             4096                 4096                 bytes",
        "Max open files            32                   32                   files",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!strstr(limits, rows[i]))
            fail_msg("%s: no \"%s\" in %s", place->shell->name, rows[i], limits);
    }
}

static void a_program_has_its_limits_from_the_start(void **state)
{
    (void)state;
    in_each_shell(held);
}

static void refused(struct place *place)
{
    expect_run(place, &(struct limits){.open_files = 9007199254740991ULL}, "exit 0",
               "exited|a1|125|\n");
}

static void a_limit_that_cannot_be_set_runs_nothing(void **state)
{
    (void)state;
    in_each_shell(refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_positive_safe_integers_only),
        cmocka_unit_test(names_come_before_values_and_values_in_their_order),
        cmocka_unit_test(the_first_name_that_was_printed_is_the_capability),
        cmocka_unit_test(a_preflight_asks_for_what_the_launch_needs),
        cmocka_unit_test_teardown(what_exceeds_a_limit_is_resource_exhausted, end_children),
        cmocka_unit_test_teardown(a_program_has_its_limits_from_the_start, end_children),
        cmocka_unit_test_teardown(a_limit_that_cannot_be_set_runs_nothing, end_children),
    };
    return cmocka_run_group_tests(tests, adopt_orphans, NULL);
}
