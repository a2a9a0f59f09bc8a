/* Real directories below a root of their own, and real commands in them. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "providers/profile.h"
#include "providers/provider.h"
#include "providers/registry.h"

enum { SETTINGS = 4 };

/* A root with the sandbox "box", and what a test does with it inside a task. */
struct fixture {
    char base[64]; /* <base>/root is the root, <base>/outside lies beside it */
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
    struct sandbox_info info;
    const char *path;
    unsigned mode;
    const void *data;
    size_t bytes;
    struct file_source source; /* where set: instead of data */
};

static struct fixture *make_fixture(void)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    (void)snprintf(f->base, sizeof(f->base), "/tmp/attachd-test-XXXXXX");
    assert_non_null(mkdtemp(f->base));
    (void)snprintf(f->root, sizeof(f->root), "%s/root", f->base);
    (void)snprintf(f->box, sizeof(f->box), "%s/box", f->root);
    (void)snprintf(f->outside, sizeof(f->outside), "%s/outside", f->base);
    assert_int_equal(mkdir(f->root, 0755), 0);
    assert_int_equal(mkdir(f->box, 0755), 0);
    assert_int_equal(mkdir(f->outside, 0755), 0);
    f->settings[0] = (struct profile_setting){"root", f->root};
    f->profile = (struct profile){.name = "here",
                                  .provider = registry_find("local"),
                                  .settings = f->settings,
                                  .setting_count = 1};
    f->arena = arena_new(SIZE_MAX);
    assert_non_null(f->arena);
    f->returned = -77;
    f->request.output_limit_bytes = 262144;
    return f;
}

static int set_up(void **state)
{
    *state = make_fixture();
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[96];
    sandbox_close(f->sandbox);
    arena_free(f->arena);
    (void)snprintf(command, sizeof(command), "rm -rf %s", f->base);
    (void)!system(command); /* NOLINT(cert-env33-c): a path of our own making */
    free(f);
    return 0;
}

static int open_id(struct fixture *f, const char *id)
{
    const struct descriptor descriptor = {.provider = "here", .sandbox_id = id};
    memset(&f->err, 0, sizeof(f->err));
    return sandbox_open(&descriptor, &f->profile, f->arena, &f->sandbox, &f->err);
}

static void open_box(struct fixture *f)
{
    assert_int_equal(open_id(f, "box"), 0);
}

static void exec_in_task(void *arg)
{
    struct fixture *f = arg;
    f->returned = sandbox_exec(f->sandbox, &f->request, f->arena, &f->result, &f->err);
}

static const char *exec_script(struct fixture *f, const char *script)
{
    f->request.script = script;
    memset(&f->err, 0, sizeof(f->err));
    memset(&f->result, 0, sizeof(f->result));
    f->returned = -77;
    support_run_task(exec_in_task, f);
    return f->result.out.data;
}

static void make_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static void make_link(const char *folder, const char *name, const char *target)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
}

/* valgrind up to 3.19 does not know the call. */
static void skip_without_openat2(void)
{
    if (syscall(SYS_openat2, -1, NULL, NULL, 0) < 0 && errno == ENOSYS)
        skip();
}

static void make_folder(const char *folder, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

/* ---- opening ---- */

static void an_id_is_one_plain_name(void **state)
{
    struct fixture *f = *state;
    char longest[130];
    memset(longest, 'a', sizeof(longest));
    longest[129] = '\0';
    const char *const refused[] = {
        NULL, "",    ".",   "..",  "../box",     "a/b", "/box",  "box/", "-box", ".box",
        "_b", "a b", "a\n", "b*x", "b\xc3\xb6x", "a~",  longest, "a\\b", "a:b"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_int_equal(open_id(f, refused[i]), -1);
        assert_int_equal(f->err.code, ERROR_INVALID_ARGUMENT);
        assert_string_equal(f->err.field, "sandbox.id");
    }
    longest[128] = '\0';
    const char *const taken[] = {"a", "7", "A.b_c-9", "a..b", "job-42", longest};
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        assert_int_equal(open_id(f, taken[i]), 0);
}

static void a_profile_without_a_root_is_a_configuration_error(void **state)
{
    struct fixture *f = *state;
    f->profile.setting_count = 0;
    assert_int_equal(open_id(f, "box"), -1);
    assert_int_equal(f->err.code, ERROR_CONFIGURATION);
    assert_non_null(strstr(f->err.message, "root"));
    f->profile.setting_count = 1;
    f->settings[0].value = "relative";
    assert_int_equal(open_id(f, "box"), -1);
    assert_int_equal(f->err.code, ERROR_CONFIGURATION);
    f->settings[0].value = f->root;
    f->settings[1] = (struct profile_setting){"env.", "x"};
    f->profile.setting_count = 2;
    assert_int_equal(open_id(f, "box"), -1);
    assert_int_equal(f->err.code, ERROR_CONFIGURATION);
    assert_null(f->sandbox);
}

static void capabilities_are_those_of_a_directory(void **state)
{
    struct fixture *f = *state;
    open_box(f);
    assert_true(sandbox_can(f->sandbox, CAPABILITY_EXECUTE_COMMAND));
    assert_true(sandbox_can(f->sandbox, CAPABILITY_BACKGROUND_PROCESSES));
    assert_true(sandbox_can(f->sandbox, CAPABILITY_PROBE));
    assert_true(sandbox_can(f->sandbox, CAPABILITY_WRITE_FILE));
    assert_true(sandbox_can(f->sandbox, CAPABILITY_WAKE));
    assert_true(sandbox_can(f->sandbox, CAPABILITY_STOP));
    assert_true(sandbox_can(f->sandbox, CAPABILITY_DESTROY));
    assert_false(sandbox_can(f->sandbox, CAPABILITY_PORT_URL));
    assert_true(f->sandbox->traits & TRAIT_RUNS_ON_HOST);
}

/* ---- looking ---- */

static void probe_in_task(void *arg)
{
    struct fixture *f = arg;
    f->returned = sandbox_probe(f->sandbox, f->arena, &f->info, &f->err);
}

static void a_directory_that_is_there_is_running(void **state)
{
    struct fixture *f = *state;
    open_box(f);
    support_run_task(probe_in_task, f);
    assert_int_equal(f->returned, 0);
    assert_int_equal(f->info.state, SANDBOX_RUNNING);
    assert_int_equal(f->info.expires_at_ms, -1);
    assert_string_equal(f->info.provider_id, "box");
}

static void what_is_no_sandbox_is_told_from_what_is_gone(void **state)
{
    struct fixture *f = *state;
    make_file(f->root, "file", "");
    make_link(f->root, "link", "box");
    const struct {
        const char *id;
        enum error_code code;
        const char *field;
    } cases[] = {
        {"gone", ERROR_SANDBOX_NOT_FOUND, ""},
        {"file", ERROR_INVALID_ARGUMENT, "sandbox.id"},
        {"link", ERROR_INVALID_ARGUMENT, "sandbox.id"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(open_id(f, cases[i].id), 0);
        support_run_task(probe_in_task, f);
        assert_int_equal(f->returned, -1);
        assert_int_equal(f->err.code, cases[i].code);
        assert_string_equal(f->err.field, cases[i].field);
        (void)exec_script(f, "exit 0");
        assert_int_equal(f->returned, -1);
        assert_int_equal(f->err.code, cases[i].code);
    }
}

static void a_root_that_is_away_is_an_error_to_retry(void **state)
{
    struct fixture *f = *state;
    char away[128];
    (void)snprintf(away, sizeof(away), "%s.away", f->root);
    open_box(f);
    assert_int_equal(rename(f->root, away), 0);
    support_run_task(probe_in_task, f);
    assert_int_equal(f->err.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_true(f->err.retryable);
}

/* ---- commands ---- */

static void a_command_runs_in_the_sandboxs_directory(void **state)
{
    struct fixture *f = *state;
    char expected[160];
    (void)snprintf(expected, sizeof(expected), "%s\n", f->box);
    open_box(f);
    assert_string_equal(exec_script(f, "pwd -P; printf 'e\\0' >&2; exit 7"), expected);
    assert_int_equal(f->returned, 0);
    assert_int_equal(f->result.end, EXEC_EXITED);
    assert_int_equal(f->result.exit_code, 7);
    assert_int_equal(f->result.err.size, 2);
    assert_memory_equal(f->result.err.data, "e\0", 2);
    assert_int_equal(f->sandbox->exec_count, 1);
}

static void signals_and_timeouts_are_told_apart(void **state)
{
    struct fixture *f = *state;
    open_box(f);
    (void)exec_script(f, "kill -TERM $$");
    assert_int_equal(f->result.end, EXEC_SIGNALED);
    assert_int_equal(f->result.signal, SIGTERM);
    f->request.timeout_ms = 100;
    (void)exec_script(f, "sleep 60");
    assert_int_equal(f->returned, 0);
    assert_int_equal(f->result.end, EXEC_TIMED_OUT);
}

static void the_environment_is_path_then_the_profile_then_the_request(void **state)
{
    struct fixture *f = *state;
    static const char *const own[] = {"B=request", "C=request", "C=last", NULL};
    char expected[2048];
    f->settings[1] = (struct profile_setting){"env.A", "profile a=b"};
    f->settings[2] = (struct profile_setting){"env.B", "profile"};
    f->profile.setting_count = 3;
    (void)setenv("HOME", "/home/somebody", 1);
    (void)setenv("SECRET", "of the worker", 1);
    open_box(f);
    f->request.env = own;
    (void)exec_script(f, "cat /proc/$$/environ");
    int bytes = snprintf(expected, sizeof(expected),
                         "ATTACHD_SANDBOX=%s%cPATH=%s%cA=profile a=b%cB=request%cC=last%c",
                         f->box, 0, getenv("PATH"), 0, 0, 0, 0);
    assert_int_equal(f->result.out.size, bytes);
    assert_memory_equal(f->result.out.data, expected, (size_t)bytes);
    f->request.env = NULL;
    assert_string_equal(exec_script(f, "echo ${HOME-unset} $B ${C-unset}"),
                        "unset profile unset\n");
    f->settings[1] = (struct profile_setting){"env.PATH", "/usr/bin:/bin"};
    open_box(f);
    assert_string_equal(exec_script(f, "echo $PATH"), "/usr/bin:/bin\n");
}

static void a_command_may_start_beneath_the_directory_but_not_outside(void **state)
{
    skip_without_openat2();
    struct fixture *f = *state;
    char inside[192];
    char expected[192];
    make_folder(f->box, "sub");
    make_link(f->box, "way-out", "../../outside");
    make_link(f->box, "way-in", "sub");
    (void)snprintf(inside, sizeof(inside), "%s/sub", f->box);
    (void)snprintf(expected, sizeof(expected), "%s/sub\n", f->box);
    const char *const good[] = {"sub", "./sub", "way-in", inside};
    const char *const bad[] = {"..",       "sub/../..", "way-out", "../../outside",
                               f->outside, "/",         "missing", "/proc/self/cwd"};
    open_box(f);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        f->request.cwd = good[i];
        assert_string_equal(exec_script(f, "pwd -P"), expected);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        f->request.cwd = bad[i];
        (void)exec_script(f, "pwd -P");
        assert_int_equal(f->returned, -1);
        assert_int_equal(f->err.code, ERROR_INVALID_ARGUMENT);
        assert_string_equal(f->err.field, "cwd");
    }
}

static void the_longest_script_runs_and_a_longer_one_is_refused(void **state)
{
    struct fixture *f = *state;
    size_t limit = f->profile.provider->limits.max_script_bytes;
    char *script = malloc(limit + 2);
    assert_non_null(script);
    memset(script, '#', limit + 1);
    memcpy(script, "echo ran\n", 9);
    script[limit] = '\0';
    open_box(f);
    assert_string_equal(exec_script(f, script), "ran\n");
    script[limit] = '#';
    script[limit + 1] = '\0';
    (void)exec_script(f, script);
    assert_int_equal(f->returned, -1);
    assert_int_equal(f->sandbox->exec_count, 1);
    free(script);
}

static void what_a_command_launches_lives_on(void **state)
{
    struct fixture *f = *state;
    open_box(f);
    (void)exec_script(f, "setsid nohup sleep 60 >/dev/null 2>&1 & echo $!");
    pid_t launched = (pid_t)strtol(f->result.out.data, NULL, 10);
    assert_true(launched > 1);
    char script[64];
    (void)snprintf(script, sizeof(script), "kill -9 %d && echo killed", (int)launched);
    assert_string_equal(exec_script(f, script), "killed\n");
}

/* ---- files ---- */

static void write_in_task(void *arg)
{
    struct fixture *f = arg;
    const struct span bytes = {f->data, f->bytes};
    const struct file_source source = file_source_of(&bytes);
    f->returned = sandbox_write_file(f->sandbox, f->path, f->mode,
                                     f->source.read ? &f->source : &source, &f->err);
}

static void write_text(struct fixture *f, const char *path, unsigned mode, const char *text)
{
    memset(&f->err, 0, sizeof(f->err));
    f->path = path;
    f->mode = mode;
    f->data = text;
    f->bytes = strlen(text);
    f->returned = -77;
    support_run_task(write_in_task, f);
}

static void assert_file(const char *folder, const char *name, unsigned mode,
                        const char *text)
{
    char path[256];
    char got[64] = "";
    struct stat status;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISREG(status.st_mode));
    assert_int_equal(status.st_mode & 07777, mode);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(got, 1, sizeof(got) - 1, file);
    (void)fclose(file);
    got[bytes] = '\0';
    assert_string_equal(got, text);
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

static void a_file_is_written_whole_with_its_mode(void **state)
{
    skip_without_openat2();
    struct fixture *f = *state;
    char absolute[192];
    make_folder(f->box, "sub");
    (void)snprintf(absolute, sizeof(absolute), "%s/sub/two", f->box);
    open_box(f);
    mode_t before = umask(077);
    write_text(f, "one", 0755, "first");
    (void)umask(before);
    assert_int_equal(f->returned, 0);
    assert_file(f->box, "one", 0755, "first");
    write_text(f, "one", 0600, "second");
    assert_file(f->box, "one", 0600, "second");
    write_text(f, absolute, 0644, "");
    assert_int_equal(f->returned, 0);
    assert_file(f->box, "sub/two", 0644, "");
    assert_int_equal(count_entries(f->box), 2);
    assert_int_equal(f->sandbox->exec_count, 3);
}

static void a_file_takes_the_place_of_a_link_and_does_not_follow_it(void **state)
{
    skip_without_openat2();
    struct fixture *f = *state;
    make_file(f->outside, "victim", "whole");
    make_link(f->box, "link", "../../outside/victim");
    open_box(f);
    write_text(f, "link", 0644, "new");
    assert_int_equal(f->returned, 0);
    assert_file(f->box, "link", 0644, "new");
    assert_file(f->outside, "victim", 0644, "whole");
}

static void a_file_outside_the_directory_is_refused(void **state)
{
    skip_without_openat2();
    struct fixture *f = *state;
    char beside[192];
    char twin[192];
    make_link(f->box, "way-out", "../../outside");
    make_link(f->box, "absolute", f->outside);
    make_folder(f->root, "box2");
    make_folder(f->box, "sub");
    (void)snprintf(beside, sizeof(beside), "%s/x", f->outside);
    (void)snprintf(twin, sizeof(twin), "%s2/x", f->box);
    const char *const bad[] = {
        "",           ".",         "..",   "sub/", "../x", "sub/../../x", "way-out/x",
        "absolute/x", "missing/x", beside, twin,   f->box, "sub"};
    open_box(f);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_text(f, bad[i], 0644, "x");
        assert_int_equal(f->returned, -1);
        assert_int_equal(f->err.code, ERROR_INVALID_ARGUMENT);
        assert_string_equal(f->err.field, "path");
    }
    assert_int_equal(count_entries(f->outside), 0);
    assert_int_equal(count_entries(f->box), 3);
}

/* A source that is made up as it is read. */
struct stream {
    uint64_t next;
    size_t largest;
    uint64_t fails_at;
};

static int stream_read(void *arg, uint64_t offset, void *buffer, size_t bytes)
{
    struct stream *stream = arg;
    if (offset != stream->next)
        return -EINVAL;
    if (offset + bytes > stream->fails_at)
        return -EIO;
    stream->next = offset + bytes;
    if (bytes > stream->largest)
        stream->largest = bytes;
    memset(buffer, 'x', bytes);
    return 0;
}

static void a_large_file_is_written_piece_by_piece(void **state)
{
    skip_without_openat2();
    const uint64_t size = 64 * 1024 * 1024 + 5;
    struct fixture *f = *state;
    struct stream stream = {.fails_at = UINT64_MAX};
    open_box(f);
    f->path = "large";
    f->mode = 0644;
    f->source = (struct file_source){size, stream_read, &stream};
    support_run_task(write_in_task, f);
    assert_int_equal(f->returned, 0);
    char path[192];
    struct stat status;
    (void)snprintf(path, sizeof(path), "%s/large", f->box);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, size);
    assert_true(stream.largest <= 256 * 1024);
}

static void a_source_that_fails_leaves_nothing(void **state)
{
    skip_without_openat2();
    struct fixture *f = *state;
    struct stream stream = {.fails_at = 1000000};
    open_box(f);
    int before = count_entries(f->box);
    f->path = "half";
    f->source = (struct file_source){2000000, stream_read, &stream};
    support_run_task(write_in_task, f);
    assert_int_equal(f->returned, -1);
    assert_int_equal(f->err.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_non_null(strstr(f->err.message, "cannot be read"));
    assert_int_equal(count_entries(f->box), before);
}

static void a_file_over_the_limit_is_refused(void **state)
{
    skip_without_openat2();
    struct fixture *f = *state;
    struct stream stream = {0};
    open_box(f);
    f->path = "large";
    f->source = (struct file_source){f->profile.provider->limits.max_file_bytes + 1,
                                     stream_read, &stream};
    support_run_task(write_in_task, f);
    assert_int_equal(f->returned, -1);
    assert_int_equal(f->err.code, ERROR_INVALID_ARGUMENT);
}

/* ---- stopping, waking, destroying ---- */

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

static void a_stopped_directory_runs_nothing_until_it_is_woken(void **state)
{
    struct fixture *f = *state;
    open_box(f);
    pid_t launched = (pid_t)strtol(
        exec_script(f, "trap '' TERM; (sleep 600; :) >&- 2>&- & echo $!"), NULL, 10);
    assert_true(launched > 1);
    support_run_task(stop_in_task, f);
    assert_int_equal(f->returned, 0);
    char path[64];
    char text[256] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)launched);
    FILE *file = fopen(path, "r");
    if (file) { /* a zombie, where nobody reaps */
        assert_int_equal(fread(text, 1, sizeof(text), file), 0);
        (void)fclose(file);
    }
    support_run_task(exec_in_task, f);
    assert_int_equal(f->returned, -1);
    assert_int_equal(f->err.code, ERROR_SANDBOX_STOPPED);
    support_run_task(wake_in_task, f);
    assert_int_equal(f->returned, 0);
    assert_string_equal(exec_script(f, "echo again"), "again\n");
}

static void a_destroyed_directory_is_gone_and_links_are_not_followed(void **state)
{
    struct fixture *f = *state;
    open_box(f);
    char script[512];
    (void)snprintf(script, sizeof(script),
                   "mkdir -p a/b && echo x >a/b/c && ln -s '%s' a/out", f->outside);
    (void)exec_script(f, script);
    int before = count_entries(f->outside);
    support_run_task(destroy_in_task, f);
    assert_int_equal(f->returned, 0);
    struct stat status;
    assert_int_equal(stat(f->box, &status), -1);
    assert_int_equal(count_entries(f->outside), before);
    support_run_task(destroy_in_task, f);
    assert_int_equal(f->returned, -1);
    assert_int_equal(f->err.code, ERROR_SANDBOX_NOT_FOUND);
}

/* ---- directories that jobs name ---- */

static const char *join(struct fixture *f, const char *folder, const char *rest)
{
    return arena_printf(f->arena, "%s%s", folder, rest);
}

static void a_directory_of_the_sandbox_is_accepted(void **state)
{
    skip_without_openat2();
    struct fixture *f = *state;
    char linked_root[96];
    make_folder(f->box, "app");
    make_link(f->box, "way-in", "app");
    (void)snprintf(linked_root, sizeof(linked_root), "%s/linked", f->base);
    assert_int_equal(symlink("root", linked_root), 0);
    f->settings[0].value =
        linked_root; /* what the operator wrote; its real path serves too */
    open_box(f);
    const char *const good[] = {
        join(f, f->box, ""),
        join(f, f->box, "/"),
        join(f, f->box, "/app"),
        join(f, f->box, "/app/missing/deeper"),
        join(f, f->box, "//app/"),
        join(f, f->box, "/way-in/x"),
        join(f, linked_root, "/box"),
        join(f, linked_root, "/box/app"),
        join(f, f->box, "/..app"),
        join(f, f->box, "/a b/$(id)"),
        "app",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        memset(&f->err, 0, sizeof(f->err));
        assert_int_equal(sandbox_check_directory(f->sandbox, good[i], &f->err), 0);
    }
}

static void a_directory_outside_the_sandbox_is_refused(void **state)
{
    skip_without_openat2();
    struct fixture *f = *state;
    make_link(f->box, "way-out", "../../outside");
    make_link(f->box, "dangling", "../../missing");
    make_link(f->box, "absolute", "/etc");
    make_link(f->box, "magic", "/proc/self/root");
    make_link(f->box, "loop", "loop");
    make_file(f->box, "file", "");
    make_folder(f->root, "box2");
    make_folder(f->root, "other");
    open_box(f);
    const char *const bad[] = {
        "/",
        "/etc",
        f->root,
        f->outside,
        join(f, f->box, "2"),
        join(f, f->root, "/other"),
        join(f, f->box, "/../other"),
        join(f, f->box, "/.."),
        join(f, f->box, "/missing/../../other"),
        join(f, f->root, "/../root/box"),
        join(f, f->box, "/way-out"),
        join(f, f->box, "/way-out/missing"),
        join(f, f->box, "/dangling"),
        join(f, f->box, "/absolute"),
        join(f, f->box, "/magic/etc"),
        join(f, f->box, "/loop"),
        join(f, f->box, "/file"),
        "..",
        "way-out",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memset(&f->err, 0, sizeof(f->err));
        assert_int_equal(sandbox_check_directory(f->sandbox, bad[i], &f->err), -1);
        assert_int_equal(f->err.code, ERROR_INVALID_ARGUMENT);
        assert_string_equal(f->err.field, "remote_dir");
        assert_string_not_equal(f->err.message, "");
    }
}

static void a_directory_in_a_sandbox_that_is_gone_is_not_found(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_id(f, "gone"), 0);
    const char *path = join(f, f->root, "/gone/app");
    assert_int_equal(sandbox_check_directory(f->sandbox, path, &f->err), -1);
    assert_int_equal(f->err.code, ERROR_SANDBOX_NOT_FOUND);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_id_is_one_plain_name),
        TEST(a_profile_without_a_root_is_a_configuration_error),
        TEST(capabilities_are_those_of_a_directory),
        TEST(a_directory_that_is_there_is_running),
        TEST(what_is_no_sandbox_is_told_from_what_is_gone),
        TEST(a_root_that_is_away_is_an_error_to_retry),
        TEST(a_command_runs_in_the_sandboxs_directory),
        TEST(signals_and_timeouts_are_told_apart),
        TEST(the_environment_is_path_then_the_profile_then_the_request),
        TEST(a_command_may_start_beneath_the_directory_but_not_outside),
        TEST(the_longest_script_runs_and_a_longer_one_is_refused),
        TEST(what_a_command_launches_lives_on),
        TEST(a_file_is_written_whole_with_its_mode),
        TEST(a_file_takes_the_place_of_a_link_and_does_not_follow_it),
        TEST(a_file_outside_the_directory_is_refused),
        TEST(a_large_file_is_written_piece_by_piece),
        TEST(a_source_that_fails_leaves_nothing),
        TEST(a_file_over_the_limit_is_refused),
        TEST(a_stopped_directory_runs_nothing_until_it_is_woken),
        TEST(a_destroyed_directory_is_gone_and_links_are_not_followed),
        TEST(a_directory_of_the_sandbox_is_accepted),
        TEST(a_directory_outside_the_sandbox_is_refused),
        TEST(a_directory_in_a_sandbox_that_is_gone_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
