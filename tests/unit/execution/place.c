/* Programs that run in sandboxes, under real shells with real files and processes. */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "execution/layout.h"

enum { WAIT_MS = 60 * 1000, ARENA_MAX = 64 * 1024 * 1024 };

static const char NONCE[] = "00112233445566778899aabbccddeeff";

static const struct shell shells[] = {
    {"dash", {"dash"}},
    {"bash", {"bash", "--posix"}}, /* as it is when called sh */
    {"busybox", {"busybox", "ash"}},
};

static int remove_entry(const char *path, const struct stat *info, int flag,
                        struct FTW *walk)
{
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

void place_init(struct place *place, const struct shell *shell)
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

void place_done(struct place *place)
{
    assert_int_equal(nftw(place->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    arena_free(place->arena);
}

void make_directory(struct place *place)
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

void put_bytes(struct place *place, const char *name, const void *data, size_t size)
{
    char path[192];
    (void)snprintf(path, sizeof(path), "%s/%s", place->directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void put(struct place *place, const char *name, const char *text)
{
    put_bytes(place, name, text, strlen(text));
}

void put_number(struct place *place, const char *name, long long value)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%lld", value);
    put(place, name, text);
}

void put_token(struct place *place, long long value)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%lld\n", value);
    put(place, "pid-start", text);
}

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

void run_script(struct place *place, const char *script, struct buffer *answer)
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

void run_unheard(struct place *place, const char *script)
{
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    (void)close(out[0]);
    pid_t pid = start_shell(place, script, out[1]);
    (void)close(out[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int read_answer(struct place *place, const struct buffer *answer)
{
    const char *copy = arena_copy(place->arena, answer->data, answer->size);
    assert_non_null(copy);
    place->err = (struct error){0};
    if (look_parse(copy, answer->size, &place->request, place->arena, &place->look,
                   &place->err) != 0)
        return -1;
    assert_int_equal(
        status_judge(&place->look.observation, "a1", place->arena, &place->status), 0);
    return 0;
}

int look(struct place *place)
{
    const char *script;
    assert_int_equal(
        look_compose(&place->request, PLACE_SCRIPT_MAX, place->arena, &script, &place->err),
        0);
    if (place->change)
        script = change_script(place, script);
    buffer_scoped struct buffer answer;
    buffer_init(&answer, PLACE_ANSWER_MAX);
    run_script(place, script, &answer);
    return read_answer(place, &answer);
}

void expect_status(int line, struct place *place, enum status_state wanted,
                   const char *wanted_reason)
{
    const char *reason = place->status.reason ? place->status.reason : "none";
    bool is_right = place->status.state == wanted &&
                    strcmp(reason, wanted_reason ? wanted_reason : "none") == 0;
    if (!is_right)
        fail_msg("line %d, %s: %s, %s", line, place->shell->name,
                 status_state_name(place->status.state), reason);
}

void expect_at(int line, struct place *place, enum status_state wanted,
               const char *wanted_reason)
{
    if (look(place) != 0)
        fail_msg("line %d, %s: %s", line, place->shell->name, place->err.message);
    expect_status(line, place, wanted, wanted_reason);
}

void in_each_shell(void (*scenario)(struct place *place))
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

pid_t start_sleeper(const char *name)
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

void end_process(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

pid_t dead_pid(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return pid;
}

pid_t start_zombie(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    return pid;
}

void read_stat(pid_t pid, char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t got = fread(text, 1, size - 1, file);
    text[got] = '\0';
    (void)fclose(file);
}

long long start_time(pid_t pid)
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

void path_of(struct place *place, const char *name, char path[256])
{
    (void)snprintf(path, 256, "%s/%s", place->directory, name);
}

void start_execution(struct place *place, const char *command)
{
    char line[1024];
    (void)snprintf(line, sizeof(line),
                   "'%s/tests/fixtures/start-execution' '%s' a1 sh -c '%s'",
                   TEST_SOURCE_DIR, place->remote_dir, command);
    assert_int_equal(system(line), 0);
}

pid_t read_pid(struct place *place)
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

void reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    assert_int_equal(errno, ECHILD);
}

pid_t parent_of(pid_t pid)
{
    char text[1024];
    read_stat(pid, text, sizeof(text));
    return (pid_t)strtol(strrchr(text, ')') + strlen(") S "), NULL, 10);
}

int adopt_orphans(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/* After a test that failed half-way: its children, and what they leave behind. */
int end_children(void **state)
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
