/* Stopping, waking and destroying real directories with real processes. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "providers/profile.h"
#include "providers/provider.h"
#include "providers/registry.h"
#include "runtime/task.h"

enum {
    SETTINGS = 3,
    NOBODY = 65534,
    MANY_FILES = 10000,
    DEEP = 600,
    FEW_DESCRIPTORS = 128
};

/* ---- libc and the runtime at their edges ---- */

static struct {
    int proc_looks;
    int blind_looks;       /* so many looks find an empty directory in /proc's place */
    bool proc_is_away;     /* /proc cannot be opened */
    const char *empty;     /* that directory */
    const char *at_spawn;  /* a command to run before the child is started */
    int removals;          /* batches */
    int cancel_at_removal; /* after so many; 0: never */
} edge;

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    if (strcmp(path, "/proc") != 0)
        return __real_opendir(path);
    edge.proc_looks++;
    if (edge.proc_is_away) {
        errno = ENOENT;
        return NULL;
    }
    return __real_opendir(edge.proc_looks <= edge.blind_looks ? edge.empty : path);
}

int __real_posix_spawnp(pid_t *pid, const char *file,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[],
                        char *const envp[]);
int __wrap_posix_spawnp(pid_t *pid, const char *file,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[],
                        char *const envp[]);
int __wrap_posix_spawnp(pid_t *pid, const char *file,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[],
                        char *const envp[])
{
    if (edge.at_spawn)
        (void)!system(edge.at_spawn); /* NOLINT(cert-env33-c): of our own making */
    return __real_posix_spawnp(pid, file, actions, attributes, argv, envp);
}

int __real_task_work(const char *step, void (*fn)(void *arg), void *arg);
int __wrap_task_work(const char *step, void (*fn)(void *arg), void *arg);
int __wrap_task_work(const char *step, void (*fn)(void *arg), void *arg)
{
    int failed = __real_task_work(step, fn, arg);
    if (strcmp(step, "remove a sandbox") == 0 && ++edge.removals == edge.cancel_at_removal)
        task_cancel(task_self());
    return failed;
}

/* ---- a root with the sandbox "box" ---- */

struct fixture {
    char base[64];
    char root[96];
    char box[128];
    char outside[96];
    struct profile_setting settings[SETTINGS];
    struct profile profile;
    struct arena *arena;
    struct sandbox *sandbox;
    struct error err;
    int returned;
    struct exec_request request;
    struct exec_result result;
};

static void open_box(struct fixture *f)
{
    const struct descriptor descriptor = {.provider = "here", .sandbox_id = "box"};
    assert_int_equal(sandbox_open(&descriptor, &f->profile, f->arena, &f->sandbox, &f->err),
                     0);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    memset(&edge, 0, sizeof(edge));
    (void)snprintf(f->base, sizeof(f->base), "/tmp/attachd-test-XXXXXX");
    assert_non_null(mkdtemp(f->base));
    (void)snprintf(f->root, sizeof(f->root), "%s/root", f->base);
    (void)snprintf(f->box, sizeof(f->box), "%s/box", f->root);
    (void)snprintf(f->outside, sizeof(f->outside), "%s/outside", f->base);
    assert_int_equal(mkdir(f->root, 0755), 0);
    assert_int_equal(mkdir(f->box, 0755), 0);
    assert_int_equal(mkdir(f->outside, 0755), 0);
    edge.empty = f->outside;
    (void)setenv("BASE", f->base, 1);
    (void)setenv("ROOT", f->root, 1);
    (void)setenv("BOX", f->box, 1);
    (void)setenv("OUTSIDE", f->outside, 1);
    f->settings[0] = (struct profile_setting){"root", f->root};
    f->profile = (struct profile){.name = "here",
                                  .provider = registry_find("local"),
                                  .settings = f->settings,
                                  .setting_count = 1};
    f->arena = arena_new(SIZE_MAX);
    assert_non_null(f->arena);
    f->request.output_limit_bytes = 262144;
    *state = f;
    open_box(f);
    return 0;
}

/* With $BASE, $ROOT, $BOX and $OUTSIDE. */
static void shell(const char *script)
{
    assert_int_equal(system(script), 0); /* NOLINT(cert-env33-c): of our own making */
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    sandbox_close(f->sandbox);
    arena_free(f->arena);
    shell("rm -rf --one-file-system \"$BASE\"");
    free(f);
    return 0;
}

static void exec_in_task(void *arg)
{
    struct fixture *f = arg;
    f->returned = sandbox_exec(f->sandbox, &f->request, f->arena, &f->result, &f->err);
}

static void stop_in_task(void *arg)
{
    struct fixture *f = arg;
    f->returned = sandbox_stop(f->sandbox, &f->err);
}

static void wake_in_task(void *arg)
{
    struct fixture *f = arg;
    f->returned = sandbox_wake(f->sandbox, &f->err);
}

static void destroy_in_task(void *arg)
{
    struct fixture *f = arg;
    f->returned = sandbox_destroy(f->sandbox, &f->err);
}

static int in_task(void (*run)(void *arg), struct fixture *f)
{
    memset(&f->err, 0, sizeof(f->err));
    f->returned = -77;
    support_run_task(run, f);
    return f->returned;
}

static const char *exec_script(struct fixture *f, const char *script)
{
    f->request.script = script;
    assert_int_equal(in_task(exec_in_task, f), 0);
    return f->result.out.data;
}

/* A pid that the script prints. */
static pid_t launch(struct fixture *f, const char *script)
{
    pid_t pid = (pid_t)strtol(exec_script(f, script), NULL, 10);
    assert_true(pid > 1);
    return pid;
}

/* A zombie has ended too: nobody may reap it here. */
static bool has_ended(pid_t pid)
{
    char path[64];
    char state = 'Z';
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return true;
    (void)!fscanf(file, "%*d (%*[^)]) %c", &state);
    (void)fclose(file);
    return state == 'Z' || state == 'X';
}

static bool is_there(const char *folder, const char *name)
{
    char path[256];
    struct stat status;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return lstat(path, &status) == 0;
}

static size_t count_entries(const char *folder)
{
    size_t count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    (void)closedir(directory);
    return count - 2;
}

static const char SLEEPER[] = "sleep 600 >/dev/null 2>&1 & echo $!";

/* ---- processes ---- */

static void a_look_that_cannot_be_made_is_no_success(void **state)
{
    struct fixture *f = *state;
    edge.proc_is_away = true;
    assert_int_equal(in_task(stop_in_task, f), -1);
    assert_int_equal(f->err.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_int_equal(in_task(destroy_in_task, f), -1);
    assert_int_equal(f->err.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_true(f->err.retryable);
    assert_true(is_there(f->root, "box"));
    edge.proc_is_away = false;
    assert_int_equal(in_task(destroy_in_task, f), 0);
    assert_int_equal(count_entries(f->root), 0);
}

static void one_look_that_finds_nothing_is_not_enough(void **state)
{
    struct fixture *f = *state;
    pid_t pid = launch(f, SLEEPER);
    edge.blind_looks = 1;
    assert_int_equal(in_task(stop_in_task, f), 0);
    assert_true(has_ended(pid));
}

/* The mark lies behind 288 KiB of other variables, across the border of two reads. */
static void the_mark_is_found_wherever_it_is_in_the_environment(void **state)
{
    struct fixture *f = *state;
    pid_t pid = launch(f, "x=$(head -c 98301 /dev/zero | tr '\\0' x)\n"
                          "env -i A=\"$x\" B=\"$x\" C=\"${x%xxxxxxxxxx}\" "
                          "ATTACHD_SANDBOX=\"$ATTACHD_SANDBOX\" "
                          "sleep 600 >/dev/null 2>&1 &\n"
                          "until grep -q sleep /proc/$!/comm; do :; done; echo $!");
    assert_int_equal(in_task(stop_in_task, f), 0);
    assert_true(has_ended(pid));
}

/* Another sandbox's, whose path this one's is the beginning of. */
static void processes_of_other_sandboxes_are_left_alone(void **state)
{
    struct fixture *f = *state;
    pid_t pid = launch(f, "env ATTACHD_SANDBOX=\"${ATTACHD_SANDBOX}2\" "
                          "X=\"$ATTACHD_SANDBOX\" YATTACHD_SANDBOX=\"$ATTACHD_SANDBOX\" "
                          "sleep 600 >/dev/null 2>&1 &\n"
                          "until grep -q sleep /proc/$!/comm; do :; done; echo $!");
    assert_int_equal(in_task(stop_in_task, f), 0);
    bool ended = has_ended(pid);
    (void)kill(pid, SIGKILL);
    assert_false(ended);
}

static void the_mark_cannot_be_taken_over_by_a_variable(void **state)
{
    struct fixture *f = *state;
    static const char *const own[] = {"ATTACHD_SANDBOX=request", NULL};
    char expected[160];
    (void)snprintf(expected, sizeof(expected), "%s\n", f->box);
    f->settings[1] = (struct profile_setting){"env.ATTACHD_SANDBOX", "profile"};
    f->profile.setting_count = 2;
    open_box(f);
    assert_string_equal(exec_script(f, "echo $ATTACHD_SANDBOX"), expected);
    f->request.env = own;
    assert_string_equal(exec_script(f, "echo $ATTACHD_SANDBOX"), expected);
}

static void assert_start_is_refused(struct fixture *f, const char *at_spawn,
                                    enum error_code code)
{
    edge.at_spawn = at_spawn;
    f->request.script = "sleep 3; echo done >done";
    assert_int_equal(in_task(exec_in_task, f), -1);
    assert_int_equal(f->err.code, code);
    edge.at_spawn = NULL;
    assert_false(is_there(f->box, "done"));
}

static void a_command_that_a_stop_overtakes_is_killed(void **state)
{
    struct fixture *f = *state;
    assert_start_is_refused(f, "touch \"$BOX/.attachd-stopped\"", ERROR_SANDBOX_STOPPED);
}

static void a_command_whose_directory_is_replaced_is_killed(void **state)
{
    struct fixture *f = *state;
    assert_start_is_refused(f, "mv \"$BOX\" \"$BOX.old\"; mkdir \"$BOX\"",
                            ERROR_SANDBOX_STOPPED);
}

static void a_command_whose_directory_is_destroyed_is_killed(void **state)
{
    struct fixture *f = *state;
    assert_start_is_refused(f, "rm -r \"$BOX\"", ERROR_SANDBOX_NOT_FOUND);
}

/* ---- the mark in the directory ---- */

static void whatever_bears_the_marks_name_is_the_mark(void **state)
{
    struct fixture *f = *state;
    static const char *const makers[] = {
        "touch \"$BOX/.attachd-stopped\"",
        "mkfifo \"$BOX/.attachd-stopped\"",
        "mkdir \"$BOX/.attachd-stopped\"",
        "ln -s nowhere \"$BOX/.attachd-stopped\"",
    };
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        shell(makers[i]);
        assert_int_equal(in_task(stop_in_task, f), 0);
        f->request.script = ":";
        assert_int_equal(in_task(exec_in_task, f), -1);
        assert_int_equal(f->err.code, ERROR_SANDBOX_STOPPED);
        assert_int_equal(in_task(wake_in_task, f), 0);
        assert_int_equal(count_entries(f->box), 0);
        assert_string_equal(exec_script(f, "echo again"), "again\n");
    }
    shell("mkdir -p \"$BOX/.attachd-stopped/full\"");
    assert_int_equal(in_task(wake_in_task, f), -1);
    assert_int_equal(f->err.code, ERROR_PROVIDER_UNAVAILABLE);
}

/* ---- destroy ---- */

/* The directory that takes no mark is destroyed all the same. */
static void a_directory_on_a_full_disk_is_destroyed(void **state)
{
    struct fixture *f = *state;
    /* Two inodes: the root's own and the sandbox's. */
    if (mount("none", f->root, "tmpfs", 0, "nr_inodes=2") != 0)
        skip();
    int made = mkdir(f->box, 0755);
    pid_t pid = launch(f, SLEEPER);
    int stopped = in_task(stop_in_task, f);
    int destroyed = in_task(destroy_in_task, f);
    bool is_left = is_there(f->root, "box");
    size_t left = count_entries(f->root);
    assert_int_equal(umount2(f->root, MNT_DETACH), 0);
    assert_int_equal(made, 0);
    assert_int_equal(stopped, -1);
    assert_int_equal(destroyed, 0);
    assert_false(is_left);
    assert_int_equal(left, 0);
    assert_true(has_ended(pid));
}

/* Mastra's launcher records how it ended. */
static void a_program_that_ends_in_order_still_has_its_directory(void **state)
{
    struct fixture *f = *state;
    const char *script = arena_printf(
        f->arena,
        "touch mine; sh -c 'trap \"cp $PWD/mine %s/seen; exit\" TERM; touch ready; "
        "while :; do sleep 0.01; done' >/dev/null 2>&1 & "
        "until [ -e ready ]; do :; done; echo $!",
        f->outside);
    pid_t pid = launch(f, script);
    assert_int_equal(in_task(destroy_in_task, f), 0);
    assert_true(has_ended(pid));
    assert_true(is_there(f->outside, "seen"));
}

static void a_destroy_that_was_cut_short_is_completed_by_the_next(void **state)
{
    struct fixture *f = *state;
    pid_t pid = launch(f, SLEEPER);
    shell("mkdir \"$BOX/a\" && mv \"$BOX\" \"$ROOT/.attachd-destroyed-box~00ff\"");
    assert_int_equal(in_task(destroy_in_task, f), -1);
    assert_int_equal(f->err.code, ERROR_SANDBOX_NOT_FOUND);
    assert_true(has_ended(pid));
    assert_int_equal(count_entries(f->root), 0);
}

static void what_other_sandboxes_have_left_is_theirs(void **state)
{
    struct fixture *f = *state;
    shell("cd \"$ROOT\" && mkdir box2 .attachd-destroyed-box2~00 .attachd-destroyed-bo~00");
    assert_int_equal(in_task(destroy_in_task, f), 0);
    assert_int_equal(count_entries(f->root), 3);
}

static void a_tree_of_any_depth_is_removed(void **state)
{
    struct fixture *f = *state;
    int fd = open(f->box, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < DEEP && fd >= 0; i++) {
        (void)mkdirat(fd, "deeper", 0755);
        (void)close(openat(fd, "file", O_WRONLY | O_CREAT, 0600));
        int next = openat(fd, "deeper", O_RDONLY | O_DIRECTORY);
        (void)close(fd);
        fd = next;
    }
    assert_true(fd >= 0);
    (void)close(fd);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {FEW_DESCRIPTORS, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int destroyed = in_task(destroy_in_task, f);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(destroyed, 0);
    assert_int_equal(count_entries(f->root), 0);
}

static void make_many_files(struct fixture *f)
{
    int fd = open(f->box, O_RDONLY | O_DIRECTORY);
    char name[16];
    for (int i = 0; i < MANY_FILES; i++) {
        (void)snprintf(name, sizeof(name), "%d", i);
        (void)close(openat(fd, name, O_WRONLY | O_CREAT, 0600));
    }
    (void)close(fd);
}

static void a_large_tree_is_removed_in_batches_that_a_cancel_can_end(void **state)
{
    struct fixture *f = *state;
    make_many_files(f);
    edge.cancel_at_removal = 1;
    assert_int_equal(in_task(destroy_in_task, f), -1);
    assert_int_equal(f->err.code, ERROR_CANCELLED);
    assert_int_equal(edge.removals, 1);
    assert_int_equal(count_entries(f->root), 1);
    assert_false(is_there(f->root, "box"));
    edge.cancel_at_removal = 0;
    assert_int_equal(in_task(destroy_in_task, f), -1);
    assert_int_equal(f->err.code, ERROR_SANDBOX_NOT_FOUND);
    assert_int_equal(edge.removals, 3);
    assert_int_equal(count_entries(f->root), 0);
}

static void a_bind_mount_is_named_and_not_emptied(void **state)
{
    struct fixture *f = *state;
    char at[160];
    shell("mkdir -p \"$BOX/a/volume\" && echo x >\"$OUTSIDE/kept\"");
    (void)snprintf(at, sizeof(at), "%s/a/volume", f->box);
    if (mount(f->outside, at, NULL, MS_BIND, NULL) != 0)
        skip();
    int destroyed = in_task(destroy_in_task, f);
    bool is_kept = is_there(f->outside, "kept");
    shell("umount \"$ROOT\"/.attachd-destroyed-box~*/a/volume");
    assert_int_equal(destroyed, -1);
    assert_true(is_kept);
    assert_int_equal(f->err.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_non_null(strstr(f->err.message, "\"volume\" is a mount point"));
    assert_int_equal(in_task(destroy_in_task, f), -1);
    assert_int_equal(f->err.code, ERROR_SANDBOX_NOT_FOUND);
    assert_int_equal(count_entries(f->root), 0);
}

static void directories_that_are_closed_to_the_worker_are_opened(void **state)
{
    struct fixture *f = *state;
    if (geteuid() != 0)
        skip();
    shell("cd \"$BOX\" && mkdir -p a/b/c d/e && touch a/b/c/f d/e/f && "
          "chmod 000 a/b/c a/b d/e && chmod 500 a d && chown -R 65534:65534 ../..");
    assert_int_equal(seteuid(NOBODY), 0);
    int destroyed = in_task(destroy_in_task, f);
    assert_int_equal(seteuid(0), 0);
    (void)prctl(PR_SET_DUMPABLE, 1); /* for the leak sanitizer */
    assert_int_equal(destroyed, 0);
    assert_int_equal(count_entries(f->root), 0);
}

static void a_file_that_cannot_be_removed_is_named(void **state)
{
    struct fixture *f = *state;
    shell("mkdir \"$BOX/a\" && touch \"$BOX/a/locked\"");
    /* NOLINTNEXTLINE(cert-env33-c): of our own making */
    if (system("chattr +i \"$BOX/a/locked\" 2>/dev/null") != 0)
        skip();
    int destroyed = in_task(destroy_in_task, f);
    shell("chattr -i \"$ROOT\"/.attachd-destroyed-box~*/a/locked");
    assert_int_equal(destroyed, -1);
    assert_non_null(strstr(f->err.message, "\"locked\": Operation not permitted"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_look_that_cannot_be_made_is_no_success),
        TEST(one_look_that_finds_nothing_is_not_enough),
        TEST(the_mark_is_found_wherever_it_is_in_the_environment),
        TEST(processes_of_other_sandboxes_are_left_alone),
        TEST(the_mark_cannot_be_taken_over_by_a_variable),
        TEST(a_command_that_a_stop_overtakes_is_killed),
        TEST(a_command_whose_directory_is_replaced_is_killed),
        TEST(a_command_whose_directory_is_destroyed_is_killed),
        TEST(whatever_bears_the_marks_name_is_the_mark),
        TEST(a_directory_on_a_full_disk_is_destroyed),
        TEST(a_program_that_ends_in_order_still_has_its_directory),
        TEST(a_destroy_that_was_cut_short_is_completed_by_the_next),
        TEST(what_other_sandboxes_have_left_is_theirs),
        TEST(a_tree_of_any_depth_is_removed),
        TEST(a_large_tree_is_removed_in_batches_that_a_cancel_can_end),
        TEST(a_bind_mount_is_named_and_not_emptied),
        TEST(directories_that_are_closed_to_the_worker_are_opened),
        TEST(a_file_that_cannot_be_removed_is_named),
    };
    /* Mounts of our own, where that is allowed; where not, mounting fails too. */
    if (unshare(CLONE_NEWNS) == 0)
        (void)mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
