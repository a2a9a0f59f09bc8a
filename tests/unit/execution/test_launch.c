/* launch.sh under real shells, with real files and real processes. */
#include "launch_scene.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STARTS_AT_ONCE = 50, KILLED_STARTS = 25, GENEROUS_MS = 600 * 1000 };

static int unlink_status(struct scene *scene)
{
    char path[256];
    path_of(scene->place, "status", path);
    return unlink(path);
}

static void expect_end(struct scene *scene, const char *command, const char *status)
{
    scene_program(scene, (const char *const[]){"sh", "-c", command, NULL});
    assert_int_equal(scene_run(scene), 0);
    expect_file(scene->place, "status", status);
    assert_int_equal(unlink_status(scene), 0);
}

static void ends(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, "");
    expect_end(&scene, "exit 3", "exited|a1|3|\n");
    expect_end(&scene, "kill -TERM $$", "exited|a1|143|SIGTERM\n");
    expect_end(&scene, "kill -KILL $$", "exited|a1|137|SIGKILL\n");
    expect_end(&scene, "exit 200", "exited|a1|200|\n");
    expect_end(&scene, "exit 255", "exited|a1|255|\n");
    expect_end(&scene, "exec no-such-program", "exited|a1|127|\n");
    assert_false(has_file(place, "pid"));
    assert_false(has_file(place, "pid-start"));
    assert_false(has_file(place, "attachd.launcher"));
}

/* S1 to S4 */
static void an_end_is_recorded_with_its_code_and_signal(void **state)
{
    (void)state;
    in_each_shell(ends);
}

static void refusals(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, "");
    scene_program(&scene, (const char *const[]){"no-such-program", NULL});
    assert_int_equal(scene_run(&scene), 0);
    expect_file(place, "status", "exited|a1|127|\n");
    assert_non_null(strstr(text_of_file(place, "stderr"), "no-such-program"));
    assert_int_equal(unlink_status(&scene), 0);
    scene_program(&scene, (const char *const[]){"/etc/passwd", NULL});
    assert_int_equal(scene_run(&scene), 0);
    expect_file(place, "status", "exited|a1|126|\n");
}

static void what_cannot_be_executed_is_126_and_127(void **state)
{
    (void)state;
    in_each_shell(refusals);
}

static void expect_mode(struct place *place, const char *name, mode_t wanted)
{
    char path[256];
    struct stat info;
    path_of(place, name, path);
    assert_int_equal(lstat(path, &info), 0);
    if (info.st_mode != (S_IFREG | wanted))
        fail_msg("%s: %s has mode %o", place->shell->name, name, info.st_mode);
}

/* As awk prints it: the 22nd field between blanks. */
static void expect_awk_token(struct place *place, pid_t pid)
{
    char command[96];
    char wanted[64] = "";
    (void)snprintf(command, sizeof(command), "awk '{print $22}' /proc/%d/stat", (int)pid);
    FILE *awk = popen(command, "r");
    assert_non_null(awk);
    assert_non_null(fgets(wanted, sizeof(wanted), awk));
    assert_int_equal(pclose(awk), 0);
    expect_file(place, "pid-start", wanted);
}

static void sample(struct place *place)
{
    struct scene scene;
    char number[32];
    scene_init(&scene, place, "");
    scene_program(&scene, (const char *const[]){"sleep", "600", NULL});
    scene_write(&scene);
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    expect_file(place, "status", "running|a1\n");
    pid_t pid = read_pid(place);
    (void)snprintf(number, sizeof(number), "%d", (int)pid);
    expect_file(place, "pid", number);
    expect_awk_token(place, pid);
    static const char *const files[] = {"pid", "pid-start", "status", "stdout", "stderr"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        expect_mode(place, files[i], 0644);
    expect_mode(place, "launch.sh", 0700);
    assert_int_equal(getpgid(pid), pid);
    assert_int_equal(getsid(pid), pid);
    expect(place, STATUS_RUNNING, NULL);
    assert_int_equal(kill(parent_of(pid), SIGTERM), 0);
    reap_all();
    expect_file(place, "status", "cancelled|a1|TERM\n");
    assert_false(has_file(place, "pid"));
}

static void a_running_execution_looks_like_the_originals(void **state)
{
    (void)state;
    in_each_shell(sample);
}

/* S14: the name is the program's only after its exec, and shifts what awk counts. */
static void blank_name(struct place *place)
{
    struct scene scene;
    char program[256];
    scene_init(&scene, place, "");
    (void)snprintf(program, sizeof(program), "%s/my worker", place->remote_dir);
    FILE *file = fopen(program, "w");
    assert_non_null(file);
    assert_true(
        fputs("#!/bin/sh\ntrap 'exit 4' TERM\nwhile :; do sleep 0.05; done\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(program, 0755), 0);
    scene_program(&scene, (const char *const[]){"./my worker", NULL});
    scene_write(&scene);
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    pid_t pid = read_pid(place);
    expect_awk_token(place, pid);
    expect(place, STATUS_RUNNING, NULL);
    assert_int_equal(kill(pid, SIGTERM), 0);
    reap_all();
    expect_file(place, "status", "exited|a1|4|\n");
}

static void a_program_with_a_blank_in_its_name_is_identified(void **state)
{
    (void)state;
    in_each_shell(blank_name);
}

/* S18 */
static void deaf(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, "trap \"\" TERM; echo on; while :; do sleep 0.05; done");
    scene_write(&scene);
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    await_file(place, "stdout", "on\n");
    pid_t pid = read_pid(place);
    assert_int_equal(kill(parent_of(pid), SIGTERM), 0);
    /* While it lives it is not called cancelled. */
    expect_file(place, "status", "running|a1\n");
    reap_all();
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(kill(-pid, 0), -1);
    expect_file(place, "status", "cancelled|a1|TERM\n");
    assert_false(has_file(place, "pid"));
}

static void a_launcher_that_is_ended_ends_its_program_first(void **state)
{
    (void)state;
    in_each_shell(deaf);
}

/* S19 */
static void late(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, "trap \"\" TERM; while :; do sleep 0.05; done");
    scene.request.execution_timeout_ms = 300;
    assert_int_equal(scene_run(&scene), 0);
    expect_file(place, "status", "timed_out|a1|execution\n");
    assert_int_equal(unlink_status(&scene), 0);
    scene_program(&scene, (const char *const[]){"sleep", "600", NULL});
    assert_int_equal(scene_run(&scene), 0);
    expect_file(place, "status", "timed_out|a1|execution\n");
}

static void a_program_whose_time_is_up_is_ended(void **state)
{
    (void)state;
    in_each_shell(late);
}

/* S20: waiting for all that was started would take ten minutes else. */
static void watchdog(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, "exit 0");
    scene.request.execution_timeout_ms = GENEROUS_MS;
    assert_int_equal(scene_run(&scene), 0);
    expect_file(place, "status", "exited|a1|0|\n");
}

static void nothing_outlives_a_program_that_ended_in_time(void **state)
{
    (void)state;
    in_each_shell(watchdog);
}

/* S21 */
static void nowhere(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, "exit 0");
    scene.request.working_directory = "no/such";
    assert_int_equal(scene_run(&scene), 1);
    assert_non_null(strstr(scene.standard_error, "working directory"));
    assert_non_null(strstr(text_of_file(place, "status"), "failed|a1|launch|"));
    assert_false(has_file(place, "stdout"));
    /* Called again it says the same. */
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 1);
    assert_non_null(strstr(scene.standard_error, "working directory"));
}

static void a_working_directory_that_is_none_fails_the_launch(void **state)
{
    (void)state;
    in_each_shell(nowhere);
}

static void toolless(struct place *place)
{
    static const char *const needed[] = {"setsid", "sleep", "mv", "rm", "tr"};
    struct scene scene;
    scene_init(&scene, place, "exit 0");
    scene_write(&scene);
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        char wanted[64];
        char path[192];
        char target[64];
        (void)snprintf(path, sizeof(path), "%s/%s", scene.bin, needed[i]);
        ssize_t length = readlink(path, target, sizeof(target) - 1);
        assert_true(length > 0);
        target[length] = '\0';
        scene_forget_tool(&scene, needed[i]);
        (void)snprintf(wanted, sizeof(wanted), "MASTRA_WORKER_CAPABILITY:%s\n", needed[i]);
        int code = scene_start(&scene, SCENE_STARTUP_MS);
        if (code != 69 || strcmp(scene.standard_error, wanted) != 0)
            fail_msg("%s without %s: %d, %s", place->shell->name, needed[i], code,
                     scene.standard_error);
        assert_false(has_file(place, "status"));
        assert_int_equal(symlink(target, path), 0);
    }
    scene_forget_tool(&scene, "setsid");
    char path[192];
    (void)snprintf(path, sizeof(path), "%s/setsid", scene.bin);
    assert_int_equal(symlink("/bin/false", path), 0);
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 69);
    assert_string_equal(scene.standard_error, "MASTRA_WORKER_CAPABILITY:process_groups\n");
    assert_false(has_file(place, "status"));
}

/* S34 */
static void a_missing_tool_is_named_at_once(void **state)
{
    (void)state;
    in_each_shell(toolless);
}

static void surroundings(struct place *place)
{
    static const struct launch_variable env[] = {
        {"GREETING", "it's \"$HOME\" `x`\nand more"}, {"EMPTY", ""}};
    struct scene scene;
    scene_init(&scene, place,
               "printf \"%s|%s|%s|%s|\" \"$GREETING\" \"$EMPTY\" \"$LC_ALL\" \"$1\"; cat; "
               "pwd -P; umask");
    scene.request.env = env;
    scene.request.env_count = 2;
    scene.words[2] = "name";
    scene.words[3] = "a 'b'\n*";
    scene.request.arg_count = 4;
    put(place, "stdin", "the input");
    assert_int_equal(scene_run(&scene), 0);
    expect_file(place, "status", "exited|a1|0|\n");
    const char *wanted = arena_printf(
        place->arena, "it's \"$HOME\" `x`\nand more||C.UTF-8|a 'b'\n*|the input%s\n0022\n",
        place->remote_dir);
    assert_non_null(wanted);
    expect_file(place, "stdout", wanted);
    expect_file(place, "stderr", "");
}

static void the_program_gets_its_words_variables_and_input_unchanged(void **state)
{
    (void)state;
    in_each_shell(surroundings);
}

static void secret(struct place *place)
{
    static const struct launch_variable env[] = {{"TOKEN", "s3cr3t-in-a-launch"}};
    struct scene scene;
    scene_init(&scene, place, "echo on; read -r line < stop");
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/stop", place->remote_dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    scene.request.env = env;
    scene.request.env_count = 1;
    scene_write(&scene);
    pid_t starter = scene_spawn(&scene, SCENE_STARTUP_MS);
    int seen = 0;
    while (!has_file(place, "stdout") || !*text_of_file(place, "stdout"))
        seen += count_processes("s3cr3t-in-a-launch");
    seen += count_processes("s3cr3t-in-a-launch");
    assert_int_equal(seen, 0);
    int fd = open(path, O_WRONLY);
    assert_int_equal(write(fd, "\n", 1), 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(waitpid(starter, NULL, 0), starter);
    reap_all();
    expect_file(place, "status", "exited|a1|0|\n");
}

/* W33 */
static void variables_never_stand_in_a_list_of_processes(void **state)
{
    (void)state;
    in_each_shell(secret);
}

static void copied(struct place *place)
{
    struct scene scene;
    char command[512];
    scene_init(&scene, place, "cat");
    put(place, "stdin", "first");
    assert_int_equal(scene_run(&scene), 0);
    expect_file(place, "stdout", "first");
    (void)snprintf(command, sizeof(command),
                   "cd '%s'/.. && mkdir -m 700 b && cp a1/launch.sh b", place->directory);
    assert_int_equal(system(command), 0);
    (void)snprintf(place->directory, sizeof(place->directory), "%s/.mastra/executions/b",
                   place->remote_dir);
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    reap_all();
    expect_file(place, "status", "exited|b|0|\n");
    expect_file(place, "stdout", "");
}

static void a_copy_of_the_launch_is_another_launch(void **state)
{
    (void)state;
    in_each_shell(copied);
}

/* The program notes each of its starts. */
static const char ONCE[] = "echo start >> starts; exec sleep 600";

static void expect_one_start(struct scene *scene)
{
    struct place *place = scene->place;
    char path[256];
    char text[64] = "";
    (void)snprintf(path, sizeof(path), "%s/starts", place->remote_dir);
    expect_file(place, "status", "running|a1\n");
    /* `running` says that the shell runs, its line may come later. */
    for (int i = 0; i < 6000 && !*text; i++) {
        FILE *file = fopen(path, "r");
        if (file) {
            (void)!fread(text, 1, sizeof(text) - 1, file);
            (void)fclose(file);
        }
        if (!*text)
            (void)poll(NULL, 0, 10);
    }
    assert_int_equal(kill(parent_of(read_pid(place)), SIGTERM), 0);
    reap_all();
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    memset(text, 0, sizeof(text));
    (void)!fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    if (strcmp(text, "start\n") != 0)
        fail_msg("%s: %s", place->shell->name, text);
    assert_int_equal(unlink(path), 0);
    expect_file(place, "status", "cancelled|a1|TERM\n");
    assert_int_equal(unlink_status(scene), 0);
}

static void doubled(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, ONCE);
    scene_write(&scene);
    for (int i = 0; i < STARTS_AT_ONCE; i++) {
        int first_status = 0;
        int second_status = 0;
        pid_t first = scene_spawn(&scene, SCENE_STARTUP_MS);
        pid_t second = scene_spawn(&scene, SCENE_STARTUP_MS);
        assert_int_equal(waitpid(first, &first_status, 0), first);
        assert_int_equal(waitpid(second, &second_status, 0), second);
        assert_int_equal(first_status, 0);
        assert_int_equal(second_status, 0);
        expect_one_start(&scene);
    }
}

static void two_starts_at_once_start_one_program(void **state)
{
    (void)state;
    in_each_shell(doubled);
}

static void killed_starts(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, ONCE);
    scene_write(&scene);
    for (int i = 0; i < KILLED_STARTS; i++) {
        pid_t starter = scene_spawn(&scene, SCENE_STARTUP_MS);
        (void)poll(NULL, 0, i * 3);
        assert_int_equal(kill(starter, SIGKILL), 0);
        assert_int_equal(waitpid(starter, NULL, 0), starter);
        assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
        expect_one_start(&scene);
    }
}

static void a_starter_that_was_killed_is_made_up_for_once(void **state)
{
    (void)state;
    in_each_shell(killed_starts);
}

static void dead_launcher(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, ONCE);
    scene_write(&scene);
    /* A writer that died before it wrote, and one that died after. */
    put(place, "attachd.launcher", "");
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    expect_one_start(&scene);
    put(place, "status", "starting|a1\n");
    put(place, "attachd.launcher", "4194304 1 0-0\n");
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    /* The program outlives its launcher; the record had not got that far. */
    pid_t pid = read_pid(place);
    pid_t launcher = parent_of(pid);
    end_process(launcher);
    put(place, "status", "starting|a1\n");
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    expect_file(place, "status", "running|a1\n");
    assert_int_equal(read_pid(place), pid);
    end_process(pid);
    reap_all();
}

static void a_dead_launcher_is_taken_over(void **state)
{
    (void)state;
    in_each_shell(dead_launcher);
}

static void again(struct place *place)
{
    static const struct {
        const char *status;
        int code;
    } rows[] = {
        {"exited|a1|3|\n", 0},
        {"cancelled|a1|TERM\n", 0},
        {"resource_exhausted|a1|cpu|1|SIGXCPU\n", 0},
        {"timed_out|a1|startup\n", 75},
        {"failed|a1|launch|no luck\n", 1},
    };
    struct scene scene;
    scene_init(&scene, place, ONCE);
    scene_write(&scene);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put(place, "status", rows[i].status);
        assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), rows[i].code);
        assert_string_equal(scene.standard_error, rows[i].code == 1 ? "no luck\n" : "");
        expect_file(place, "status", rows[i].status);
        assert_false(has_file(place, "stdout"));
    }
}

static void what_was_launched_is_not_launched_again(void **state)
{
    (void)state;
    in_each_shell(again);
}

static void unstarted(struct place *place)
{
    static const int limits[] = {0, 1, 10, 30, 60, 100};
    struct scene scene;
    scene_init(&scene, place, "trap \"\" TERM; while :; do sleep 0.05; done");
    scene_write(&scene);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        int code = scene_start(&scene, limits[i]);
        if (code == 0) { /* in time */
            assert_int_equal(kill(parent_of(read_pid(place)), SIGTERM), 0);
            reap_all();
        } else {
            assert_int_equal(code, 75);
            assert_int_equal(count_processes(place->directory), 0);
            expect_file(place, "status", "timed_out|a1|startup\n");
            reap_all();
            assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 75);
        }
        assert_false(has_file(place, "pid"));
        assert_int_equal(unlink_status(&scene), 0);
    }
}

/* W15 */
static void what_did_not_start_in_time_does_not_run(void **state)
{
    (void)state;
    in_each_shell(unstarted);
}

/* A launcher that is stuck cannot answer TERM: its tree goes with it. */
static void stuck(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, "exec sleep 600");
    scene_write(&scene);
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    pid_t pid = read_pid(place);
    assert_int_equal(kill(parent_of(pid), SIGSTOP), 0);
    put(place, "status", "starting|a1\n");
    assert_int_equal(scene_start(&scene, 0), 75);
    reap_all();
    assert_int_equal(kill(pid, 0), -1);
    expect_file(place, "status", "timed_out|a1|startup\n");
}

static void a_stuck_launcher_is_ended_with_its_program(void **state)
{
    (void)state;
    in_each_shell(stuck);
}

static void procless(struct place *place)
{
    struct scene scene;
    scene_init(&scene, place, "sleep 0.1; exit 3");
    scene.hides_proc = true;
    assert_int_equal(scene_run(&scene), 0);
    expect_file(place, "status", "exited|a1|3|\n");
    assert_int_equal(unlink_status(&scene), 0);
    scene_program(&scene, (const char *const[]){"sleep", "600", NULL});
    scene_write(&scene);
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    expect_file(place, "pid-start", "");
    assert_int_equal(kill(parent_of(read_pid(place)), SIGTERM), 0);
    reap_all();
    expect_file(place, "status", "cancelled|a1|TERM\n");
}

/* S35, and more is missing */
static void without_proc_it_runs_all_the_same(void **state)
{
    (void)state;
    if (system("unshare -m true 2>/dev/null") != 0) {
        print_message("skipped: mounting is not allowed here\n");
        return;
    }
    in_each_shell(procless);
}

/* S30: a file system of a few pages, full when the program ends. */
static void full(struct place *place)
{
    struct scene scene;
    char path[256];
    scene_init(&scene, place, "");
    (void)snprintf(path, sizeof(path), "%s", place->directory);
    if (mount("none", path, "tmpfs", 0, "size=64k,mode=700") != 0) {
        print_message("skipped: mounting is not allowed here\n");
        return;
    }
    const char *command = arena_printf(
        place->arena, "read -r line < go; dd if=/dev/zero of='%s/filler' bs=4096; exit 5",
        path);
    assert_non_null(command);
    (void)snprintf(path, sizeof(path), "%s/go", place->remote_dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    scene_program(&scene, (const char *const[]){"sh", "-c", command, NULL});
    scene_write(&scene);
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 0);
    pid_t pid = read_pid(place);
    int fd = open(path, O_WRONLY);
    assert_int_equal(write(fd, "\n", 1), 1);
    assert_int_equal(close(fd), 0);
    /* Until the launcher has seen the end it is a zombie, or gone. */
    while (kill(pid, 0) == 0)
        (void)poll(NULL, 0, 10);
    expect_file(place, "status", "running|a1\n");
    (void)snprintf(path, sizeof(path), "%s/filler", place->directory);
    assert_int_equal(unlink(path), 0);
    reap_all();
    expect_file(place, "status", "exited|a1|5|\n");
    assert_int_equal(umount2(place->directory, MNT_DETACH), 0);
}

static void an_exit_code_outlives_a_full_disk(void **state)
{
    (void)state;
    in_each_shell(full);
}

static void full_at_start(struct place *place)
{
    struct scene scene;
    char command[512];
    scene_init(&scene, place, "exit 0");
    if (mount("none", place->directory, "tmpfs", 0, "size=64k,mode=700") != 0) {
        print_message("skipped: mounting is not allowed here\n");
        return;
    }
    scene_write(&scene);
    (void)snprintf(command, sizeof(command),
                   "dd if=/dev/zero of='%s/filler' bs=4096 2>/dev/null", place->directory);
    (void)!system(command);
    assert_int_equal(scene_start(&scene, SCENE_STARTUP_MS), 1);
    assert_non_null(strstr(scene.standard_error, "status cannot be written"));
    assert_false(has_file(place, "status"));
    reap_all();
    assert_int_equal(umount2(place->directory, MNT_DETACH), 0);
}

static void a_full_disk_is_told_at_the_start(void **state)
{
    (void)state;
    in_each_shell(full_at_start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_end_is_recorded_with_its_code_and_signal,
                                  end_children),
        cmocka_unit_test_teardown(what_cannot_be_executed_is_126_and_127, end_children),
        cmocka_unit_test_teardown(a_running_execution_looks_like_the_originals,
                                  end_children),
        cmocka_unit_test_teardown(a_program_with_a_blank_in_its_name_is_identified,
                                  end_children),
        cmocka_unit_test_teardown(a_launcher_that_is_ended_ends_its_program_first,
                                  end_children),
        cmocka_unit_test_teardown(a_program_whose_time_is_up_is_ended, end_children),
        cmocka_unit_test_teardown(nothing_outlives_a_program_that_ended_in_time,
                                  end_children),
        cmocka_unit_test_teardown(a_working_directory_that_is_none_fails_the_launch,
                                  end_children),
        cmocka_unit_test_teardown(a_missing_tool_is_named_at_once, end_children),
        cmocka_unit_test_teardown(the_program_gets_its_words_variables_and_input_unchanged,
                                  end_children),
        cmocka_unit_test_teardown(variables_never_stand_in_a_list_of_processes,
                                  end_children),
        cmocka_unit_test_teardown(a_copy_of_the_launch_is_another_launch, end_children),
        cmocka_unit_test_teardown(two_starts_at_once_start_one_program, end_children),
        cmocka_unit_test_teardown(a_starter_that_was_killed_is_made_up_for_once,
                                  end_children),
        cmocka_unit_test_teardown(a_dead_launcher_is_taken_over, end_children),
        cmocka_unit_test_teardown(what_was_launched_is_not_launched_again, end_children),
        cmocka_unit_test_teardown(what_did_not_start_in_time_does_not_run, end_children),
        cmocka_unit_test_teardown(a_stuck_launcher_is_ended_with_its_program, end_children),
        cmocka_unit_test_teardown(without_proc_it_runs_all_the_same, end_children),
        cmocka_unit_test_teardown(an_exit_code_outlives_a_full_disk, end_children),
        cmocka_unit_test_teardown(a_full_disk_is_told_at_the_start, end_children),
    };
    return cmocka_run_group_tests(tests, adopt_orphans, NULL);
}
