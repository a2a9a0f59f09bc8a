/* Real children. What libc and libuv may refuse is refused by the functions of the same
 * name below, which stand before theirs. */
#include "support.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

#include "runtime/deadline.h"
#include "runtime/loop.h"
#include "runtime/process.h"

/* ---- faults ---- */

static struct {
    bool without_pidfd;
    bool without_signals;
    int poll_calls_until_refusal; /* 0: never */
    int spawn_errno;
    atomic_int spawned;
    atomic_int pidfds;
} fault;

int pidfd_open(pid_t pid, unsigned flags)
{
    if (fault.without_pidfd) {
        errno = ENOSYS;
        return -1;
    }
    fault.pidfds++;
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

int uv_signal_init(uv_loop_t *loop, uv_signal_t *handle)
{
    if (fault.without_signals)
        return UV_EMFILE;
    int (*real)(uv_loop_t *, uv_signal_t *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "uv_signal_init");
    return real(loop, handle);
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *handle, int fd)
{
    if (fault.poll_calls_until_refusal && --fault.poll_calls_until_refusal == 0)
        return UV_ENOMEM;
    int (*real)(uv_loop_t *, uv_poll_t *, int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "uv_poll_init");
    return real(loop, handle, fd);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[],
                 char *const envp[])
{
    if (fault.spawn_errno)
        return fault.spawn_errno;
    int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                const posix_spawnattr_t *, char *const[], char *const[]) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "posix_spawnp");
    int failed = real(pid, file, actions, attributes, argv, envp);
    fault.spawned += failed == 0;
    return failed;
}

static int no_faults(void **state)
{
    (void)state;
    memset(&fault, 0, sizeof(fault));
    return 0;
}

/* ---- running ---- */

static const char *const path_only[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};

struct run {
    struct process_request request;
    const char *argv[4];
    struct arena *arena;
    struct process_result result;
    struct error err;
    int returned;
};

static void prepare(struct run *run, const char *script)
{
    memset(run, 0, sizeof(*run));
    run->argv[0] = "/bin/sh";
    run->argv[1] = "-c";
    run->argv[2] = script;
    run->request = (struct process_request){
        .argv = run->argv, .env = path_only, .cwd_fd = -1, .output_limit_bytes = 65536};
    run->arena = arena_new(SIZE_MAX);
    assert_non_null(run->arena);
    run->result.exit_code = -77;
    run->returned = -77;
}

static void run_in_task(void *arg)
{
    struct run *run = arg;
    run->returned = process_run(&run->request, run->arena, &run->result, &run->err);
}

static void run_script(struct run *run, const char *script)
{
    prepare(run, script);
    support_run_task(run_in_task, run);
}

static void run_done(struct run *run)
{
    arena_free(run->arena);
    run->arena = NULL;
}

static void assert_exited(const struct run *run, int exit_code)
{
    assert_string_equal(run->err.message, "");
    assert_int_equal(run->returned, 0);
    assert_int_equal(run->result.end, PROCESS_EXITED);
    assert_int_equal(run->result.exit_code, exit_code);
}

/* Whether the process is there and no zombie. */
static bool is_running(pid_t pid)
{
    char path[64];
    char text[256] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    size_t got = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[got] = '\0';
    const char *after_name = strrchr(text, ')');
    return after_name && strncmp(after_name, ") Z", 3) != 0 &&
           strncmp(after_name, ") X", 3) != 0;
}

/* KILL has been sent; the process is gone when the kernel says so. */
static void assert_ends(pid_t pid)
{
    assert_true(pid > 1);
    for (int i = 0; i < 5000 && is_running(pid); i++)
        (void)usleep(1000);
    assert_false(is_running(pid));
}

/* valgrind makes a fork of posix_spawn's vfork: a failed exec is not reported to us. */
static void skip_without_vfork(void)
{
    if (RUNNING_ON_VALGRIND)
        skip();
}

static pid_t number_in(const char *text)
{
    return (pid_t)strtol(text, NULL, 10);
}

static void make_folder(char *path, size_t bytes)
{
    (void)snprintf(path, bytes, "/tmp/attachd-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}

/* ---- how commands end ---- */

static void exit_codes_arrive_as_they_are(void **state)
{
    (void)state;
    static const int codes[] = {0, 1, 7, 126, 127, 255};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char script[32];
        struct run run;
        (void)snprintf(script, sizeof(script), "exit %d", codes[i]);
        run_script(&run, script);
        assert_exited(&run, codes[i]);
        assert_string_equal(run.result.out.data, "");
        run_done(&run);
    }
}

static void death_by_a_signal_is_told_from_an_exit(void **state)
{
    (void)state;
    struct run run;
    run_script(&run, "echo dying; kill -9 $$");
    assert_int_equal(run.returned, 0);
    assert_int_equal(run.result.end, PROCESS_SIGNALED);
    assert_int_equal(run.result.signal, SIGKILL);
    assert_string_equal(run.result.out.data, "dying\n");
    run_done(&run);
}

static void a_program_that_is_not_there_is_127(void **state)
{
    (void)state;
    skip_without_vfork();
    static const char *const names[] = {"/nowhere/at-all", "attachd-no-such-program",
                                        "/etc/passwd/x"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct run run;
        prepare(&run, "");
        run.argv[0] = names[i];
        support_run_task(run_in_task, &run);
        assert_int_equal(run.returned, -1);
        assert_int_equal(run.err.code, ERROR_COMMAND_FAILED);
        assert_true(run.err.has_exit_code);
        assert_int_equal(run.err.exit_code, 127);
        assert_non_null(strstr(run.err.message, names[i]));
        assert_int_equal(run.result.exit_code, -77);
        run_done(&run);
    }
}

static void a_program_that_may_not_be_run_is_126(void **state)
{
    (void)state;
    skip_without_vfork();
    struct run run;
    prepare(&run, "");
    run.argv[0] = "/etc/passwd";
    support_run_task(run_in_task, &run);
    assert_int_equal(run.err.code, ERROR_COMMAND_FAILED);
    assert_int_equal(run.err.exit_code, 126);
    run_done(&run);
}

static void a_host_short_of_processes_is_an_error_to_retry(void **state)
{
    (void)state;
    static const int numbers[] = {EAGAIN, ENOMEM, EMFILE, ENFILE};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct run run;
        fault.spawn_errno = numbers[i];
        run_script(&run, "exit 0");
        assert_int_equal(run.returned, -1);
        assert_int_equal(run.err.code, ERROR_PROVIDER_UNAVAILABLE);
        assert_true(run.err.retryable);
        run_done(&run);
    }
}

static void run_without_descriptors(void *arg)
{
    struct rlimit before;
    struct rlimit none;
    (void)getrlimit(RLIMIT_NOFILE, &before);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &none);
    run_in_task(arg);
    (void)setrlimit(RLIMIT_NOFILE, &before);
}

static void a_host_short_of_descriptors_is_an_error_to_retry(void **state)
{
    (void)state;
    struct run run;
    prepare(&run, "exit 0");
    support_run_task(run_without_descriptors, &run);
    assert_int_equal(run.returned, -1);
    assert_int_equal(run.err.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_true(run.err.retryable);
    run_done(&run);
}

/* ---- what commands are given ---- */

static void standard_input_is_empty_and_ends_at_once(void **state)
{
    (void)state;
    struct run run;
    run_script(&run, "cat; echo over");
    assert_exited(&run, 0);
    assert_string_equal(run.result.out.data, "over\n");
    run_done(&run);
}

static void input_reaches_the_command_whole(void **state)
{
    (void)state;
    struct run run;
    enum { BYTES = 1000 * 1000 };
    char *input = malloc(BYTES);
    assert_non_null(input);
    for (int i = 0; i < BYTES; i++)
        input[i] = (char)(i * 7 + i / 251);
    prepare(&run, "cat");
    run.request.input = input;
    run.request.input_bytes = BYTES;
    run.request.output_limit_bytes = BYTES;
    support_run_task(run_in_task, &run);
    assert_exited(&run, 0);
    assert_int_equal(run.result.out.size, BYTES);
    assert_memory_equal(run.result.out.data, input, BYTES);
    run_done(&run);
    prepare(&run, "cat; echo over");
    run.request.input = "";
    support_run_task(run_in_task, &run);
    assert_string_equal(run.result.out.data, "over\n");
    run_done(&run);
    free(input);
}

static void a_command_need_not_read_its_input(void **state)
{
    (void)state;
    struct run run;
    enum { BYTES = 300 * 1000 };
    char *input = calloc(1, BYTES);
    assert_non_null(input);
    prepare(&run, "exec <&-; echo unread; exit 3");
    run.request.input = input;
    run.request.input_bytes = BYTES;
    support_run_task(run_in_task, &run);
    assert_exited(&run, 3);
    assert_string_equal(run.result.out.data, "unread\n");
    run_done(&run);
    free(input);
}

static void a_command_gets_the_three_standard_descriptors_and_no_other(void **state)
{
    (void)state;
    struct run run;
    int leaky = fcntl(STDERR_FILENO, F_DUPFD, 57); /* without close-on-exec */
    assert_true(leaky >= 57);
    run_script(&run, "i=0; while [ $i -lt 200 ]; do "
                     "if [ -e /proc/$$/fd/$i ]; then echo $i; fi; i=$((i+1)); done");
    (void)close(leaky);
    assert_string_equal(run.result.out.data, "0\n1\n2\n");
    run_done(&run);
}

static void signals_are_neither_ignored_nor_blocked_in_the_command(void **state)
{
    (void)state;
    struct run run;
    sigset_t some;
    sigset_t before;
    (void)sigemptyset(&some);
    (void)sigaddset(&some, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &some, &before);
    (void)signal(SIGHUP, SIG_IGN); /* and SIGPIPE is, see main */
    run_script(&run, "while read name value; do case $name in "
                     "SigBlk:|SigIgn:) echo $name $value;; esac; done </proc/self/status");
    (void)signal(SIGHUP, SIG_DFL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_string_equal(run.result.out.data,
                        "SigBlk: 0000000000000000\nSigIgn: 0000000000000000\n");
    run_done(&run);
}

static void sigpipe_ends_a_writer_as_in_any_shell(void **state)
{
    (void)state;
    struct run run;
    run_script(&run, "sh -c 'while :; do echo y; done; echo ignored >&2' | head -n 1");
    assert_exited(&run, 0);
    assert_string_equal(run.result.out.data, "y\n");
    assert_string_equal(run.result.err.data, "");
    run_done(&run);
}

static void the_command_leads_a_session_of_its_own(void **state)
{
    (void)state;
    struct run run;
    char expected[64];
    run_script(&run, "read pid name state parent group session rest </proc/$$/stat; "
                     "echo $pid; echo $group $session");
    pid_t pid = number_in(run.result.out.data);
    assert_int_not_equal(pid, 0);
    (void)snprintf(expected, sizeof(expected), "%d\n%d %d\n", pid, pid, pid);
    assert_string_equal(run.result.out.data, expected);
    run_done(&run);
}

static void the_environment_is_exactly_what_was_given(void **state)
{
    (void)state;
    static const char *const env[] = {"A=1", "B=x  y\nz", "C=", NULL};
    struct run run;
    prepare(&run, "");
    run.argv[0] = "env"; /* found in our PATH */
    run.argv[1] = NULL;
    run.request.env = env;
    support_run_task(run_in_task, &run);
    assert_exited(&run, 0);
    assert_string_equal(run.result.out.data, "A=1\nB=x  y\nz\nC=\n");
    run_done(&run);
    prepare(&run, "");
    run.argv[0] = "env";
    run.argv[1] = NULL;
    run.request.env = NULL;
    support_run_task(run_in_task, &run);
    assert_exited(&run, 0);
    assert_string_equal(run.result.out.data, "");
    run_done(&run);
}

static void the_command_starts_in_the_directory_given(void **state)
{
    (void)state;
    struct run run;
    char folder[64];
    char expected[80];
    make_folder(folder, sizeof(folder));
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    prepare(&run, "pwd -P");
    run.request.cwd_fd = fd;
    support_run_task(run_in_task, &run);
    (void)snprintf(expected, sizeof(expected), "%s\n", folder);
    assert_string_equal(run.result.out.data, expected);
    (void)close(fd);
    (void)rmdir(folder);
    run_done(&run);
}

/* ---- output ---- */

static void the_two_outputs_are_kept_apart_and_byte_for_byte(void **state)
{
    (void)state;
    struct run run;
    run_script(&run, "printf 'a\\0b\\377'; printf 'e\\0' >&2");
    assert_exited(&run, 0);
    assert_int_equal(run.result.out.size, 4);
    assert_memory_equal(run.result.out.data, "a\0b\377", 5);
    assert_int_equal(run.result.err.size, 2);
    assert_memory_equal(run.result.err.data, "e\0", 3);
    assert_false(run.result.out.held_open);
    assert_int_equal(run.result.out.dropped_bytes, 0);
    run_done(&run);
}

static long peak_kib(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void of_100_megabytes_the_last_one_is_kept_in_bounded_memory(void **state)
{
    (void)state;
    struct run run;
    enum { LIMIT = 1024 * 1024, BYTES = 100 * 1000 * 1000 };
    prepare(&run, "head -c 100000000 /dev/zero | tr '\\0' x; printf END");
    run.request.output_limit_bytes = LIMIT;
    long before_kib = peak_kib();
    support_run_task(run_in_task, &run);
    assert_exited(&run, 0);
    assert_int_equal(run.result.out.size, LIMIT);
    assert_int_equal(run.result.out.dropped_bytes, BYTES + 3 - LIMIT);
    assert_memory_equal(run.result.out.data + LIMIT - 6, "xxxEND", 7);
    assert_true(peak_kib() - before_kib < 16384);
    run_done(&run);
}

static void
output_without_room_in_the_arena_is_an_error_and_the_result_untouched(void **state)
{
    (void)state;
    struct run run;
    prepare(&run, "printf %1000d 1");
    arena_free(run.arena);
    run.arena = arena_new(256);
    support_run_task(run_in_task, &run);
    assert_int_equal(run.returned, -1);
    assert_int_equal(run.err.code, ERROR_INTERNAL);
    assert_int_equal(run.result.exit_code, -77);
    run_done(&run);
}

static void a_command_may_close_its_outputs_and_run_on(void **state)
{
    (void)state;
    struct run run;
    run_script(&run, "echo first; exec >/dev/null 2>&1; sleep 0.1; exit 9");
    assert_exited(&run, 9);
    assert_string_equal(run.result.out.data, "first\n");
    run_done(&run);
}

static void a_grandchild_that_holds_the_outputs_does_not_hold_us(void **state)
{
    (void)state;
    struct run run;
    run_script(&run, "setsid sleep 60 & echo $!");
    pid_t grandchild = number_in(run.result.out.data);
    assert_exited(&run, 0);
    assert_true(run.result.out.held_open);
    assert_true(run.result.err.held_open);
    assert_true(run.result.run_ms < 10000);
    assert_true(is_running(grandchild)); /* it is left alone */
    (void)kill(grandchild, SIGKILL);
    assert_ends(grandchild);
    run_done(&run);
}

static void a_background_launch_survives_its_command(void **state)
{
    (void)state;
    struct run run;
    run_script(&run, "setsid nohup sleep 60 >/dev/null 2>&1 & echo $!");
    pid_t launched = number_in(run.result.out.data);
    assert_exited(&run, 0);
    assert_false(run.result.out.held_open);
    assert_true(is_running(launched));
    (void)kill(launched, SIGKILL);
    assert_ends(launched);
    run_done(&run);
}

/* ---- timeouts, deadlines, cancel ---- */

static void a_late_command_gets_term_first(void **state)
{
    (void)state;
    struct run run;
    prepare(&run, "trap 'echo bye; exit 5' TERM; echo $$; sleep 60 & wait");
    run.request.timeout_ms = 300;
    run.request.grace_ms = 20000;
    support_run_task(run_in_task, &run);
    assert_int_equal(run.returned, 0);
    assert_int_equal(run.result.end, PROCESS_TIMED_OUT);
    assert_int_equal(run.result.exit_code, 5);
    assert_int_equal(run.result.signal, 0);
    assert_non_null(strstr(run.result.out.data, "\nbye\n"));
    assert_true(run.result.run_ms >= 300 && run.result.run_ms < 15000);
    run_done(&run);
}

static void a_late_command_that_ignores_term_is_killed_with_its_children(void **state)
{
    (void)state;
    struct run run;
    prepare(&run, "trap '' TERM; sleep 60 & echo $!; wait; wait");
    run.request.timeout_ms = 200;
    run.request.grace_ms = 50;
    support_run_task(run_in_task, &run);
    assert_int_equal(run.returned, 0);
    assert_int_equal(run.result.end, PROCESS_TIMED_OUT);
    assert_int_equal(run.result.signal, SIGKILL);
    assert_ends(number_in(run.result.out.data));
    run_done(&run);
}

static void children_have_their_grace_even_where_the_shell_dies_at_once(void **state)
{
    (void)state;
    struct run run;
    prepare(&run,
            "sh -c 'trap \"sleep 0.3; echo cleaned; exit\" TERM; sleep 60 & wait'; :");
    run.request.timeout_ms = 300;
    run.request.grace_ms = 20000;
    support_run_task(run_in_task, &run);
    assert_int_equal(run.result.end, PROCESS_TIMED_OUT);
    assert_int_equal(run.result.signal, SIGTERM);
    assert_string_equal(run.result.out.data, "cleaned\n");
    run_done(&run);
}

static void a_late_command_is_killed_although_its_child_left_the_outputs(void **state)
{
    (void)state;
    struct run run;
    prepare(&run, "(trap '' TERM; exec sleep 60) >/dev/null 2>&1 & echo $!; wait");
    run.request.timeout_ms = 200;
    run.request.grace_ms = 20000;
    support_run_task(run_in_task, &run);
    assert_int_equal(run.result.end, PROCESS_TIMED_OUT);
    assert_true(run.result.run_ms < 15000);
    assert_ends(number_in(run.result.out.data));
    run_done(&run);
}

static void without_grace_a_late_command_is_killed_at_once(void **state)
{
    (void)state;
    struct run run;
    prepare(&run, "trap 'echo never' TERM; sleep 60");
    run.request.timeout_ms = 100;
    support_run_task(run_in_task, &run);
    assert_int_equal(run.result.end, PROCESS_TIMED_OUT);
    assert_int_equal(run.result.signal, SIGKILL);
    assert_string_equal(run.result.out.data, "");
    run_done(&run);
}

struct cancelled_run {
    struct run run;
    struct task *task;
    char folder[64];
    char mark[96];
    char mark_variable[128];
    const char *env[3];
};

static void run_to_be_cancelled(void *arg)
{
    struct cancelled_run *cancelled = arg;
    cancelled->task = task_self();
    run_in_task(&cancelled->run);
}

static void cancel_once_it_runs(void *arg)
{
    struct cancelled_run *cancelled = arg;
    (void)task_start(task_loop(task_self()), "run", run_to_be_cancelled, cancelled);
    while (access(cancelled->mark, F_OK) != 0)
        (void)task_sleep(2);
    task_cancel(cancelled->task);
}

/* The script writes its pid to the mark, whole. */
static void prepare_cancelled(struct cancelled_run *cancelled)
{
    make_folder(cancelled->folder, sizeof(cancelled->folder));
    (void)snprintf(cancelled->mark, sizeof(cancelled->mark), "%s/mark", cancelled->folder);
    (void)snprintf(cancelled->mark_variable, sizeof(cancelled->mark_variable), "MARK=%s",
                   cancelled->mark);
    cancelled->env[0] = path_only[0];
    cancelled->env[1] = cancelled->mark_variable;
    cancelled->env[2] = NULL;
    prepare(&cancelled->run, "trap '' TERM; echo $$ >$MARK.new; mv $MARK.new $MARK; "
                             "sleep 60; sleep 60");
    cancelled->run.request.env = cancelled->env;
    cancelled->run.request.grace_ms = 50;
}

static pid_t take_mark(const struct cancelled_run *cancelled)
{
    char text[32] = "";
    FILE *file = fopen(cancelled->mark, "r");
    if (!file)
        return 0;
    (void)!fgets(text, sizeof(text), file);
    (void)fclose(file);
    (void)unlink(cancelled->mark);
    return number_in(text);
}

static void a_cancelled_task_leaves_no_child_behind(void **state)
{
    (void)state;
    struct cancelled_run cancelled;
    prepare_cancelled(&cancelled);
    support_run_task(cancel_once_it_runs, &cancelled); /* it looks for children */
    assert_int_equal(cancelled.run.returned, -1);
    assert_int_equal(cancelled.run.err.code, ERROR_CANCELLED);
    assert_int_equal(cancelled.run.result.exit_code, -77);
    assert_ends(take_mark(&cancelled));
    (void)rmdir(cancelled.folder);
    run_done(&cancelled.run);
}

static void run_under_a_deadline(void *arg)
{
    struct deadline deadline;
    deadline_enter(&deadline, 200);
    run_in_task(arg);
    deadline_leave(&deadline);
}

static void a_passed_deadline_is_a_timeout_and_leaves_no_child_behind(void **state)
{
    (void)state;
    struct run run;
    prepare(&run, "sleep 60");
    run.request.timeout_ms = 60000;
    run.request.grace_ms = 1000;
    support_run_task(run_under_a_deadline, &run);
    assert_int_equal(run.returned, -1);
    assert_int_equal(run.err.code, ERROR_TIMEOUT);
    run_done(&run);
}

static void cancel_and_run(void *arg)
{
    task_cancel(task_self());
    run_in_task(arg);
}

static void run_late(void *arg)
{
    struct deadline deadline;
    deadline_enter(&deadline, 0);
    run_in_task(arg);
    deadline_leave(&deadline);
}

static void run_shielded(void *arg)
{
    struct deadline deadline;
    deadline_enter_shielded(&deadline, 60000);
    cancel_and_run(arg);
    deadline_leave(&deadline);
}

static void a_task_that_is_cancelled_or_late_does_not_start_the_command(void **state)
{
    (void)state;
    struct run run;
    prepare(&run, "exit 0");
    support_run_task(cancel_and_run, &run);
    assert_int_equal(run.err.code, ERROR_CANCELLED);
    run_done(&run);
    prepare(&run, "exit 0");
    support_run_task(run_late, &run);
    assert_int_equal(run.err.code, ERROR_TIMEOUT);
    run_done(&run);
    assert_int_equal(fault.spawned, 0);
    prepare(&run, "exit 4");
    support_run_task(run_shielded, &run); /* clean-up of a cancelled job */
    assert_exited(&run, 4);
    run_done(&run);
}

/* ---- without pidfd, and worse ---- */

static void quick_commands_take_no_pidfd(void **state)
{
    (void)state;
    int quick = 0;
    for (int i = 0; i < 20; i++) {
        struct run run;
        fault.pidfds = 0;
        prepare(&run, "true");
        run.argv[0] = "/bin/true";
        support_run_task(run_in_task, &run);
        quick += fault.pidfds == 0;
        run_done(&run);
    }
    assert_true(quick > 0);
}

static void without_pidfd_the_end_is_learnt_from_sigchld(void **state)
{
    (void)state;
    fault.without_pidfd = true;
    a_command_may_close_its_outputs_and_run_on(state);
    a_grandchild_that_holds_the_outputs_does_not_hold_us(state);
    a_late_command_gets_term_first(state);
    a_late_command_that_ignores_term_is_killed_with_its_children(state);
    a_cancelled_task_leaves_no_child_behind(state);
}

static void run_without_signals(void *arg)
{
    fault.without_signals = true; /* a loop of libuv's cannot be made without them */
    run_in_task(arg);
    fault.without_signals = false;
}

static void a_command_whose_end_cannot_be_watched_is_killed_and_reaped(void **state)
{
    (void)state;
    struct run run;
    fault.without_pidfd = true;
    prepare(&run, "sleep 60");
    support_run_task(run_without_signals, &run);
    assert_int_equal(run.returned, -1);
    assert_int_equal(run.err.code, ERROR_INTERNAL);
    assert_int_equal(run.result.exit_code, -77);
    run_done(&run);
}

static void a_loop_that_refuses_a_descriptor_leaves_no_child_behind(void **state)
{
    (void)state;
    for (int call = 1; call <= 3; call++) {
        struct run run;
        prepare(&run, "cat >/dev/null; sleep 60");
        run.request.input = "x";
        run.request.input_bytes = 1;
        fault.poll_calls_until_refusal = call;
        support_run_task(run_in_task, &run);
        assert_int_equal(run.returned, -1);
        assert_int_equal(run.err.code, ERROR_INTERNAL);
        run_done(&run);
    }
    struct run run; /* the fourth is the pidfd, which SIGCHLD replaces */
    prepare(&run, "cat >/dev/null; sleep 0.1; exit 6");
    run.request.input = "x";
    run.request.input_bytes = 1;
    fault.poll_calls_until_refusal = 4;
    support_run_task(run_in_task, &run);
    assert_exited(&run, 6);
    run_done(&run);
}

static void a_status_that_somebody_else_took_is_an_unknown_outcome(void **state)
{
    (void)state;
    struct run run;
    /* Without a pidfd the loop listens to SIGCHLD itself, and the kernel takes nothing
     * then. */
    if (RUNNING_ON_VALGRIND)
        skip();
    (void)signal(SIGCHLD, SIG_IGN); /* the kernel takes it */
    run_script(&run, "exit 0");
    (void)signal(SIGCHLD, SIG_DFL);
    assert_int_equal(run.returned, -1);
    assert_int_equal(run.err.code, ERROR_OUTCOME_UNKNOWN);
    run_done(&run);
}

/* ---- many ---- */

enum { MANY = 1000 };

struct many {
    struct task *tasks[MANY];
    struct error errors[MANY];
    struct process_result results[MANY];
    struct arena *arena;
    const char *script;
    int started;
    int ended;
};

static void run_one_of_many(void *arg)
{
    struct many *many = arg;
    int index = many->started++;
    const char *const sleeping[] = {"/bin/sleep", "600", NULL};
    const char *const scripted[] = {"/bin/sh", "-c", many->script, NULL};
    const struct process_request request = {.argv = many->script ? scripted : sleeping,
                                            .env = path_only,
                                            .cwd_fd = -1,
                                            .grace_ms = 60000,
                                            .output_limit_bytes = 1024};
    many->tasks[index] = task_self();
    (void)process_run(&request, many->arena, &many->results[index], &many->errors[index]);
    many->ended++;
}

static void cancel_all_once_all_run(void *arg)
{
    struct many *many = arg;
    for (int i = 0; i < MANY; i++)
        (void)task_start(task_loop(task_self()), "one", run_one_of_many, many);
    while (fault.spawned < MANY && many->ended == 0)
        (void)task_sleep(5);
    for (int i = 0; i < MANY && many->ended == 0; i++)
        task_cancel(many->tasks[i]);
}

static void a_thousand_commands_run_at_once_within_4096_descriptors(void **state)
{
    (void)state;
    struct many *many = calloc(1, sizeof(*many));
    assert_non_null(many);
    many->arena = arena_new(SIZE_MAX);
    struct rlimit before;
    (void)getrlimit(RLIMIT_NOFILE, &before);
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    support_run_task(cancel_all_once_all_run, many);
    (void)setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(fault.spawned, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(many->errors[i].code, ERROR_CANCELLED);
    arena_free(many->arena);
    free(many);
}

static void start_many_scripts(void *arg)
{
    for (int i = 0; i < 200; i++)
        (void)task_start(task_loop(task_self()), "one", run_one_of_many, arg);
}

static void many_short_scripts_at_once_each_get_their_own_answer(void **state)
{
    (void)state;
    struct many *many = calloc(1, sizeof(*many));
    assert_non_null(many);
    many->arena = arena_new(SIZE_MAX);
    many->script = "echo $$; exit 3";
    support_run_task(start_many_scripts, many);
    pid_t last = 0;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(many->results[i].exit_code, 3);
        pid_t pid = number_in(many->results[i].out.data);
        assert_true(pid > 0 && pid != last);
        last = pid;
    }
    arena_free(many->arena);
    free(many);
}

#define TEST(name) cmocka_unit_test_setup(name, no_faults)

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    const struct CMUnitTest tests[] = {
        TEST(exit_codes_arrive_as_they_are),
        TEST(death_by_a_signal_is_told_from_an_exit),
        TEST(a_program_that_is_not_there_is_127),
        TEST(a_program_that_may_not_be_run_is_126),
        TEST(a_host_short_of_processes_is_an_error_to_retry),
        TEST(a_host_short_of_descriptors_is_an_error_to_retry),
        TEST(standard_input_is_empty_and_ends_at_once),
        TEST(input_reaches_the_command_whole),
        TEST(a_command_need_not_read_its_input),
        TEST(a_command_gets_the_three_standard_descriptors_and_no_other),
        TEST(signals_are_neither_ignored_nor_blocked_in_the_command),
        TEST(sigpipe_ends_a_writer_as_in_any_shell),
        TEST(the_command_leads_a_session_of_its_own),
        TEST(the_environment_is_exactly_what_was_given),
        TEST(the_command_starts_in_the_directory_given),
        TEST(the_two_outputs_are_kept_apart_and_byte_for_byte),
        TEST(of_100_megabytes_the_last_one_is_kept_in_bounded_memory),
        TEST(output_without_room_in_the_arena_is_an_error_and_the_result_untouched),
        TEST(a_command_may_close_its_outputs_and_run_on),
        TEST(a_grandchild_that_holds_the_outputs_does_not_hold_us),
        TEST(a_background_launch_survives_its_command),
        TEST(a_late_command_gets_term_first),
        TEST(a_late_command_that_ignores_term_is_killed_with_its_children),
        TEST(children_have_their_grace_even_where_the_shell_dies_at_once),
        TEST(a_late_command_is_killed_although_its_child_left_the_outputs),
        TEST(without_grace_a_late_command_is_killed_at_once),
        TEST(a_cancelled_task_leaves_no_child_behind),
        TEST(a_passed_deadline_is_a_timeout_and_leaves_no_child_behind),
        TEST(a_task_that_is_cancelled_or_late_does_not_start_the_command),
        TEST(quick_commands_take_no_pidfd),
        TEST(without_pidfd_the_end_is_learnt_from_sigchld),
        TEST(a_command_whose_end_cannot_be_watched_is_killed_and_reaped),
        TEST(a_loop_that_refuses_a_descriptor_leaves_no_child_behind),
        TEST(a_status_that_somebody_else_took_is_an_unknown_outcome),
        TEST(a_thousand_commands_run_at_once_within_4096_descriptors),
        TEST(many_short_scripts_at_once_each_get_their_own_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
