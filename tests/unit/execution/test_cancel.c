/* The cancel program under real shells, against real executions and processes. What it
 * prints is read and judged as cancel_execution does; what it did is looked at after. */
#include "place.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "execution/remote.h"

extern const char remote_cancel_sh[];

enum { LONG = 60 * 1000, SHORT = 200, CANCELS_PER_SHELL = 14 };

/* The script with each `from` made `to`. */
static const char *changed_script(struct place *place, const char *script, const char *from,
                                  const char *to)
{
    size_t most = strlen(script) * 2;
    char *changed = arena_calloc(place->arena, most, 1);
    size_t length = 0;
    assert_non_null(changed);
    for (const char *at = strstr(script, from); at; at = strstr(script, from)) {
        length += (size_t)snprintf(changed + length, most - length, "%.*s%s",
                                   (int)(at - script), script, to);
        script = at + strlen(from);
    }
    length += (size_t)snprintf(changed + length, most - length, "%s", script);
    assert_true(length < most);
    return changed;
}

/* Runs the program with each `from` made `to` in it, NULL: as it is; the result is
 * look_parse's. */
static int cancel_changed(struct place *place, int grace_ms, const char *from,
                          const char *to)
{
    char grace[16];
    const char *script;
    (void)snprintf(grace, sizeof(grace), "%d", grace_ms / 10);
    const char *arguments[] = {place->request.nonce, place->remote_dir, "a1", grace, NULL};
    assert_int_equal(remote_compose(remote_cancel_sh, arguments, PLACE_SCRIPT_MAX,
                                    place->arena, &script, &place->err),
                     0);
    buffer_scoped struct buffer answer;
    buffer_init(&answer, PLACE_ANSWER_MAX);
    run_script(place, from ? changed_script(place, script, from, to) : script, &answer);
    return read_answer(place, &answer);
}

/* In a sandbox without /proc. */
static int cancel_blindly(struct place *place, int grace_ms)
{
    return cancel_changed(place, grace_ms, "/proc/", "/none/");
}

static int cancel(struct place *place, int grace_ms)
{
    return cancel_changed(place, grace_ms, NULL, NULL);
}

static void expect_cancel_at(int line, struct place *place, int grace_ms,
                             enum status_state wanted, const char *reason)
{
    if (cancel(place, grace_ms) != 0)
        fail_msg("line %d, %s: %s", line, place->shell->name, place->err.message);
    expect_status(line, place, wanted, reason);
}

#define expect_cancel(place, grace_ms, wanted, reason)                                     \
    expect_cancel_at(__LINE__, place, grace_ms, wanted, reason)

static bool exists(struct place *place, const char *name)
{
    char path[256];
    path_of(place, name, path);
    return access(path, F_OK) == 0;
}

static void assert_file(struct place *place, const char *name, const char *wanted)
{
    char path[256];
    char text[256] = "";
    path_of(place, name, path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    (void)!fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    assert_string_equal(text, wanted);
}

static bool is_alive(pid_t pid)
{
    siginfo_t info = {0};
    return kill(pid, 0) == 0 &&
           (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0);
}

/* Waits for what the workload writes last. */
static void wait_for_output(struct place *place, const char *wanted)
{
    place->request.stdout_request = (struct output_request){true, 0, 100};
    size_t size = strlen(wanted);
    do
        expect(place, STATUS_RUNNING, NULL);
    while (place->look.outputs[0].size < size);
    assert_memory_equal(place->look.outputs[0].data, wanted, size);
    place->request.stdout_request.wanted = false;
}

/* Reaps what was left to this process; fails where something of it lives on. */
static void reap_soon(struct place *place)
{
    enum { TRIES = 1000 };
    const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    for (int i = 0; waitpid(-1, NULL, WNOHANG) != -1; i++) {
        if (i == TRIES)
            fail_msg("%s: something was not ended", place->shell->name);
        (void)nanosleep(&pause, NULL);
    }
}

/* It is cancelled, on disk as well, and nothing is left of it. */
static void assert_cancelled(struct place *place)
{
    assert_string_equal(place->status.signal, "TERM");
    assert_file(place, "status", "cancelled|a1|TERM\n");
    assert_false(exists(place, "pid"));
    assert_false(exists(place, "pid-start"));
    assert_false(exists(place, "status.00112233445566778899aabbccddeeff"));
    reap_soon(place);
    assert_file(place, "status", "cancelled|a1|TERM\n");
}

static void remove_execution(struct place *place)
{
    char command[256];
    (void)snprintf(command, sizeof(command), "rm -r '%s'", place->directory);
    assert_int_equal(system(command), 0);
}

/* -------------------------------------------------------------------- what has ended */

static void nothing_to_end(struct place *place)
{
    expect_cancel(place, LONG, STATUS_UNKNOWN, "absent");
    make_directory(place);
    put(place, "status", "exited|a1|3|\n");
    expect_cancel(place, LONG, STATUS_EXITED, NULL);
    assert_int_equal(place->status.exit_code, 3);
    put(place, "status", "exited|a1|143|SIG15\n"); /* not by us */
    expect_cancel(place, LONG, STATUS_EXITED, NULL);
    put(place, "status", "timed_out|a1|execution\n");
    expect_cancel(place, LONG, STATUS_TIMED_OUT, NULL);
    put(place, "status", "");
    expect_cancel(place, LONG, STATUS_UNKNOWN, "unreadable");
    put(place, "status", "running|b1\n");
    expect_cancel(place, LONG, STATUS_UNKNOWN, "foreign");
    put(place, "status", "starting|a1\n");
    expect_cancel(place, LONG, STATUS_LOST, "no_launcher");
    put(place, "status", "running|a1\n");
    put_number(place, "pid", dead_pid());
    put(place, "pid-start", "5\n");
    expect_cancel(place, LONG, STATUS_LOST, "no_process");
    assert_file(place, "status", "running|a1\n");
    pid_t zombie = start_zombie();
    put_number(place, "pid", zombie);
    put_token(place, start_time(zombie));
    expect_cancel(place, LONG, STATUS_LOST, "zombie");
    assert_file(place, "status", "running|a1\n");
    end_process(zombie);
}

static void what_has_ended_stays_as_it_is(void **state)
{
    (void)state;
    in_each_shell(nothing_to_end);
}

/* -------------------------------------------------------- what must not be signalled */

static void expect_alive_after(int line, struct place *place, pid_t pid,
                               enum status_state state, const char *reason)
{
    expect_cancel_at(line, place, SHORT, state, reason);
    if (!is_alive(pid))
        fail_msg("line %d, %s: a process that is not the worker was ended", line,
                 place->shell->name);
}

static void not_the_worker(struct place *place)
{
    make_directory(place);
    pid_t pid = start_sleeper("other");
    put(place, "status", "running|a1\n");
    put_number(place, "pid", pid);
    put_token(place, start_time(pid) - 1);
    expect_alive_after(__LINE__, place, pid, STATUS_LOST, "pid_reused");
    put_token(place, start_time(pid));
    put(place, "attachd", "boot 00000000-0000-4000-8000-000000000000\n");
    expect_alive_after(__LINE__, place, pid, STATUS_LOST, "rebooted");
    put(place, "attachd", "job j1\n");
    /* Without a start time a process counts, but not after the end. */
    put(place, "pid-start", "");
    put(place, "status", "exited|a1|0|\n");
    expect_alive_after(__LINE__, place, pid, STATUS_RUNNING, NULL);
    /* kill takes these for groups and for everybody. */
    static const char *const bad[] = {"-1", "0", "1", "-2", "", "a", "99999999"};
    put(place, "status", "running|a1\n");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put(place, "pid", bad[i]);
        expect_alive_after(__LINE__, place, pid, STATUS_LOST, "invalid_pid");
    }
    /* What the shell hangs on: this process is its parent. */
    put_number(place, "pid", getpid());
    put_token(place, start_time(getpid()));
    expect_alive_after(__LINE__, place, pid, STATUS_RUNNING, NULL);
    end_process(pid);
}

static void only_the_worker_itself_is_signalled(void **state)
{
    (void)state;
    in_each_shell(not_the_worker);
}

/* --------------------------------------------------------------------- what is ended */

static void again_and_again(struct place *place)
{
    for (int i = 0; i < CANCELS_PER_SHELL; i++) {
        start_execution(place, "exec sleep 300");
        expect_cancel(place, LONG, STATUS_CANCELLED, NULL);
        assert_cancelled(place);
        if (i == 0)
            expect_cancel(place, LONG, STATUS_CANCELLED, NULL);
        remove_execution(place);
    }
}

static void forty_cancels_in_a_row_say_what_then_stands(void **state)
{
    (void)state;
    in_each_shell(again_and_again);
}

static void traps_term(struct place *place)
{
    start_execution(place, "trap \"exit 7\" TERM; echo ready; "
                           "while :; do sleep 0.05; done");
    wait_for_output(place, "ready\n");
    expect_cancel(place, LONG, STATUS_EXITED, NULL);
    assert_int_equal(place->status.exit_code, 7);
    reap_soon(place);
    assert_file(place, "status", "exited|a1|7|\n");
}

static void a_worker_that_ends_by_itself_keeps_its_exit_code(void **state)
{
    (void)state;
    in_each_shell(traps_term);
}

/* In a process of its own: once the program asks the clock for the first time, when it has
 * seen the worker run, the worker goes on to its end. Then time stands still. */
static pid_t end_it_at_the_first_look_at(const char *clock, const char *go,
                                         const char *status)
{
    enum { LOOKS = 4000 };
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    char kind = 0;
    int clock_fd = open(clock, O_WRONLY | O_CLOEXEC);
    /* So that somebody reads it between two looks too. */
    int reader_fd = open(clock, O_RDWR | O_CLOEXEC);
    int go_fd = open(go, O_WRONLY | O_CLOEXEC);
    bool failed = clock_fd < 0 || reader_fd < 0 || go_fd < 0 || write(go_fd, "\n", 1) != 1;
    while (!failed && kind != 'e') {
        int fd = open(status, O_RDONLY | O_CLOEXEC);
        failed = fd < 0 || read(fd, &kind, 1) != 1;
        (void)close(fd);
        (void)sched_yield();
    }
    for (int i = 0; !failed && i < LOOKS; i++)
        failed = write(clock_fd, "1.00 1.00\n", 10) != 10;
    (void)pause();
    _exit(0);
}

static void ends_meanwhile(struct place *place)
{
    char clock[128];
    char go[128];
    char status[256];
    char program[256];
    (void)snprintf(clock, sizeof(clock), "%s/clock", place->root);
    (void)snprintf(go, sizeof(go), "%s/go", place->root);
    path_of(place, "status", status);
    assert_int_equal(mkfifo(clock, 0600), 0);
    assert_int_equal(mkfifo(go, 0600), 0);
    (void)snprintf(program, sizeof(program), "echo ready; read -r line <%s; exit 3", go);
    start_execution(place, program);
    wait_for_output(place, "ready\n");
    pid_t helper = end_it_at_the_first_look_at(clock, go, status);
    if (cancel_changed(place, LONG, "/proc/uptime", clock) != 0)
        fail_msg("%s: %s", place->shell->name, place->err.message);
    expect_status(__LINE__, place, STATUS_EXITED, NULL);
    assert_int_equal(place->status.exit_code, 3);
    end_process(helper);
    reap_soon(place);
    assert_file(place, "status", "exited|a1|3|\n");
}

static void a_worker_that_ends_while_it_is_looked_at_keeps_its_exit_code(void **state)
{
    (void)state;
    in_each_shell(ends_meanwhile);
}

static void ignores_term(struct place *place)
{
    start_execution(place, "trap \"\" TERM; echo ready; exec sleep 300");
    wait_for_output(place, "ready\n");
    expect_cancel(place, SHORT, STATUS_CANCELLED, NULL);
    assert_cancelled(place);
}

static void a_worker_that_ignores_term_is_killed_after_the_grace(void **state)
{
    (void)state;
    in_each_shell(ignores_term);
}

/* The grandchild outlives its parent and the TERM; both are in the worker's group. */
static void grandchild(struct place *place)
{
    start_execution(place, "(trap \"\" TERM; echo ready; exec sleep 300) & exec sleep 300");
    wait_for_output(place, "ready\n");
    expect_cancel(place, SHORT, STATUS_CANCELLED, NULL);
    assert_cancelled(place); /* reaps the grandchild, so it has ended */
}

static void the_rest_of_the_group_is_killed_too(void **state)
{
    (void)state;
    in_each_shell(grandchild);
}

static void no_leader(struct place *place)
{
    make_directory(place);
    pid_t pid = start_sleeper("worker");
    put(place, "status", "running|a1\n");
    put_number(place, "pid", pid);
    put(place, "pid-start", "");
    expect_cancel(place, LONG, STATUS_CANCELLED, NULL);
    assert_cancelled(place);
}

static void a_worker_without_a_group_and_start_time_is_ended(void **state)
{
    (void)state;
    in_each_shell(no_leader);
}

/* The worker of a dead launcher; it stays a zombie, and nothing writes its end but us. */
static void launcher_killed(struct place *place)
{
    start_execution(place, "exec sleep 300");
    pid_t launcher = parent_of(read_pid(place));
    assert_int_equal(kill(launcher, SIGKILL), 0);
    assert_int_equal(waitpid(launcher, NULL, 0), launcher);
    expect_cancel(place, LONG, STATUS_CANCELLED, NULL);
    assert_cancelled(place);
}

static void a_worker_without_its_launcher_is_cancelled(void **state)
{
    (void)state;
    in_each_shell(launcher_killed);
}

/* ---------------------------------------------------------------------- what starts */

/* A launcher that waits in `starting`: what it then runs is `more`. */
static void start_launcher(struct place *place, const char *more)
{
    char text[1024];
    char line[512];
    make_directory(place);
    (void)snprintf(text, sizeof(text), "cd '%s'\nprintf 'starting|a1\\n' >status\n%s\n",
                   place->directory, more);
    put(place, "launch.sh", text);
    (void)snprintf(line, sizeof(line), "setsid sh '%s/launch.sh' >/dev/null 2>&1 &",
                   place->directory);
    assert_int_equal(system(line), 0);
    while (!exists(place, "ready"))
        (void)sched_yield();
}

static void starting(struct place *place)
{
    start_launcher(place, ": >ready\nsleep 300\n: >ran");
    expect_cancel(place, LONG, STATUS_CANCELLED, NULL);
    assert_cancelled(place);
    assert_false(exists(place, "ran"));
}

static void a_launcher_that_has_not_started_its_worker_is_ended(void **state)
{
    (void)state;
    in_each_shell(starting);
}

/* The worker runs, and its launcher never writes its pid. */
static void untold(struct place *place)
{
    start_launcher(place, "setsid sh -c 'trap \"\" TERM; : >ready; exec sleep 300' &\n"
                          "wait\n: >ran");
    expect_cancel(place, SHORT, STATUS_CANCELLED, NULL);
    assert_cancelled(place); /* reaps the worker, so it has ended */
}

static void a_worker_whose_pid_was_not_written_ends_with_its_launcher(void **state)
{
    (void)state;
    in_each_shell(untold);
}

/* The pid comes while the program waits for it. */
static void late_pid(struct place *place)
{
    start_launcher(place, ": >ready\nsleep 0.3\nsetsid sleep 300 &\nprintf %s $! >pid\n"
                          "wait $!\nprintf 'exited|a1|%s|\\n' $? >status\nrm pid");
    expect_cancel(place, LONG, STATUS_CANCELLED, NULL);
    assert_cancelled(place);
}

static void a_worker_that_comes_meanwhile_is_ended(void **state)
{
    (void)state;
    in_each_shell(late_pid);
}

static void blind(struct place *place)
{
    make_directory(place);
    put(place, "status", "starting|a1\n");
    assert_int_equal(cancel_blindly(place, SHORT), 0);
    expect_status(__LINE__, place, STATUS_STARTING, NULL);
    assert_file(place, "status", "starting|a1\n");
    pid_t pid = start_sleeper("worker");
    put_number(place, "pid", pid);
    put_token(place, start_time(pid));
    assert_int_equal(cancel_blindly(place, SHORT), 0);
    expect_status(__LINE__, place, STATUS_RUNNING, NULL);
    assert_true(is_alive(pid));
    end_process(pid);
}

static void what_cannot_be_ended_is_not_called_cancelled(void **state)
{
    (void)state;
    in_each_shell(blind);
}

/* As launched where there was no /proc either. */
static void blind_from_the_start(struct place *place)
{
    start_execution(place, "exec sleep 300");
    put(place, "pid-start", "");
    assert_int_equal(cancel_blindly(place, LONG), 0);
    expect_status(__LINE__, place, STATUS_CANCELLED, NULL);
    assert_cancelled(place);
}

static void without_proc_a_worker_is_ended_that_was_launched_so(void **state)
{
    (void)state;
    in_each_shell(blind_from_the_start);
}

/* ------------------------------------------------------------------------ full disks */

/* A file system of five pages below the executions; false where mounting is not allowed. */
static bool mount_small(struct place *place, char path[256])
{
    make_directory(place);
    path_of(place, "..", path);
    return mount("none", path, "tmpfs", 0, "size=20k,mode=700") == 0;
}

static void fill(struct place *place)
{
    char path[256];
    char page[4096] = {0};
    path_of(place, "filler", path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    while (write(fd, page, sizeof(page)) > 0)
        continue;
    (void)close(fd);
}

/* The launcher leaves an empty status; its own pid files then give the room. Without it, it
 * is we who write. */
static void full_disk(struct place *place)
{
    char path[256];
    for (int has_launcher = 0; has_launcher < 2; has_launcher++) {
        if (!mount_small(place, path)) {
            print_message("skipped: mounting is not allowed here\n");
            return;
        }
        start_execution(place, "exec sleep 300");
        if (!has_launcher)
            assert_int_equal(kill(parent_of(read_pid(place)), SIGKILL), 0);
        fill(place);
        expect_cancel(place, LONG, STATUS_CANCELLED, NULL);
        assert_cancelled(place);
        assert_int_equal(umount2(path, MNT_DETACH), 0);
        assert_int_equal(rmdir(place->directory), 0);
    }
}

static void a_full_disk_leaves_no_empty_status(void **state)
{
    (void)state;
    in_each_shell(full_disk);
}

/* ------------------------------------------------------------------------------ tools */

/* The tools of a sandbox, in a directory of their own. */
static void put_tool(struct place *place, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/bin/%s", place->root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "#!/bin/sh\n%s\n", text);
    (void)fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
}

static void own_tools(struct place *place)
{
    char bin[128];
    (void)snprintf(bin, sizeof(bin), "%s/bin", place->root);
    assert_int_equal(mkdir(bin, 0755), 0);
    (void)snprintf(place->path, sizeof(place->path), "PATH=%s", bin);
    place->environment[0] = place->path;
}

static void without_tools(struct place *place)
{
    static const char *const tools[] = {"sleep", "mv", "rm"};
    if (strcmp(place->shell->name, "busybox") == 0)
        return; /* brings its own */
    own_tools(place);
    make_directory(place);
    pid_t pid = start_sleeper("worker");
    put(place, "status", "running|a1\n");
    put_number(place, "pid", pid);
    put_token(place, start_time(pid));
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        assert_int_equal(cancel(place, SHORT), -1);
        assert_int_equal(place->err.code, ERROR_CAPABILITY_UNAVAILABLE);
        assert_string_equal(place->err.capability, tools[i]);
        assert_true(is_alive(pid));
        char text[64];
        (void)snprintf(text, sizeof(text), "exec /bin/%s \"$@\"", tools[i]);
        put_tool(place, tools[i], text);
    }
    /* A sleep that takes whole seconds only. */
    put_tool(place, "sleep", "case $1 in *.*) exit 1 ;; esac; exec /bin/sleep \"$1\"");
    expect_cancel(place, LONG, STATUS_CANCELLED, NULL);
    assert_cancelled(place);
}

static void a_missing_tool_is_named_before_anything_is_ended(void **state)
{
    (void)state;
    in_each_shell(without_tools);
}

/* -------------------------------------------------------------------- a lost caller */

/* Its standard output and error are a pipe that nobody reads any more. */
static void caller_gone(struct place *place)
{
    start_execution(place, "trap \"\" TERM; echo ready; exec sleep 300");
    wait_for_output(place, "ready\n");
    const char *arguments[] = {place->request.nonce, place->remote_dir, "a1", "20", NULL};
    const char *script;
    assert_int_equal(remote_compose(remote_cancel_sh, arguments, PLACE_SCRIPT_MAX,
                                    place->arena, &script, &place->err),
                     0);
    run_unheard(place, script);
    expect(place, STATUS_CANCELLED, NULL);
    assert_cancelled(place);
}

static void a_caller_that_has_gone_does_not_stop_it_half_way(void **state)
{
    (void)state;
    in_each_shell(caller_gone);
}

#define TEST(name) cmocka_unit_test_teardown(name, end_children)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_has_ended_stays_as_it_is),
        TEST(only_the_worker_itself_is_signalled),
        TEST(forty_cancels_in_a_row_say_what_then_stands),
        TEST(a_worker_that_ends_by_itself_keeps_its_exit_code),
        TEST(a_worker_that_ends_while_it_is_looked_at_keeps_its_exit_code),
        TEST(a_worker_that_ignores_term_is_killed_after_the_grace),
        TEST(the_rest_of_the_group_is_killed_too),
        TEST(a_worker_without_a_group_and_start_time_is_ended),
        TEST(a_worker_without_its_launcher_is_cancelled),
        TEST(a_launcher_that_has_not_started_its_worker_is_ended),
        TEST(a_worker_whose_pid_was_not_written_ends_with_its_launcher),
        TEST(a_worker_that_comes_meanwhile_is_ended),
        TEST(what_cannot_be_ended_is_not_called_cancelled),
        TEST(without_proc_a_worker_is_ended_that_was_launched_so),
        TEST(a_full_disk_leaves_no_empty_status),
        TEST(a_missing_tool_is_named_before_anything_is_ended),
        TEST(a_caller_that_has_gone_does_not_stop_it_half_way),
    };
    return cmocka_run_group_tests(tests, adopt_orphans, NULL);
}
