/* Deploys by real shells. */
#include "deploy_scene.h"

#include "archive_builder.h"
#include "launch_scene.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "execution/cancel.h"
#include "providers/registry.h"
#include "runtime/clock.h"
#include "runtime/loop.h"
#include "runtime/process.h"
#include "runtime/random.h"

enum { GRACE_MS = 2000, STARTUP_MS = 60 * 1000, INSTALL_MS = 60 * 1000 };

extern const struct provider provider_local;

const char *const deploy_scene_tools[] = {
    "awk",   "base64", "cat",     "chmod", "chown",  "cp",        "cut",     "date",
    "dd",    "df",     "dirname", "env",   "expr",   "find",      "grep",    "gzip",
    "head",  "id",     "kill",    "ln",    "ls",     "mkdir",     "mkfifo",  "mktemp",
    "mknod", "mv",     "nohup",   "od",    "printf", "ps",        "pwd",     "readlink",
    "rm",    "rmdir",  "sed",     "seq",   "setsid", "sha256sum", "sleep",   "sort",
    "stat",  "sync",   "tail",    "tar",   "tee",    "test",      "timeout", "touch",
    "tr",    "true",   "uname",   "wc",    "xargs",  NULL};

/* ---- the folder of programs ---- */

static bool is_busybox(const struct place *place)
{
    return strcmp(place->shell->name, "busybox") == 0;
}

static const char *find_program(const char *name, char path[64])
{
    (void)snprintf(path, 64, "/usr/bin/%s", name);
    if (access(path, X_OK) != 0)
        (void)snprintf(path, 64, "/bin/%s", name);
    return path;
}

static const char *target_of(const struct place *place, const char *tool, char path[64])
{
    return find_program(is_busybox(place) ? "busybox" : tool, path);
}

static void link_tool(struct deploy_scene *scene, const char *name, const char *target)
{
    char link[192];
    (void)snprintf(link, sizeof(link), "%s/%s", scene->bin, name);
    assert_int_equal(symlink(target, link), 0);
}

void deploy_scene_restore_tool(struct deploy_scene *scene, const char *tool)
{
    char path[64];
    link_tool(scene, tool, target_of(scene->place, tool, path));
}

static void make_bin(struct deploy_scene *scene)
{
    char path[64];
    (void)snprintf(scene->bin, sizeof(scene->bin), "%s/bin", scene->place->root);
    if (mkdir(scene->bin, 0755) != 0)
        return;
    link_tool(scene, "sh", find_program(scene->place->shell->argv[0], path));
    for (size_t i = 0; deploy_scene_tools[i]; i++)
        deploy_scene_restore_tool(scene, deploy_scene_tools[i]);
}

void deploy_scene_forget_tool(struct deploy_scene *scene, const char *tool)
{
    char path[192];
    (void)snprintf(path, sizeof(path), "%s/%s", scene->bin, tool);
    assert_int_equal(unlink(path), 0);
}

void deploy_scene_before_tool(struct deploy_scene *scene, const char *tool,
                              const char *command)
{
    char path[192];
    char target[64];
    (void)snprintf(path, sizeof(path), "%s/%s", scene->bin, tool);
    deploy_scene_forget_tool(scene, tool);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "#!/bin/sh\n(PATH=/usr/bin:/bin; %s)\nexec %s %s \"$@\"\n", command,
                  target_of(scene->place, tool, target),
                  is_busybox(scene->place) ? tool : "");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

/* ---- the sandbox ---- */

static struct deploy_scene *scene_of(struct sandbox *sandbox)
{
    return ((struct deploy_sandbox *)sandbox)->scene;
}

static int scene_probe(struct sandbox *sandbox, struct arena *arena,
                       struct sandbox_info *ret_info, struct error *err)
{
    struct deploy_scene *scene = scene_of(sandbox);
    return provider_local.probe(scene->local, arena, ret_info, err);
}

static int scene_write_file(struct sandbox *sandbox, const char *path, unsigned mode,
                            const struct file_source *source, struct error *err)
{
    struct deploy_scene *scene = scene_of(sandbox);
    scene->files++;
    if (scene->before)
        scene->before(scene, DEPLOY_FILE);
    return provider_local.write_file(scene->local, path, mode, source, err);
}

/* The words of the command that runs a script; `shell` keeps the path of its program. */
static void compose(const struct deploy_scene *scene, const char *script, char shell[64],
                    const char *argv[20])
{
    static const char *const hidden[] = {
        "/usr/bin/unshare",
        "-m",
        "/bin/sh",
        "-c",
        "/usr/bin/mount -t tmpfs none /proc && exec \"$@\"",
        "sh",
        NULL};
    static const char *const nobody[] = {"/usr/bin/setpriv", "--reuid=65534",
                                         "--regid=65534", "--clear-groups", NULL};
    size_t count = 0;
    for (size_t i = 0; scene->hides_proc && hidden[i]; i++)
        argv[count++] = hidden[i];
    for (size_t i = 0; scene->is_nobody && nobody[i]; i++)
        argv[count++] = nobody[i];
    argv[count++] = find_program(scene->place->shell->argv[0], shell);
    for (size_t i = 1; i < 3 && scene->place->shell->argv[i]; i++)
        argv[count++] = scene->place->shell->argv[i];
    argv[count++] = "-c";
    argv[count++] = script;
    argv[count] = NULL;
}

static int scene_exec(struct sandbox *sandbox, const struct exec_request *request,
                      struct arena *arena, struct exec_result *ret_result,
                      struct error *err)
{
    struct deploy_scene *scene = scene_of(sandbox);
    char shell[64];
    const char *argv[20];
    struct process_result result;
    size_t bytes = strlen(request->script);
    scene->commands++;
    if (bytes > scene->longest_script)
        scene->longest_script = bytes;
    if (scene->before)
        scene->before(scene, DEPLOY_COMMAND);
    compose(scene, request->script, shell, argv);
    const struct process_request process = {.argv = argv,
                                            .env = scene->environment,
                                            .cwd_fd = -1,
                                            .timeout_ms = request->timeout_ms,
                                            .grace_ms = GRACE_MS,
                                            .output_limit_bytes =
                                                request->output_limit_bytes};
    if (process_run(&process, arena, &result, err) != 0)
        return -1;
    *ret_result = (struct exec_result){
        .end = result.end == PROCESS_EXITED     ? EXEC_EXITED
               : result.end == PROCESS_SIGNALED ? EXEC_SIGNALED
                                                : EXEC_TIMED_OUT,
        .exit_code = result.exit_code,
        .signal = result.signal,
        .out = {result.out.data, result.out.size, result.out.dropped_bytes},
        .err = {result.err.data, result.err.size, result.err.dropped_bytes}};
    return 0;
}

/* The handle as the scene says that the sandbox is. */
static void open_sandbox(struct deploy_scene *scene)
{
    scene->provider.limits = provider_local.limits;
    if (scene->max_script_bytes)
        scene->provider.limits.max_script_bytes = scene->max_script_bytes;
    if (scene->max_file_bytes)
        scene->provider.limits.max_file_bytes = scene->max_file_bytes;
    scene->provider.write_file = scene->takes_files ? scene_write_file : NULL;
    scene->handle.sandbox.exec_count = 0;
    scene->commands = 0;
    scene->files = 0;
    scene->longest_script = 0;
}

static void make_sandbox(struct deploy_scene *scene)
{
    struct place *place = scene->place;
    const struct descriptor descriptor = {.provider = "local",
                                          .sandbox_id = place->root + strlen("/tmp/")};
    scene->setting = (struct profile_setting){"root", "/tmp"};
    scene->profile = (struct profile){"local", &provider_local, &scene->setting, 1};
    assert_int_equal(sandbox_open(&descriptor, &scene->profile, place->arena, &scene->local,
                                  &place->err),
                     0);
    scene->provider = (struct provider){.name = "local",
                                        .traits = provider_local.traits,
                                        .probe = scene_probe,
                                        .exec = scene_exec};
    scene->handle = (struct deploy_sandbox){.sandbox = {.provider = &scene->provider,
                                                        .profile = &scene->profile,
                                                        .provider_name = "local",
                                                        .id = descriptor.sandbox_id,
                                                        .traits = provider_local.traits},
                                            .scene = scene};
}

/* ---- the request ---- */

static struct span text_span(const char *text)
{
    return (struct span){text, strlen(text)};
}

void deploy_scene_init(struct deploy_scene *scene, struct place *place)
{
    *scene = (struct deploy_scene){.place = place, .takes_files = true};
    make_bin(scene);
    (void)snprintf(scene->path, sizeof(scene->path), "PATH=%s", scene->bin);
    scene->environment[0] = scene->path;
    scene->environment[1] = "LC_ALL=C.UTF-8";
    make_sandbox(scene);
    scene->request = (struct deploy_request){.job_id = "job-1",
                                             .execution_id = "a1",
                                             .remote_dir = place->remote_dir,
                                             .command = text_span("sh"),
                                             .args = scene->words,
                                             .arg_count = 2,
                                             .working_directory = text_span("."),
                                             .input_limit_bytes = 1024 * 1024,
                                             .startup_timeout_ms = STARTUP_MS,
                                             .termination_grace_ms = GRACE_MS,
                                             .install_timeout_ms = INSTALL_MS,
                                             .install_command = ""};
    deploy_scene_program(scene, "echo out; echo err >&2; exec sleep 600");
}

void deploy_scene_program(struct deploy_scene *scene, const char *command)
{
    scene->words[0] = text_span("-c");
    scene->words[1] = text_span(command);
}

void deploy_scene_pack(struct deploy_scene *scene, size_t noise_bytes)
{
    static const char run[] = "#!/bin/sh\nexec sleep 600\n";
    struct archive archive = {0};
    size_t bytes = 0;
    unsigned char *noise = malloc(noise_bytes + 1);
    assert_non_null(noise);
    random_bytes(noise, noise_bytes);
    archive_header(&archive, &(struct header){.name = "./", .type = '5', .mode = 0755});
    archive_entry(&archive, '0', "./package.json", NULL, "{}");
    archive_header(&archive,
                   &(struct header){.name = "./run.sh", .mode = 0755, .size = strlen(run)});
    archive_append(&archive, run, strlen(run));
    archive_pad(&archive);
    archive_bytes(&archive, '0', "./noise", noise, noise_bytes);
    archive_end(&archive);
    unsigned char *packed = archive_gzip(&archive, &bytes);
    scene->archive = (struct span){arena_copy(scene->place->arena, packed, bytes), bytes};
    assert_non_null(scene->archive.data);
    free(packed);
    free(noise);
    archive_done(&archive);
}

void deploy_scene_input(struct deploy_scene *scene, const char *data)
{
    scene->request.input = (struct deploy_input){.given = true, .data = text_span(data)};
}

void deploy_scene_install(struct deploy_scene *scene, const char *hash, const char *command)
{
    scene->install_hash = hash;
    scene->request.install_command = command;
}

void deploy_scene_again(struct deploy_scene *scene, const char *from, const char *as)
{
    scene->request.again = true;
    scene->request.from_execution_id = from;
    scene->request.execution_id = as;
    scene->request.job_id = as;
    scene->archive = (struct span){0};
    scene->install_hash = NULL;
}

/* ---- running ---- */

void deploy_scene_play(void *arg)
{
    struct deploy_scene *scene = arg;
    struct deploy_plan plan;
    struct file_source source = file_source_of(&scene->archive);
    const struct deploy_artifact artifact = {scene->archive.size ? &source : NULL,
                                             scene->install_hash};
    uint64_t began_ms = clock_boot_ms();
    scene->err = (struct error){0};
    scene->result = (struct attach_result){0};
    open_sandbox(scene);
    scene->returned = deploy_check(&scene->handle.sandbox, &scene->request,
                                   scene->place->arena, &plan, &scene->err);
    if (scene->returned == 0)
        scene->returned = deploy_run(&scene->handle.sandbox, &plan, &artifact,
                                     scene->place->arena, &scene->result, &scene->err);
    scene->calls = (int)scene->handle.sandbox.exec_count;
    scene->took_ms = clock_boot_ms() - began_ms;
}

int deploy_scene_setup(void **state)
{
    loop_free(loop_new()); /* libuv opens a pipe for good with the first loop */
    return adopt_orphans(state);
}

void deploy_scene_task(void (*fn)(void *arg), void *arg)
{
    int before = support_open_descriptors();
    struct loop *loop = loop_new();
    assert_non_null(loop);
    assert_int_equal(task_start(loop, "test", fn, arg), 0);
    loop_run(loop);
    loop_free(loop);
    assert_int_equal(support_open_descriptors(), before);
}

void deploy_scene_run(struct deploy_scene *scene)
{
    deploy_scene_task(deploy_scene_play, scene);
}

struct looking {
    struct deploy_scene *scene;
    const char *execution_id;
    struct attach_result *ret_result;
    struct status *ret_status;
};

static void play_look(void *arg)
{
    const struct looking *this = arg;
    struct deploy_scene *scene = this->scene;
    const struct output_request all = {true, 0, OUTPUT_DEFAULT_MAX_BYTES};
    const struct attach_request request = {.execution_id = this->execution_id,
                                           .remote_dir = scene->request.remote_dir,
                                           .stdout_request = all,
                                           .stderr_request = all};
    open_sandbox(scene);
    scene->returned = attach_look(&scene->handle.sandbox, &request, scene->place->arena,
                                  this->ret_result, &scene->err);
    scene->calls = (int)scene->handle.sandbox.exec_count;
}

static void play_cancel(void *arg)
{
    const struct looking *this = arg;
    struct deploy_scene *scene = this->scene;
    const struct cancel_request request = {.execution_id = this->execution_id,
                                           .remote_dir = scene->request.remote_dir,
                                           .grace_ms = GRACE_MS};
    open_sandbox(scene);
    scene->returned = cancel_execution(&scene->handle.sandbox, &request,
                                       scene->place->arena, this->ret_status, &scene->err);
    scene->calls = (int)scene->handle.sandbox.exec_count;
}

static void expect_done(const struct deploy_scene *scene)
{
    if (scene->returned != 0)
        fail_msg("%s: %s", scene->place->shell->name, scene->err.message);
}

void deploy_scene_look(struct deploy_scene *scene, const char *execution_id,
                       struct attach_result *ret_result)
{
    struct looking this = {scene, execution_id, ret_result, NULL};
    deploy_scene_task(play_look, &this);
    expect_done(scene);
}

void deploy_scene_cancel(struct deploy_scene *scene, const char *execution_id,
                         struct status *ret_status)
{
    struct looking this = {scene, execution_id, NULL, ret_status};
    deploy_scene_task(play_cancel, &this);
    expect_done(scene);
}

/* The heartbeats of locks leave a sleep of a second behind, which nobody needs to wait for.
 */
void deploy_scene_end(struct deploy_scene *scene)
{
    while (count_processes(scene->place->root) > 0)
        (void)usleep(10 * 1000);
    (void)end_children(NULL);
}

/* ---- what must be so ---- */

void expect_running_at(int line, struct deploy_scene *scene)
{
    const char *shell = scene->place->shell->name;
    if (scene->returned != 0)
        fail_msg("line %d, %s: %s (%s)", line, shell, scene->err.message,
                 scene->err.detail ? scene->err.detail : "no detail");
    if (scene->result.status.state != STATUS_RUNNING)
        fail_msg("line %d, %s: %s", line, shell,
                 status_state_name(scene->result.status.state));
}

void expect_refused_at(int line, struct deploy_scene *scene, enum error_code code,
                       const char *text)
{
    const char *shell = scene->place->shell->name;
    const char *detail = scene->err.detail ? scene->err.detail : "";
    if (scene->returned == 0)
        fail_msg("line %d, %s: not refused", line, shell);
    if (scene->err.code != code ||
        (!strstr(scene->err.message, text) && !strstr(detail, text)))
        fail_msg("line %d, %s: %s: %s (%s)", line, shell, error_code_name(scene->err.code),
                 scene->err.message, detail);
}

static char unclean[512];

/* The marks of a finished installation and an execution's own files may stay. */
static bool is_leftover(const char *name, const struct stat *info)
{
    static const char *const endings[] = {".attachd", "-lock", ".lock",
                                          ".probe",   ".new",  ".tmp"};
    size_t length = strlen(name);
    if (strcmp(name, ".mastra-install-hash.attachd") == 0)
        return false;
    if (strncmp(name, "bundle.", 7) == 0 || strncmp(name, ".attachd-", 9) == 0)
        return true;
    if (strcmp(name, "status") == 0 && info->st_size == 0)
        return true;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t bytes = strlen(endings[i]);
        if (length >= bytes && strcmp(name + length - bytes, endings[i]) == 0)
            return true;
    }
    return false;
}

static bool ends_a_line(const char *path)
{
    char text[1024];
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    size_t got = fread(text, 1, sizeof(text), file);
    (void)fclose(file);
    return got > 0 && text[got - 1] == '\n' && memchr(text, '\n', got) == text + got - 1;
}

static int judge_entry(const char *path, const struct stat *info, int flag,
                       struct FTW *walk)
{
    const char *name = path + walk->base;
    (void)flag;
    if (is_leftover(name, info) || (strcmp(name, "status") == 0 && !ends_a_line(path)))
        (void)snprintf(unclean + strlen(unclean), sizeof(unclean) - strlen(unclean), " %s",
                       path);
    return 0;
}

void expect_clean_at(int line, struct deploy_scene *scene)
{
    unclean[0] = '\0';
    if (access(scene->place->remote_dir, F_OK) == 0)
        assert_int_equal(nftw(scene->place->remote_dir, judge_entry, 16, FTW_PHYS), 0);
    if (unclean[0])
        fail_msg("line %d, %s: left behind:%s", line, scene->place->shell->name, unclean);
}
