/* Launches by real shells. */
#include "launch_scene.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const tools[] = {"setsid", "sleep", "mv",    "rm",   "tr",      "cat",
                                    "dd",     "touch", "uname", "true", "unshare", "mount"};

static const char *find_program(const char *name, char path[64])
{
    (void)snprintf(path, 64, "/usr/bin/%s", name);
    if (access(path, X_OK) != 0)
        (void)snprintf(path, 64, "/bin/%s", name);
    return path;
}

static void link_program(struct scene *scene, const char *name, const char *program)
{
    char path[64];
    char link[192];
    (void)snprintf(link, sizeof(link), "%s/%s", scene->bin, name);
    assert_int_equal(symlink(find_program(program, path), link), 0);
}

void scene_init(struct scene *scene, struct place *place, const char *command)
{
    *scene = (struct scene){.place = place};
    (void)snprintf(scene->bin, sizeof(scene->bin), "%s/bin", place->root);
    if (mkdir(scene->bin, 0755) == 0) {
        link_program(scene, "sh", place->shell->argv[0]);
        for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
            link_program(scene, tools[i], tools[i]);
    }
    if (access(place->directory, F_OK) != 0)
        make_directory(place);
    scene->request = (struct launch_request){.working_directory = ".",
                                             .termination_grace_ms = SCENE_GRACE_MS};
    scene_program(scene, (const char *const[]){"sh", "-c", command, NULL});
}

void scene_program(struct scene *scene, const char *const *words)
{
    size_t count = 0;
    for (; words[count + 1]; count++) {
        assert_true(count < sizeof(scene->words) / sizeof(scene->words[0]));
        scene->words[count] = words[count + 1];
    }
    scene->request.command = words[0];
    scene->request.args = scene->words;
    scene->request.arg_count = count;
}

void scene_forget_tool(struct scene *scene, const char *tool)
{
    char path[192];
    (void)snprintf(path, sizeof(path), "%s/%s", scene->bin, tool);
    assert_int_equal(unlink(path), 0);
}

void scene_write(struct scene *scene)
{
    char path[256];
    const char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(launch_compose(&scene->request, scene->place->arena, &text, &bytes,
                                    &scene->place->err),
                     0);
    put_bytes(scene->place, "launch.sh", text, bytes);
    path_of(scene->place, "launch.sh", path);
    assert_int_equal(chmod(path, 0700), 0);
}

pid_t scene_spawn(struct scene *scene, int startup_ms)
{
    char shell[64];
    char launch[256];
    char errors[128];
    char number[16];
    char path[192];
    char line[1024];
    pid_t pid = -1;
    path_of(scene->place, "launch.sh", launch);
    (void)find_program(scene->place->shell->argv[0], shell);
    (void)snprintf(errors, sizeof(errors), "%s/errors", scene->place->root);
    (void)snprintf(number, sizeof(number), "%d", startup_ms);
    (void)snprintf(path, sizeof(path), "PATH=%s", scene->bin);
    (void)snprintf(line, sizeof(line), "mount -t tmpfs none /proc && exec sh '%s' start %s",
                   launch, number);
    const char *plain[] = {"sh", launch, "start", number, NULL};
    const char *hidden[] = {"unshare", "-m", "sh", "-c", line, NULL};
    const char *const *argv = scene->hides_proc ? hidden : plain;
    const char *environment[] = {path, "LC_ALL=C.UTF-8", "GREETING=from the sandbox", NULL};
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0),
        0);
    assert_int_equal(
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0),
        0);
    assert_int_equal(posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors,
                                                      O_WRONLY | O_CREAT | O_TRUNC, 0600),
                     0);
    assert_int_equal(posix_spawn_file_actions_addchdir_np(&actions, "/"), 0);
    assert_int_equal(posix_spawn(&pid, scene->hides_proc ? "/usr/bin/unshare" : shell,
                                 &actions, NULL, (char *const *)(uintptr_t)argv,
                                 (char *const *)(uintptr_t)environment),
                     0);
    (void)posix_spawn_file_actions_destroy(&actions);
    return pid;
}

int scene_start(struct scene *scene, int startup_ms)
{
    char errors[128];
    int status = 0;
    pid_t pid = scene_spawn(scene, startup_ms);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)snprintf(errors, sizeof(errors), "%s/errors", scene->place->root);
    FILE *file = fopen(errors, "r");
    assert_non_null(file);
    size_t got = fread(scene->standard_error, 1, sizeof(scene->standard_error) - 1, file);
    scene->standard_error[got] = '\0';
    (void)fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int scene_run(struct scene *scene)
{
    scene_write(scene);
    int code = scene_start(scene, SCENE_STARTUP_MS);
    reap_all();
    return code;
}

bool has_file(struct place *place, const char *name)
{
    char path[256];
    path_of(place, name, path);
    return access(path, F_OK) == 0;
}

static const char *try_text(struct place *place, const char *name)
{
    char path[256];
    path_of(place, name, path);
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    buffer_scoped struct buffer text;
    buffer_init(&text, PLACE_ANSWER_MAX);
    char chunk[2048];
    size_t got;
    while ((got = fread(chunk, 1, sizeof(chunk), file)) > 0)
        assert_int_equal(buffer_append(&text, chunk, got), 0);
    (void)fclose(file);
    const char *copy = arena_text_n(place->arena, text.data ? text.data : "", text.size);
    assert_non_null(copy);
    return copy;
}

const char *text_of_file(struct place *place, const char *name)
{
    const char *text = try_text(place, name);
    if (!text)
        fail_msg("%s: no file %s", place->shell->name, name);
    return text;
}

void expect_file_at(int line, struct place *place, const char *name, const char *wanted)
{
    const char *text = try_text(place, name);
    if (!text || strcmp(text, wanted) != 0)
        fail_msg("line %d, %s: %s is \"%s\"", line, place->shell->name, name,
                 text ? text : "(none)");
}

void await_file(struct place *place, const char *name, const char *wanted)
{
    for (int i = 0; i < 6000; i++) {
        const char *text = try_text(place, name);
        if (text && strcmp(text, wanted) == 0)
            return;
        (void)poll(NULL, 0, 10);
    }
    fail_msg("%s: %s does not become \"%s\"", place->shell->name, name, wanted);
}

int count_processes(const char *text)
{
    DIR *proc = opendir("/proc");
    assert_non_null(proc);
    int count = 0;
    for (const struct dirent *entry = readdir(proc); entry; entry = readdir(proc)) {
        char path[300];
        char line[1024];
        (void)snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        size_t got = fread(line, 1, sizeof(line), file);
        (void)fclose(file);
        count += memmem(line, got, text, strlen(text)) != NULL;
    }
    (void)closedir(proc);
    return count;
}
