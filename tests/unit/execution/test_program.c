/* The attach program under real shells, with real files and real processes: what it prints
 * is read by look_parse and judged by status_judge, as attach_look does. Blocking, outside
 * tasks. */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "execution/layout.h"

enum { PIECE = 1024 * 1024 };

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
