/* The attach program under real shells, with real files and real processes: what it prints
 * is read by look_parse and judged by status_judge, as attach_look does. Blocking, outside
 * tasks. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "execution/layout.h"
#include "execution/look.h"
#include "execution/status.h"
#include "runtime/buffer.h"

enum {
    SCRIPT_MAX = 128 * 1024,
    ANSWER_MAX = 8 * 1024 * 1024,
    WAIT_MS = 60 * 1000,
    ARENA_MAX = 64 * 1024 * 1024,
    PIECE = 1024 * 1024
};

static const char NONCE[] = "00112233445566778899aabbccddeeff";

struct shell {
    const char *name;
    const char *argv[3]; /* before -c */
};

static const struct shell shells[] = {
    {"dash", {"dash"}},
    {"bash", {"bash", "--posix"}}, /* as it is when called sh */
    {"busybox", {"busybox", "ash"}},
};

/* One sandbox: a folder of its own, and how to look into it. */
struct place {
    const struct shell *shell;
    struct arena *arena;
    char root[64];
    char remote_dir[96];
    char directory[160]; /* the execution's */
    const char *environment[3];
    char path[192]; /* of the environment, where it is not the usual one */
    struct look_request request;
    const char *change; /* shell that happens in the middle of the look; NULL: nothing */
    bool is_confined;   /* may neither fork nor run a program but the shell */
    int signal;         /* that ended the shell, 0: none */
    struct look look;
    struct error err;
    struct status status;
};

static int remove_entry(const char *path, const struct stat *info, int flag,
                        struct FTW *walk)
{
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void place_init(struct place *place, const struct shell *shell)
{
    *place = (struct place){.shell = shell};
    place->arena = arena_new(ARENA_MAX);
    (void)snprintf(place->root, sizeof(place->root), "/tmp/attachd-program-XXXXXX");
    assert_non_null(mkdtemp(place->root));
    (void)snprintf(place->remote_dir, sizeof(place->remote_dir), "%s/app", place->root);
    (void)snprintf(place->directory, sizeof(place->directory), "%s/%s/a1",
                   place->remote_dir, LAYOUT_EXECUTIONS_DIRECTORY);
    (void)snprintf(place->request.nonce, sizeof(place->request.nonce), "%s", NONCE);
    place->request.remote_dir = place->remote_dir;
    place->request.execution_id = "a1";
    place->environment[0] = "PATH=/usr/local/bin:/usr/bin:/bin";
}

static void place_done(struct place *place)
{
    assert_int_equal(nftw(place->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    arena_free(place->arena);
}

static void make_directory(struct place *place)
{
    char path[192];
    (void)snprintf(path, sizeof(path), "%s", place->directory);
    for (char *slash = strchr(path + 5, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    assert_int_equal(mkdir(path, 0700), 0);
}

static void put_bytes(struct place *place, const char *name, const void *data, size_t size)
{
    char path[192];
    (void)snprintf(path, sizeof(path), "%s/%s", place->directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void put(struct place *place, const char *name, const char *text)
{
    put_bytes(place, name, text, strlen(text));
}

static void put_number(struct place *place, const char *name, long long value)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%lld", value);
    put(place, name, text);
}

static void put_token(struct place *place, long long value)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%lld\n", value);
    put(place, "pid-start", text);
}

/* ------------------------------------------------------------------ running the script */

#define DENY(call)                                                                         \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1),                                     \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* From here on this process dies when it forks. */
static void confine(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        DENY(SYS_clone),
        DENY(SYS_clone3),
#ifdef SYS_fork
        DENY(SYS_fork),
        DENY(SYS_vfork),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]),
                                 .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(99);
}

/* Starts the shell; posix_spawn, since a fork of a sanitized process is dear, but for the
 * confined one, which needs code of ours in the child. */
static pid_t start_shell(const struct place *place, const char *script, int out)
{
    const char *argv[8] = {0};
    size_t count = 0;
    for (; count < 3 && place->shell->argv[count]; count++)
        argv[count] = place->shell->argv[count];
    argv[count++] = "-c";
    argv[count] = script;
    char file[64];
    (void)snprintf(file, sizeof(file), "/usr/bin/%s", argv[0]);
    if (access(file, X_OK) != 0)
        (void)snprintf(file, sizeof(file), "/bin/%s", argv[0]);
    char *const *words = (char *const *)(uintptr_t)argv;
    char *const *environment = (char *const *)(uintptr_t)place->environment;
    pid_t pid = -1;
    if (place->is_confined) {
        pid = fork();
        if (pid != 0)
            return pid;
        (void)dup2(out, STDOUT_FILENO);
        confine();
        (void)execve(file, words, environment);
        _exit(97);
    }
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO), 0);
    assert_int_equal(
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0),
        0);
    assert_int_equal(
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0),
        0);
    assert_int_equal(posix_spawn_file_actions_addchdir_np(&actions, place->root), 0);
    assert_int_equal(posix_spawn(&pid, file, &actions, NULL, words, environment), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void read_all(int fd, struct buffer *answer)
{
    char chunk[2048];
    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&poll_fd, 1, WAIT_MS), 1);
        ssize_t got = read(fd, chunk, sizeof(chunk));
        assert_true(got >= 0);
        if (got == 0)
            return;
        assert_int_equal(buffer_append(answer, chunk, (size_t)got), 0);
    }
}

static void run_script(struct place *place, const char *script, struct buffer *answer)
{
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = start_shell(place, script, out[1]);
    assert_true(pid >= 0);
    (void)close(out[1]);
    read_all(out[0], answer);
    (void)close(out[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    place->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The script with place->change done once record, pid and process have been looked at. */
static const char *change_script(struct place *place, const char *script)
{
    static const char where[] = "case $live$record in";
    const char *at = strstr(script, where);
    assert_non_null(at);
    const char *changed = arena_printf(place->arena, "%.*s%s\n%s", (int)(at - script),
                                       script, place->change, at);
    assert_non_null(changed);
    return changed;
}

/* Composes, runs, reads and judges. The result is look_parse's. */
static int look(struct place *place)
{
    const char *script;
    place->err = (struct error){0};
    assert_int_equal(
        look_compose(&place->request, SCRIPT_MAX, place->arena, &script, &place->err), 0);
    if (place->change)
        script = change_script(place, script);
    buffer_scoped struct buffer answer;
    buffer_init(&answer, ANSWER_MAX);
    run_script(place, script, &answer);
    const char *copy = arena_copy(place->arena, answer.data, answer.size);
    assert_non_null(copy);
    if (look_parse(copy, answer.size, &place->request, place->arena, &place->look,
                   &place->err) != 0)
        return -1;
    assert_int_equal(
        status_judge(&place->look.observation, "a1", place->arena, &place->status), 0);
    return 0;
}

/* Looks, and fails the test where the state or the reason is another. */
static void expect_at(int line, struct place *place, enum status_state wanted,
                      const char *wanted_reason)
{
    if (look(place) != 0)
        fail_msg("line %d, %s: %s", line, place->shell->name, place->err.message);
    const char *reason = place->status.reason ? place->status.reason : "none";
    bool is_right = place->status.state == wanted &&
                    strcmp(reason, wanted_reason ? wanted_reason : "none") == 0;
    if (!is_right)
        fail_msg("line %d, %s: %s, %s", line, place->shell->name,
                 status_state_name(place->status.state), reason);
}

#define expect(place, wanted, reason) expect_at(__LINE__, place, wanted, reason)

static void in_each_shell(void (*scenario)(struct place *place))
{
    int before = support_open_descriptors();
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        struct place place;
        place_init(&place, &shells[i]);
        scenario(&place);
        place_done(&place);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
    }
    assert_int_equal(support_open_descriptors(), before);
}

/* --------------------------------------------------------------------------- processes */

/* A child of that name that waits for its end; has its name when this returns. */
static pid_t start_sleeper(const char *name)
{
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_NAME, name);
        (void)!write(ready[1], "r", 1);
        for (;;)
            (void)pause();
    }
    char byte;
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    return pid;
}

static void end_process(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A pid that names nothing: its process has just been reaped. */
static pid_t dead_pid(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return pid;
}

/* A process that has ended and that nobody has reaped yet. */
static pid_t start_zombie(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    return pid;
}

static void read_stat(pid_t pid, char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t got = fread(text, 1, size - 1, file);
    text[got] = '\0';
    (void)fclose(file);
}

/* Field 22, the true one. */
static long long start_time(pid_t pid)
{
    char text[1024];
    read_stat(pid, text, sizeof(text));
    char *at = strrchr(text, ')') + 2;
    const char *field = NULL;
    for (int i = 3; i <= 22; i++)
        field = strsep(&at, " ");
    assert_non_null(field);
    return strtoll(field, NULL, 10);
}

/* ------------------------------------------------------------------------------- tests */

static void running(struct place *place)
{
    make_directory(place);
    pid_t pid = start_sleeper("worker");
    put(place, "status", "running|a1\n");
    put_number(place, "pid", pid);
    put_token(place, start_time(pid));
    expect(place, STATUS_RUNNING, NULL);
    assert_true(place->look.observation.has_proc);
    assert_false(place->look.observation.launcher_looked_for);
    put(place, "pid-start", "");
    expect(place, STATUS_RUNNING, NULL);
    put(place, "status", "exited|a1|0|\n");
    expect(place, STATUS_RUNNING, NULL);
    put(place, "status", "");
    expect(place, STATUS_RUNNING, NULL);
    end_process(pid);
}

static void a_live_worker_is_running_whatever_the_record_says(void **state)
{
    (void)state;
    in_each_shell(running);
}

static void reused(struct place *place)
{
    make_directory(place);
    pid_t pid = start_sleeper("other");
    put(place, "status", "running|a1\n");
    put_number(place, "pid", pid);
    put_token(place, start_time(pid) - 1);
    expect(place, STATUS_LOST, "pid_reused");
    assert_true(place->look.observation.launcher_looked_for);
    put(place, "status", "exited|a1|4|\n");
    expect(place, STATUS_EXITED, NULL);
    assert_int_equal(place->status.exit_code, 4);
    put(place, "status", "");
    expect(place, STATUS_UNKNOWN, "stale_process");
    end_process(pid);
}

static void a_pid_of_another_start_time_is_not_the_worker(void **state)
{
    (void)state;
    in_each_shell(reused);
}

static void this_boot(char text[64])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    assert_non_null(file);
    assert_non_null(fgets(text, 64, file));
    (void)fclose(file);
}

static void other_boot(struct place *place)
{
    char boot[64];
    char claim[256];
    make_directory(place);
    pid_t pid = start_sleeper("worker");
    put(place, "status", "running|a1\n");
    put_number(place, "pid", pid);
    put_token(place, start_time(pid));
    put(place, "attachd", "job j1\nboot 00000000-0000-4000-8000-000000000000\n");
    expect(place, STATUS_LOST, "rebooted");
    assert_true(place->look.observation.launcher_looked_for);
    this_boot(boot);
    (void)snprintf(claim, sizeof(claim), "boots\njob j1\nboot %smore\n", boot);
    put(place, "attachd", claim);
    expect(place, STATUS_RUNNING, NULL);
    assert_string_equal(place->look.observation.claimed_boot, place->look.observation.boot);
    put(place, "attachd", "job j1\nboot attachd-end no boot\n");
    expect(place, STATUS_RUNNING, NULL);
    assert_null(place->look.observation.claimed_boot);
    assert_null(place->look.observation.boot);
    end_process(pid);
}

static void a_worker_of_another_boot_is_lost(void **state)
{
    (void)state;
    in_each_shell(other_boot);
}

static void dead(struct place *place)
{
    make_directory(place);
    put(place, "status", "running|a1\n");
    put_number(place, "pid", dead_pid());
    put(place, "pid-start", "1\n");
    expect(place, STATUS_LOST, "no_process");
    assert_true(place->look.observation.launcher_looked_for);
    put(place, "pid-start", "");
    expect(place, STATUS_LOST, "no_process");
    put(place, "status", "exited|a1|0|\n");
    expect(place, STATUS_EXITED, NULL);
}

static void a_running_record_of_a_dead_worker_is_lost(void **state)
{
    (void)state;
    in_each_shell(dead);
}

static void no_pid(struct place *place)
{
    make_directory(place);
    put(place, "status", "running|a1\n");
    expect(place, STATUS_LOST, "no_pid");
    put(place, "status", "starting|a1\n");
    expect(place, STATUS_LOST, "no_launcher");
    put(place, "status", "starting|a1\r\n");
    expect(place, STATUS_LOST, "no_launcher");
    put(place, "status", "exited|a1|0|\r\n");
    expect(place, STATUS_EXITED, NULL);
}

static void a_record_without_a_pid_and_a_launcher_is_lost(void **state)
{
    (void)state;
    in_each_shell(no_pid);
}

static void invalid_pid(struct place *place)
{
    static const char *const texts[] = {
        "",   "0",    "1",  "-1", "+5", " 7", "07", "4194305", "99999999999999999999",
        "$$", "self", "\n2"};
    make_directory(place);
    put(place, "status", "running|a1\n");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        put(place, "pid", texts[i]);
        expect(place, STATUS_LOST, "invalid_pid");
        assert_false(place->look.observation.signalable);
    }
}

static void what_is_no_pid_is_never_signalled(void **state)
{
    (void)state;
    in_each_shell(invalid_pid);
}

static void zombie(struct place *place)
{
    make_directory(place);
    pid_t pid = start_zombie();
    put(place, "status", "running|a1\n");
    put_number(place, "pid", pid);
    put_token(place, start_time(pid));
    expect(place, STATUS_LOST, "zombie");
    assert_true(place->look.observation.signalable);
    put(place, "pid-start", "");
    expect(place, STATUS_LOST, "zombie");
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_zombie_is_not_alive(void **state)
{
    (void)state;
    in_each_shell(zombie);
}

static void names(struct place *place)
{
    static const char *const comms[] = {"my worker",  "a) S 1 2 3",    "two\nlines",
                                        ") Z (",      "npm run start", "\n\n\n)",
                                        "\x81\xff* ?"};
    make_directory(place);
    put(place, "status", "running|a1\n");
    for (size_t i = 0; i < sizeof(comms) / sizeof(comms[0]); i++) {
        pid_t pid = start_sleeper(comms[i]);
        put_number(place, "pid", pid);
        put_token(place, start_time(pid));
        expect(place, STATUS_RUNNING, NULL);
        put_token(place, start_time(pid) + 1);
        expect(place, STATUS_LOST, "pid_reused");
        end_process(pid);
    }
}

static void a_process_may_be_called_anything(void **state)
{
    (void)state;
    in_each_shell(names);
}

/* awk's own reading, as Mastra's launcher would have recorded it. */
static void awk_token(struct place *place)
{
    make_directory(place);
    pid_t pid = start_sleeper("my worker");
    char command[64];
    char token[64] = "";
    (void)snprintf(command, sizeof(command), "awk '{print $22}' /proc/%d/stat", (int)pid);
    FILE *awk = popen(command, "r");
    assert_non_null(awk);
    assert_non_null(fgets(token, sizeof(token), awk));
    assert_int_equal(pclose(awk), 0);
    assert_int_not_equal(strtoll(token, NULL, 10), start_time(pid));
    put(place, "status", "running|a1\n");
    put_number(place, "pid", pid);
    put(place, "pid-start", token);
    expect(place, STATUS_RUNNING, NULL);
    end_process(pid);
}

static void a_start_time_that_awk_misread_is_the_worker_too(void **state)
{
    (void)state;
    in_each_shell(awk_token);
}

/* A process whose command line is `sh PATH`, that waits for its end. */
static pid_t start_launcher(const char *path)
{
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(ready[1], STDOUT_FILENO);
        int input[2];
        if (pipe(input) == 0) /* nobody writes: read waits for ever */
            (void)dup2(input[0], STDIN_FILENO);
        (void)execl("/bin/sh", "sh", path, (char *)NULL);
        _exit(97);
    }
    char byte;
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    return pid;
}

static void launcher(struct place *place)
{
    char path[256];
    make_directory(place);
    put(place, "launch.sh", "echo r\nread line\n");
    put(place, "status", "starting|a1\n");
    (void)snprintf(path, sizeof(path), "%s/launch.sh", place->directory);
    pid_t pid = start_launcher(path);
    expect(place, STATUS_STARTING, NULL);
    put(place, "status", "running|a1\n");
    put_number(place, "pid", dead_pid());
    expect(place, STATUS_RUNNING, NULL);
    end_process(pid);
    expect(place, STATUS_LOST, "no_process");
    (void)snprintf(path, sizeof(path), "%s/./.mastra/executions/a1/launch.sh",
                   place->remote_dir);
    pid = start_launcher(path);
    expect(place, STATUS_RUNNING, NULL);
    end_process(pid);
}

static void while_its_launcher_lives_the_record_stands(void **state)
{
    (void)state;
    in_each_shell(launcher);
}

static void other_launcher(struct place *place)
{
    struct place other;
    char path[256];
    place_init(&other, place->shell);
    make_directory(&other);
    put(&other, "launch.sh", "echo r\nread line\n");
    (void)snprintf(path, sizeof(path), "%s/launch.sh", other.directory);
    pid_t pid = start_launcher(path);
    make_directory(place);
    put(place, "status", "running|a1\n");
    expect(place, STATUS_LOST, "no_pid");
    end_process(pid);
    place_done(&other);
}

static void a_launcher_of_another_directory_does_not_count(void **state)
{
    (void)state;
    in_each_shell(other_launcher);
}

static void records(struct place *place)
{
    static const struct {
        const char *text;
        const char *reason;
    } rows[] = {
        {"", "unreadable"},
        {"\n", "unreadable"},
        {"running|other\n", "foreign"},
        {"exited|other|0|\n", "foreign"},
        {"nonsense", "unreadable"},
        {"running|a1\nrunning|a1\n", "unreadable"},
        {"running|a1\n2\n3\n4\n5\n", "unreadable"},
        {"exited|a1|\n", "unreadable"},
        {"directory missing\nattachd-end 00112233445566778899aabbccddeeff\n", "unreadable"},
    };
    expect(place, STATUS_UNKNOWN, "absent");
    make_directory(place);
    expect(place, STATUS_UNKNOWN, "absent");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put(place, "status", rows[i].text);
        expect(place, STATUS_UNKNOWN, rows[i].reason);
    }
    put(place, "status", "failed|a1|launch|no such file: -n %s \\n \xff\n");
    expect(place, STATUS_FAILED, NULL);
    assert_string_equal(place->status.message, "no such file: -n %s \\n \xff");
}

static void a_record_that_is_none_is_unknown_with_its_reason(void **state)
{
    (void)state;
    in_each_shell(records);
}

static void huge_line(struct place *place)
{
    enum { SIZE = 1024 * 1024 };
    char *text = malloc(SIZE);
    assert_non_null(text);
    memset(text, 'x', SIZE);
    (void)memcpy(text, "running|a1|", sizeof("running|a1|") - 1);
    make_directory(place);
    put_bytes(place, "status", text, SIZE);
    put_bytes(place, "pid", text, 8192);
    put_bytes(place, "pid-start", text, 8192);
    free(text);
    expect(place, STATUS_UNKNOWN, "unreadable");
}

static void a_line_of_a_megabyte_is_unreadable(void **state)
{
    (void)state;
    in_each_shell(huge_line);
}

static void path_of(struct place *place, const char *name, char path[256])
{
    (void)snprintf(path, 256, "%s/%s", place->directory, name);
}

enum oddity { ODD_FIFO, ODD_LINK, ODD_DANGLING, ODD_DIRECTORY, ODD_COUNT };

static void put_oddity(struct place *place, const char *name, enum oddity oddity)
{
    char path[256];
    char target[256];
    path_of(place, name, path);
    (void)remove(path);
    put(place, "target", "running|a1\n");
    path_of(place, oddity == ODD_DANGLING ? "nothing" : "target", target);
    int failed = -1;
    switch (oddity) {
    case ODD_FIFO:
        failed = mkfifo(path, 0600);
        break;
    case ODD_LINK:
    case ODD_DANGLING:
        failed = symlink(target, path);
        break;
    case ODD_DIRECTORY:
        failed = mkdir(path, 0700);
        break;
    case ODD_COUNT:
        break;
    }
    assert_int_equal(failed, 0);
}

static void odd_files(struct place *place)
{
    char path[256];
    make_directory(place);
    for (enum oddity oddity = 0; oddity < ODD_COUNT; oddity++) {
        put_oddity(place, "status", oddity);
        expect(place, STATUS_UNKNOWN, "unreadable");
        path_of(place, "status", path);
        assert_int_equal(remove(path), 0);
        put(place, "status", "running|a1\n");
        put_oddity(place, "pid", oddity);
        put_oddity(place, "pid-start", oddity);
        expect(place, STATUS_LOST, "invalid_pid");
        put_oddity(place, "stdout", oddity);
        place->request.stdout_request = (struct output_request){true, 0, 10};
        assert_int_equal(look(place), -1);
        assert_int_equal(place->err.code, ERROR_COMMAND_FAILED);
        place->request.stdout_request.wanted = false;
    }
}

static void only_regular_files_are_opened(void **state)
{
    (void)state;
    in_each_shell(odd_files);
}

static void odd_directory(struct place *place)
{
    char path[256];
    make_directory(place);
    put(place, "status", "running|a1\n");
    (void)snprintf(path, sizeof(path), "%s/moved", place->root);
    assert_int_equal(rename(place->directory, path), 0);
    assert_int_equal(symlink(path, place->directory), 0);
    expect(place, STATUS_UNKNOWN, "unreadable");
    assert_int_equal(unlink(place->directory), 0);
    assert_int_equal(mkfifo(place->directory, 0600), 0);
    expect(place, STATUS_UNKNOWN, "unreadable");
}

static void an_execution_that_is_no_directory_is_unreadable(void **state)
{
    (void)state;
    in_each_shell(odd_directory);
}

static void homes(struct place *place)
{
    char home[88];
    char wanted[192];
    const char *dir = NULL;
    static const char *const tails[] = {"/home", "/with two  blanks", "/it's", "/slash//"};
    place->request.remote_dir = NULL;
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        (void)snprintf(home, sizeof(home), "HOME=%s%s", place->root, tails[i]);
        (void)snprintf(place->remote_dir, sizeof(place->remote_dir), "%s/mastra-app",
                       home + strlen("HOME="));
        (void)snprintf(place->directory, sizeof(place->directory), "%s/%s/a1",
                       place->remote_dir, LAYOUT_EXECUTIONS_DIRECTORY);
        make_directory(place);
        put(place, "status", "exited|a1|7|\n");
        place->environment[1] = home;
        expect(place, STATUS_EXITED, NULL);
        assert_int_equal(
            layout_remote_dir(place->look.home, place->arena, &dir, &place->err), 0);
        (void)snprintf(wanted, sizeof(wanted), "%s%s", place->root, tails[i]);
        size_t slashes = i == 3 ? strlen("//") : 0;
        (void)snprintf(wanted + strlen(wanted) - slashes, 32, "/mastra-app");
        assert_string_equal(dir, wanted);
    }
    place->environment[1] = "HOME=/";
    expect(place, STATUS_UNKNOWN, "absent");
    assert_string_equal(place->look.home, "/");
    place->environment[1] = "HOME=relative";
    expect(place, STATUS_UNKNOWN, "absent");
    assert_int_equal(layout_remote_dir(place->look.home, place->arena, &dir, &place->err),
                     -1);
    place->environment[1] = "HOME=/two\nlines";
    assert_int_equal(look(place), 0);
    assert_string_equal(place->look.home, "");
}

static void the_default_directory_is_below_the_home(void **state)
{
    (void)state;
    in_each_shell(homes);
}

static void no_home(struct place *place)
{
    (void)snprintf(place->directory, sizeof(place->directory),
                   "%s/mastra-app/.mastra/executions/a1", place->root);
    make_directory(place);
    put(place, "status", "exited|a1|7|\n");
    place->request.remote_dir = NULL;
    expect(place, STATUS_EXITED, NULL);
    assert_string_equal(place->look.home, place->root);
    place->environment[1] = "HOME=";
    expect(place, STATUS_EXITED, NULL);
}

static void without_a_home_it_is_below_the_working_directory(void **state)
{
    (void)state;
    in_each_shell(no_home);
}

static void not_to_be_entered(struct place *place)
{
    make_directory(place);
    put(place, "status", "running|a1\n");
    assert_int_equal(chmod(place->directory, 0), 0);
    expect(place, STATUS_UNKNOWN, "unreadable");
    assert_int_equal(chmod(place->directory, 0700), 0);
    assert_int_equal(chmod(place->remote_dir, 0), 0);
    expect(place, STATUS_UNKNOWN, "unreadable");
    assert_int_equal(chmod(place->remote_dir, 0755), 0);
}

/* Root enters everything, so as root this runs in a child that has put that down; an
 * assertion that fails there ends the child with another code than 0. */
static void a_directory_that_may_not_be_entered_is_unreadable_not_absent(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        in_each_shell(not_to_be_entered);
        return;
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        in_each_shell(not_to_be_entered);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void assert_output(const struct look_output *output, uint64_t total,
                          const void *data, size_t size)
{
    assert_int_equal(output->total_bytes, total);
    assert_int_equal(output->size, size);
    if (size > 0)
        assert_memory_equal(output->data, data, size);
}

static void outputs(struct place *place)
{
    unsigned char bytes[1024];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(255 - i % 256);
    make_directory(place);
    put(place, "status", "exited|a1|0|\n");
    put_bytes(place, "stdout", bytes, sizeof(bytes));
    struct output_request *out = &place->request.stdout_request;
    struct output_request *err = &place->request.stderr_request;
    const struct look_output *pieces = place->look.outputs;
    for (int base64 = 0; base64 < 2; base64++) {
        place->request.base64 = base64;
        *out = (struct output_request){true, 0, 4096};
        *err = (struct output_request){true, 0, 4096};
        put(place, "stderr", "output-end\nattachd-end 00112233445566778899aabbccddeeff\n");
        expect(place, STATUS_EXITED, NULL);
        assert_output(&pieces[0], 1024, bytes, 1024);
        assert_int_equal(pieces[1].size, 56);
        *out = (struct output_request){true, 1, 700};
        *err = (struct output_request){true, UINT64_MAX, 1};
        expect(place, STATUS_EXITED, NULL);
        assert_output(&pieces[0], 1024, bytes + 1, 700);
        assert_output(&pieces[1], 56, NULL, 0);
        *out = (struct output_request){true, 1023, 1};
        *err = (struct output_request){true, 1024, 16};
        put_bytes(place, "stderr", "", 0);
        expect(place, STATUS_EXITED, NULL);
        assert_output(&pieces[0], 1024, bytes + 1023, 1);
        assert_output(&pieces[1], 0, NULL, 0);
    }
}

static void output_arrives_byte_for_byte_raw_and_as_base64(void **state)
{
    (void)state;
    in_each_shell(outputs);
}

static void missing_outputs(struct place *place)
{
    place->request.stdout_request = (struct output_request){true, 0, 10};
    place->request.stderr_request = (struct output_request){true, 5, 10};
    expect(place, STATUS_UNKNOWN, "absent");
    assert_output(&place->look.outputs[0], 0, NULL, 0);
    make_directory(place);
    put(place, "status", "exited|a1|0|\n");
    expect(place, STATUS_EXITED, NULL);
    assert_output(&place->look.outputs[0], 0, NULL, 0);
    assert_output(&place->look.outputs[1], 0, NULL, 0);
}

static void a_missing_output_has_no_bytes(void **state)
{
    (void)state;
    in_each_shell(missing_outputs);
}

/* A writer that appends as fast as it can while the program looks. */
static void growing(struct place *place)
{
    make_directory(place);
    put(place, "status", "running|a1\n");
    put(place, "stdout", "0123456789");
    char path[256];
    path_of(place, "stdout", path);
    pid_t writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) {
        int fd = open(path, O_WRONLY | O_APPEND);
        for (int i = 0; i < 1000000 && getppid() != 1; i++)
            (void)!write(fd, "0123456789", 10);
        _exit(0);
    }
    for (int base64 = 0; base64 < 2; base64++) {
        place->request.base64 = base64;
        place->request.stdout_request = (struct output_request){true, 5, PIECE};
        assert_int_equal(look(place), 0);
        const struct look_output *output = &place->look.outputs[0];
        assert_true(output->size == PIECE || output->size + 5 == output->total_bytes);
        for (size_t i = 0; i < output->size; i++)
            assert_int_equal(output->data[i], '0' + (int)((i + 5) % 10));
    }
    end_process(writer);
}

static void a_growing_file_gives_one_consistent_piece(void **state)
{
    (void)state;
    in_each_shell(growing);
}

static void without_tools(struct place *place)
{
    static const char *const tools[] = {"wc", "tail", "head", "base64"};
    char bin[128];
    char from[64];
    char to[192];
    make_directory(place);
    put(place, "status", "exited|a1|0|\n");
    put(place, "stdout", "x");
    (void)snprintf(bin, sizeof(bin), "%s/bin", place->root);
    assert_int_equal(mkdir(bin, 0755), 0);
    (void)snprintf(place->path, sizeof(place->path), "PATH=%s", bin);
    place->environment[0] = place->path;
    place->request.base64 = true;
    expect(place, STATUS_EXITED, NULL); /* the status alone needs no program */
    place->request.stdout_request = (struct output_request){true, 0, 10};
    if (strcmp(place->shell->name, "busybox") == 0)
        return; /* brings its own */
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        assert_int_equal(look(place), -1);
        assert_int_equal(place->err.code, ERROR_CAPABILITY_UNAVAILABLE);
        assert_string_equal(place->err.capability, tools[i]);
        assert_non_null(place->err.remedy);
        (void)snprintf(from, sizeof(from), "/usr/bin/%s", tools[i]);
        (void)snprintf(to, sizeof(to), "%s/%s", bin, tools[i]);
        assert_int_equal(symlink(from, to), 0);
    }
    expect(place, STATUS_EXITED, NULL);
    assert_output(&place->look.outputs[0], 1, "x", 1);
}

static void a_missing_tool_is_named(void **state)
{
    (void)state;
    in_each_shell(without_tools);
}

static void confined(struct place *place)
{
    make_directory(place);
    buffer_scoped struct buffer answer;
    buffer_init(&answer, 1024);
    place->is_confined = true;
    run_script(place, "x=$(:; :); echo \"$x\"", &answer);
    assert_int_equal(place->signal, SIGSYS); /* the confinement works */
    place->environment[0] = "PATH=/nonexistent";
    expect(place, STATUS_UNKNOWN, "absent");
    put(place, "status", "running|a1\n");
    put_number(place, "pid", dead_pid());
    put(place, "pid-start", "77\n");
    expect(place, STATUS_LOST, "no_process"); /* with a search for the launcher */
    assert_true(place->look.observation.launcher_looked_for);
    pid_t pid = start_sleeper("a b) c");
    put_number(place, "pid", pid);
    put_token(place, start_time(pid));
    expect(place, STATUS_RUNNING, NULL);
    end_process(pid);
    place->request.remote_dir = NULL;
    expect(place, STATUS_UNKNOWN, "absent");
}

static void a_look_without_output_forks_nothing_and_runs_nothing(void **state)
{
    (void)state;
    in_each_shell(confined);
}

/* --------------------------------------------------------- executions of the fixture */

static void start_execution(struct place *place, const char *command)
{
    char line[1024];
    (void)snprintf(line, sizeof(line),
                   "'%s/tests/fixtures/start-execution' '%s' a1 sh -c '%s'",
                   TEST_SOURCE_DIR, place->remote_dir, command);
    assert_int_equal(system(line), 0);
}

static pid_t read_pid(struct place *place)
{
    char path[256];
    char text[32] = "";
    path_of(place, "pid", path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    (void)fclose(file);
    long pid = strtol(text, NULL, 10);
    assert_true(pid > 1);
    return (pid_t)pid;
}

/* Reaps whatever was left to this process, until nothing is. */
static void reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    assert_int_equal(errno, ECHILD);
}

static void whole_life(struct place *place)
{
    start_execution(place, "echo out; echo err >&2; exec sleep 300");
    place->request.stdout_request = (struct output_request){true, 0, 10};
    place->request.stderr_request = (struct output_request){true, 0, 10};
    do
        expect(place, STATUS_RUNNING, NULL);
    while (place->look.outputs[0].size + place->look.outputs[1].size < 8);
    assert_int_equal(kill(-read_pid(place), SIGTERM), 0);
    reap_all();
    expect(place, STATUS_EXITED, NULL);
    assert_int_equal(place->status.exit_code, 143);
    assert_string_equal(place->status.signal, "SIGTERM");
    assert_output(&place->look.outputs[0], 4, "out\n", 4);
    assert_output(&place->look.outputs[1], 4, "err\n", 4);
}

static void an_execution_is_seen_from_start_to_end(void **state)
{
    (void)state;
    in_each_shell(whole_life);
}

/* The parent of a process. */
static pid_t parent_of(pid_t pid)
{
    char text[1024];
    read_stat(pid, text, sizeof(text));
    return (pid_t)strtol(strrchr(text, ')') + strlen(") S "), NULL, 10);
}

static void launcher_killed(struct place *place)
{
    start_execution(place, "exec sleep 300");
    pid_t worker = read_pid(place);
    pid_t launcher_pid = parent_of(worker);
    assert_int_equal(kill(launcher_pid, SIGKILL), 0);
    assert_int_equal(waitpid(launcher_pid, NULL, 0), launcher_pid);
    expect(place, STATUS_RUNNING, NULL);
    assert_int_equal(kill(worker, SIGKILL), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)worker, &info, WEXITED | WNOWAIT), 0);
    expect(place, STATUS_LOST, "zombie");
    reap_all();
    expect(place, STATUS_LOST, "no_process");
}

static void a_worker_outlives_its_launcher_and_is_lost_after(void **state)
{
    (void)state;
    in_each_shell(launcher_killed);
}

/* The launcher writes the end just after the record was read. */
static void ended_meanwhile(struct place *place)
{
    make_directory(place);
    put(place, "status", "running|a1\n");
    put_number(place, "pid", dead_pid());
    place->change = "printf 'exited|a1|5|\\n' >\"$directory/status\"";
    expect(place, STATUS_EXITED, NULL);
    assert_int_equal(place->status.exit_code, 5);
    assert_string_equal(place->look.observation.status_text, "exited|a1|5|");
}

static void an_end_that_is_recorded_during_the_look_is_seen(void **state)
{
    (void)state;
    in_each_shell(ended_meanwhile);
}

/* A worker that ends at once, looked at while it does: at no moment may it be lost. */
static void ending(struct place *place)
{
    start_execution(place, "sleep 0.2; exit 5");
    do {
        assert_int_equal(look(place), 0);
        if (place->status.state != STATUS_RUNNING && place->status.state != STATUS_EXITED)
            fail_msg("%s: %s, %s", place->shell->name,
                     status_state_name(place->status.state), place->status.reason);
    } while (place->status.state == STATUS_RUNNING);
    assert_int_equal(place->status.exit_code, 5);
    reap_all();
}

static void a_worker_that_just_ended_is_never_lost(void **state)
{
    (void)state;
    in_each_shell(ending);
}

static int adopt_orphans(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/* After a test that failed half-way: its children, and what they leave behind. */
static int end_children(void **state)
{
    (void)state;
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    while (waitpid(-1, NULL, WNOHANG) != -1) {
        char list[2048] = "";
        FILE *file = fopen(path, "r");
        if (!file)
            return -1;
        (void)!fgets(list, sizeof(list), file);
        (void)fclose(file);
        char *at = list;
        for (long pid = strtol(at, &at, 10); pid > 1; pid = strtol(at, &at, 10))
            (void)kill((pid_t)pid, SIGKILL);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_live_worker_is_running_whatever_the_record_says,
                                  end_children),
        cmocka_unit_test_teardown(a_pid_of_another_start_time_is_not_the_worker,
                                  end_children),
        cmocka_unit_test_teardown(a_worker_of_another_boot_is_lost, end_children),
        cmocka_unit_test_teardown(a_running_record_of_a_dead_worker_is_lost, end_children),
        cmocka_unit_test_teardown(a_record_without_a_pid_and_a_launcher_is_lost,
                                  end_children),
        cmocka_unit_test_teardown(what_is_no_pid_is_never_signalled, end_children),
        cmocka_unit_test_teardown(a_zombie_is_not_alive, end_children),
        cmocka_unit_test_teardown(a_process_may_be_called_anything, end_children),
        cmocka_unit_test_teardown(a_start_time_that_awk_misread_is_the_worker_too,
                                  end_children),
        cmocka_unit_test_teardown(while_its_launcher_lives_the_record_stands, end_children),
        cmocka_unit_test_teardown(a_launcher_of_another_directory_does_not_count,
                                  end_children),
        cmocka_unit_test_teardown(a_record_that_is_none_is_unknown_with_its_reason,
                                  end_children),
        cmocka_unit_test_teardown(a_line_of_a_megabyte_is_unreadable, end_children),
        cmocka_unit_test_teardown(only_regular_files_are_opened, end_children),
        cmocka_unit_test_teardown(an_execution_that_is_no_directory_is_unreadable,
                                  end_children),
        cmocka_unit_test_teardown(the_default_directory_is_below_the_home, end_children),
        cmocka_unit_test_teardown(without_a_home_it_is_below_the_working_directory,
                                  end_children),
        cmocka_unit_test_teardown(
            a_directory_that_may_not_be_entered_is_unreadable_not_absent, end_children),
        cmocka_unit_test_teardown(output_arrives_byte_for_byte_raw_and_as_base64,
                                  end_children),
        cmocka_unit_test_teardown(a_missing_output_has_no_bytes, end_children),
        cmocka_unit_test_teardown(a_growing_file_gives_one_consistent_piece, end_children),
        cmocka_unit_test_teardown(a_missing_tool_is_named, end_children),
        cmocka_unit_test_teardown(a_look_without_output_forks_nothing_and_runs_nothing,
                                  end_children),
        cmocka_unit_test_teardown(an_execution_is_seen_from_start_to_end, end_children),
        cmocka_unit_test_teardown(a_worker_outlives_its_launcher_and_is_lost_after,
                                  end_children),
        cmocka_unit_test_teardown(an_end_that_is_recorded_during_the_look_is_seen,
                                  end_children),
        cmocka_unit_test_teardown(a_worker_that_just_ended_is_never_lost, end_children),
    };
    return cmocka_run_group_tests(tests, adopt_orphans, NULL);
}
