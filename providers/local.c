/* local: directories on the worker's own host.
 *
 * The sandbox NAME is the directory <root>/NAME; root is the profile's setting. The name
 * is one path component, so a job cannot lead out of root, and the directory is opened
 * without following a symbolic link. Nothing confines the commands: isolation is the
 * operator's matter (a user of its own, a container around the worker). What jobs name as
 * paths is kept inside the sandbox's directory all the same.
 *
 * Commands get PATH, the profile's variables, the request's, and ATTACHD_SANDBOX (the
 * directory's path, by which their processes are found), and nothing else. HOME is
 * missing on purpose: the scripts fall back to the working directory then, and that is
 * where executions of Mastra's local sandbox are.
 *
 * The look-ups here (open, fstat) run on the loop: root is meant to be a local disk. Only
 * write_file, which copies, goes to the thread pool. */
#include "providers/local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "providers/profile.h"
#include "runtime/name.h"
#include "runtime/process.h"
#include "runtime/random.h"

enum {
    GRACE_MS = 2000,
    /* The kernel takes 128 KiB with the NUL as one argument (MAX_ARG_STRLEN). */
    MAX_SCRIPT_BYTES = 128 * 1024 - 1024,
    MAX_FILE_BYTES = 1024 * 1024 * 1024,
    WRITE_BUFFER_BYTES = 256 * 1024
};

/* "NAME=value" texts, each name once. The entries have room for all that is put. */
struct environment {
    const char **entries; /* always NULL-ended */
    size_t count;
};

void local_close_fd(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

/* ---- opening ---- */

/* Adds "NAME=value"; the variable's earlier value, if any, is replaced. */
static void put_variable(struct environment *environment, const char *entry)
{
    size_t name_bytes = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < environment->count; i++) {
        if (strncmp(environment->entries[i], entry, name_bytes) == 0) {
            environment->entries[i] = entry;
            return;
        }
    }
    environment->entries[environment->count++] = entry;
    environment->entries[environment->count] = NULL;
}

/* The name in a setting "env.NAME"; NULL for any other setting. */
static const char *variable_name(const struct profile_setting *setting)
{
    return strncmp(setting->name, "env.", 4) == 0 ? setting->name + 4 : NULL;
}

static const char *const *base_environment(const struct profile *profile, const char *mark,
                                           struct arena *arena)
{
    const char *path = getenv("PATH");
    struct environment environment = {
        arena_calloc(arena, profile->setting_count + 3, sizeof(char *)), 0};
    if (!environment.entries)
        return NULL;
    put_variable(&environment, mark);
    if (path) {
        const char *entry = arena_printf(arena, "PATH=%s", path);
        if (!entry)
            return NULL;
        put_variable(&environment, entry);
    }
    for (size_t i = 0; i < profile->setting_count; i++) {
        const struct profile_setting *setting = &profile->settings[i];
        const char *name = variable_name(setting);
        if (!name)
            continue;
        const char *entry = arena_printf(arena, "%s=%s", name, setting->value);
        if (!entry)
            return NULL;
        put_variable(&environment, entry);
    }
    put_variable(&environment, mark); /* again, and last: nobody hides from a stop */
    return environment.entries;
}

static int check_settings(const struct profile *profile, struct error *err)
{
    const char *root = profile_setting(profile, "root");
    if (!root || root[0] != '/')
        return error_set(err, ERROR_CONFIGURATION,
                         "profile %s: provider local needs the setting root, the absolute "
                         "path of the directory that holds its sandboxes",
                         profile->name);
    for (size_t i = 0; i < profile->setting_count; i++) {
        const char *name = variable_name(&profile->settings[i]);
        if (name && (!*name || strchr(name, '=')))
            return error_set(err, ERROR_CONFIGURATION,
                             "profile %s: the setting %s names no variable", profile->name,
                             profile->settings[i].name);
    }
    return 0;
}

static int local_open(const struct descriptor *descriptor, const struct profile *profile,
                      struct arena *arena, struct sandbox **ret_sandbox, struct error *err)
{
    if (check_settings(profile, err) != 0)
        return -1;
    if (!descriptor->sandbox_id ||
        !name_is_valid(descriptor->sandbox_id, strlen(descriptor->sandbox_id), "._-"))
        return error_set_field(err, "sandbox.id",
                               "the id of a local sandbox is a letter or digit followed by "
                               "at most 127 letters, digits, '.', '_' or '-'");
    struct local *local = arena_calloc(arena, 1, sizeof(*local));
    if (!local)
        return error_set_memory(err, "a sandbox handle");
    local->root = profile_setting(profile, "root");
    local->id = arena_text(arena, descriptor->sandbox_id);
    local->mark =
        arena_printf(arena, "ATTACHD_SANDBOX=%s/%s", local->root, descriptor->sandbox_id);
    local->env = local->mark ? base_environment(profile, local->mark, arena) : NULL;
    if (!local->id || !local->env)
        return error_set_memory(err, "a sandbox handle");
    *ret_sandbox = &local->sandbox;
    return 0;
}

/* Descriptors are opened by each call and closed in it: between two calls the directory
 * may be replaced, and the truth of now is wanted. */
static void local_close(struct sandbox *sandbox)
{
    (void)sandbox;
}

/* ---- paths ---- */

int local_open_directory(const struct local *local, struct error *err)
{
    const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    fd_scoped int root_fd = open(local->root, flags);
    if (root_fd < 0)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "the root of the local sandboxes cannot be opened: %s",
                         strerror(errno));
    int fd = openat(root_fd, local->id, flags | O_NOFOLLOW);
    if (fd >= 0)
        return fd;
    switch (errno) {
    case ENOENT:
        return error_set(err, ERROR_SANDBOX_NOT_FOUND,
                         "there is no local sandbox \"%s\" on this worker's host",
                         local->id);
    case ENOTDIR:
    case ELOOP:
        return error_set_field(err, "sandbox.id",
                               "\"%s\" is no directory (symbolic links are not followed)",
                               local->id);
    case EACCES:
        return error_set(err, ERROR_UNAUTHORIZED,
                         "the worker may not enter the directory of \"%s\"", local->id);
    default:
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "the directory of \"%s\" cannot be opened: %s", local->id,
                         strerror(errno));
    }
}

/* The path after the components of prefix, without leading slashes ("" where they are the
 * same); NULL where it does not begin with them. Both are absolute. */
static const char *after_prefix(const char *path, const char *prefix)
{
    for (;;) {
        path += strspn(path, "/");
        prefix += strspn(prefix, "/");
        size_t bytes = strcspn(prefix, "/");
        if (bytes == 0)
            return path;
        if (strcspn(path, "/") != bytes || strncmp(path, prefix, bytes) != 0)
            return NULL;
        path += bytes;
        prefix += bytes;
    }
}

/* The path relative to the sandbox's directory, "." for the directory itself; NULL where
 * it lies elsewhere by its text. A relative path is taken from the directory. */
static const char *inner_path(const struct local *local, const char *path)
{
    const char *inner = path;
    if (path[0] == '/') {
        inner = after_prefix(path, local->root);
        if (!inner) {
            char *real_root = realpath(local->root, NULL);
            inner = real_root ? after_prefix(path, real_root) : NULL;
            free(real_root);
        }
        inner = inner ? after_prefix(inner, local->id) : NULL;
    }
    return inner && !*inner ? "." : inner;
}

/* openat2, which glibc does not wrap. -1 with errno set: EXDEV where the path leads out of
 * the directory, over whatever symbolic links. */
static int open_beneath(int directory_fd, const char *path, int flags)
{
    struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int fd = -1;
    /* EAGAIN: a rename somewhere on the host came in between. */
    for (int i = 0; i < 16 && fd < 0 && (i == 0 || errno == EAGAIN); i++)
        fd = (int)syscall(SYS_openat2, directory_fd, path, &how, sizeof(how));
    return fd;
}

static int refuse_path(int why, const char *field, const char *path, struct error *err)
{
    switch (why) {
    case EXDEV:
        return error_set_field(err, field,
                               "\"%.128s\" leads out of the sandbox's directory by a "
                               "symbolic link (an absolute one always counts as such)",
                               path);
    case ENOSYS:
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "provider local needs openat2, Linux 5.6 or later");
    default:
        return error_set_field(err, field, "\"%.128s\" in the sandbox's directory: %s",
                               path, strerror(why));
    }
}

/* The path relative to the sandbox's directory, once its text is found to lie beneath. */
static const char *check_text(const struct local *local, const char *field,
                              const char *path, struct error *err)
{
    const char *inner = inner_path(local, path);
    if (!inner) {
        (void)error_set_field(err, field,
                              "\"%.128s\" lies outside the sandbox's own directory, a "
                              "directory named after its id",
                              path);
        return NULL;
    }
    /* ".." behind a component that does not exist yet would be followed later. */
    if (name_has_parent_segment(path)) {
        (void)error_set_field(err, field, "\"%.128s\" has a component \"..\"", path);
        return NULL;
    }
    return inner;
}

static int local_check_directory(struct sandbox *sandbox, const char *path,
                                 struct error *err)
{
    const struct local *local = (const struct local *)sandbox;
    const char *inner = check_text(local, "remote_dir", path, err);
    if (!inner)
        return -1;
    fd_scoped int directory_fd = local_open_directory(local, err);
    if (directory_fd < 0)
        return -1;
    fd_scoped int fd = open_beneath(directory_fd, inner, O_PATH | O_DIRECTORY);
    /* What does not exist yet leads nowhere; what did resolve was beneath. */
    if (fd >= 0 || errno == ENOENT)
        return 0;
    return refuse_path(errno, "remote_dir", path, err);
}

/* ---- probe and exec ---- */

static int local_probe(struct sandbox *sandbox, struct arena *arena,
                       struct sandbox_info *ret_info, struct error *err)
{
    (void)arena;
    const struct local *local = (const struct local *)sandbox;
    fd_scoped int fd = local_open_directory(local, err);
    if (fd < 0)
        return -1;
    *ret_info = (struct sandbox_info){.state = local_is_stopped(fd) ? SANDBOX_STOPPED
                                                                    : SANDBOX_RUNNING,
                                      .expires_at_ms = -1,
                                      .provider_id = local->id};
    return 0;
}

static const char *const *command_environment(const struct local *local,
                                              const char *const *own, struct arena *arena)
{
    size_t count = 0;
    if (!own)
        return local->env;
    for (const char *const *entry = local->env; *entry; entry++)
        count++;
    for (const char *const *entry = own; *entry; entry++)
        count++;
    struct environment environment = {arena_calloc(arena, count + 1, sizeof(char *)), 0};
    if (!environment.entries)
        return NULL;
    for (const char *const *entry = local->env; *entry; entry++)
        put_variable(&environment, *entry);
    for (const char *const *entry = own; *entry; entry++)
        put_variable(&environment, *entry);
    put_variable(&environment, local->mark);
    return environment.entries;
}

/* The directory of a sandbox that was not stopped, or -1. */
static int open_running(const struct local *local, struct error *err)
{
    int fd = local_open_directory(local, err);
    if (fd < 0 || !local_is_stopped(fd))
        return fd;
    (void)close(fd);
    return error_set(err, ERROR_SANDBOX_STOPPED, "sandbox %.100s is stopped", local->id);
}

/* Where the command starts: the sandbox's directory or one beneath it. */
static int open_cwd(const struct local *local, int directory_fd, const char *cwd,
                    struct error *err)
{
    const char *inner = cwd ? check_text(local, "cwd", cwd, err) : ".";
    if (!inner)
        return -1;
    int fd = cwd ? open_beneath(directory_fd, inner, O_PATH | O_DIRECTORY)
                 : openat(directory_fd, inner, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        (void)refuse_path(errno, "cwd", cwd ? cwd : inner, err);
    return fd;
}

/* A command that is being started, and the directory that it was found fit to run in. */
struct start {
    const struct local *local;
    int directory_fd;
    bool refused;
};

/* In the thread pool, once the command runs. A stop or a destroy that came in between, on
 * whatever worker, may have looked for processes before there was this one; one that comes
 * later finds it. */
static bool is_still_fit(void *arg)
{
    struct start *start = arg;
    struct stat before;
    struct stat now;
    fd_scoped int fd = local_open_directory(start->local, NULL);
    start->refused = fd < 0 || local_is_stopped(fd) ||
                     fstat(start->directory_fd, &before) != 0 || fstat(fd, &now) != 0 ||
                     before.st_dev != now.st_dev || before.st_ino != now.st_ino;
    return !start->refused;
}

static int refuse_start(const struct local *local, struct error *err)
{
    fd_scoped int fd = open_running(local, err);
    if (fd < 0)
        return -1;
    return error_set(err, ERROR_SANDBOX_STOPPED,
                     "sandbox %.100s was stopped while a command was started", local->id);
}

static struct exec_output as_exec_output(const struct process_output *output)
{
    return (struct exec_output){
        .data = output->data, .size = output->size, .dropped_bytes = output->dropped_bytes};
}

static enum exec_end as_exec_end(enum process_end end)
{
    switch (end) {
    case PROCESS_SIGNALED:
        return EXEC_SIGNALED;
    case PROCESS_TIMED_OUT:
        return EXEC_TIMED_OUT;
    case PROCESS_EXITED:
        break;
    }
    return EXEC_EXITED;
}

SUSPENDS static int local_exec(struct sandbox *sandbox, const struct exec_request *request,
                               struct arena *arena, struct exec_result *ret_result,
                               struct error *err)
{
    const struct local *local = (const struct local *)sandbox;
    const char *const *env = command_environment(local, request->env, arena);
    if (!env)
        return error_set_memory(err, "a command's environment");
    fd_scoped int directory_fd = open_running(local, err);
    if (directory_fd < 0)
        return -1;
    fd_scoped int cwd_fd = open_cwd(local, directory_fd, request->cwd, err);
    if (cwd_fd < 0)
        return -1;
    struct start start = {local, directory_fd, false};
    const char *const argv[] = {"/bin/sh", "-c", request->script, NULL};
    const struct process_request process_request = {.argv = argv,
                                                    .env = env,
                                                    .cwd_fd = cwd_fd,
                                                    .is_wanted = is_still_fit,
                                                    .is_wanted_arg = &start,
                                                    .timeout_ms = request->timeout_ms,
                                                    .grace_ms = GRACE_MS,
                                                    .output_limit_bytes =
                                                        request->output_limit_bytes};
    struct process_result result;
    if (process_run(&process_request, arena, &result, err) != 0)
        return -1;
    if (start.refused)
        return refuse_start(local, err);
    *ret_result = (struct exec_result){.end = as_exec_end(result.end),
                                       .exit_code = result.exit_code,
                                       .signal = result.signal,
                                       .out = as_exec_output(&result.out),
                                       .err = as_exec_output(&result.err)};
    return 0;
}

/* ---- writing a file ---- */

struct file_write {
    int directory_fd;
    const char *folder; /* relative to it */
    const char *name;
    unsigned mode;
    const struct file_source *source;
    int failure;       /* errno */
    bool source_fails; /* the failure is the source's */
};

static int write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno;
        data += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* Piece by piece, so that no file stands in memory. 0 or errno. */
static int copy_source(struct file_write *write, int fd)
{
    const struct file_source *source = write->source;
    char *buffer = malloc(WRITE_BUFFER_BYTES);
    int failed = buffer ? 0 : ENOMEM;
    for (uint64_t offset = 0; !failed && offset < source->bytes;) {
        uint64_t left = source->bytes - offset;
        size_t bytes = left < WRITE_BUFFER_BYTES ? (size_t)left : WRITE_BUFFER_BYTES;
        failed = -source->read(source->arg, offset, buffer, bytes);
        write->source_fails = failed != 0;
        if (!failed)
            failed = write_all(fd, buffer, bytes);
        offset += bytes;
    }
    free(buffer);
    return failed;
}

/* Fills the new file and puts it in its place. 0 or errno. What is written here is made
 * again by the next try when the machine goes down, so nothing waits for the disk. */
static int fill_and_rename(struct file_write *write, int folder_fd, int fd,
                           const char *temporary)
{
    int failed = copy_source(write, fd);
    if (failed)
        return failed;
    /* The mode last: the file is nobody else's before it is whole. */
    if (fchmod(fd, write->mode & 07777) != 0 ||
        renameat(folder_fd, temporary, folder_fd, write->name) != 0)
        return errno;
    return 0;
}

/* In the thread pool. A reader sees the old file or the new one, whole. */
static void write_file(void *arg)
{
    struct file_write *write = arg;
    char temporary[64];
    uint64_t number = 0;
    fd_scoped int folder_fd =
        open_beneath(write->directory_fd, write->folder, O_PATH | O_DIRECTORY);
    if (folder_fd < 0) {
        write->failure = errno;
        return;
    }
    random_bytes(&number, sizeof(number));
    (void)snprintf(temporary, sizeof(temporary), ".attachd-%016llx",
                   (unsigned long long)number);
    fd_scoped int fd = openat(folder_fd, temporary,
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        write->failure = errno;
        return;
    }
    write->failure = fill_and_rename(write, folder_fd, fd, temporary);
    if (write->failure)
        (void)unlinkat(folder_fd, temporary, 0);
}

static int refuse_write(const struct file_write *write, const char *path, struct error *err)
{
    int why = write->failure;
    if (write->source_fails)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "what is to be written to \"%.128s\" cannot be read: %s", path,
                         strerror(why));
    switch (why) {
    case ENOSPC:
    case EDQUOT:
    case EIO:
    case EROFS:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE,
                         "\"%.128s\" cannot be written: %s", path, strerror(why));
    default:
        return refuse_path(why, "path", path, err);
    }
}

SUSPENDS static int local_write_file(struct sandbox *sandbox, const char *path,
                                     unsigned mode, const struct file_source *source,
                                     struct error *err)
{
    const struct local *local = (const struct local *)sandbox;
    const char *inner = check_text(local, "path", path, err);
    if (!inner)
        return -1;
    const char *slash = strrchr(inner, '/');
    const char *name = slash ? slash + 1 : inner;
    size_t folder_bytes = slash ? (size_t)(slash - inner) : 1;
    char folder[1024];
    if (!*name || strcmp(name, ".") == 0 || folder_bytes >= sizeof(folder))
        return error_set_field(err, "path", "\"%.128s\" names no file", path);
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)folder_bytes, slash ? inner : ".");
    fd_scoped int directory_fd = open_running(local, err);
    if (directory_fd < 0)
        return -1;
    struct file_write write = {.directory_fd = directory_fd,
                               .folder = folder,
                               .name = name,
                               .mode = mode,
                               .source = source};
    if (task_work("write file", write_file, &write) != 0)
        return error_set_memory(err, "a file to write");
    return write.failure ? refuse_write(&write, path, err) : 0;
}

static const char *const local_settings[] = {"root", "env.", NULL};

extern const struct provider provider_local;
const struct provider provider_local = {
    .name = "local",
    .summary = "directories below a configured root on the worker's own host",
    .traits = TRAIT_BINARY_SAFE | TRAIT_NATIVE_CWD | TRAIT_NATIVE_ENV |
              TRAIT_SERVER_TIMEOUT | TRAIT_BACKGROUND | TRAIT_RUNS_ON_HOST,
    .limits = {.max_script_bytes = MAX_SCRIPT_BYTES, .max_file_bytes = MAX_FILE_BYTES},
    .settings = local_settings,
    .check_profile = check_settings,
    .open = local_open,
    .close = local_close,
    .probe = local_probe,
    .exec = local_exec,
    .write_file = local_write_file,
    .wake = local_wake,
    .stop = local_stop,
    .destroy = local_destroy,
    .check_directory = local_check_directory,
};
