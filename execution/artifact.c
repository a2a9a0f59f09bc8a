/* What the three origins share, and the one that is there already. */
#include "execution/artifact.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "execution/artifact_check.h"
#include "execution/artifact_origin.h"
#include "execution/artifact_temp.h"

const char *artifact_temp_dir(const struct artifact_limits *limits)
{
    if (limits->temp_dir && limits->temp_dir[0])
        return limits->temp_dir;
    const char *directory = getenv("TMPDIR");
    return directory && directory[0] ? directory : "/tmp";
}

static int read_data(void *arg, uint64_t offset, void *buffer, size_t bytes)
{
    const struct artifact *artifact = arg;
    if (offset > artifact->source.bytes || bytes > artifact->source.bytes - offset)
        return -EIO;
    memcpy(buffer, artifact->data + offset, bytes);
    return 0;
}

static int read_file(void *arg, uint64_t offset, void *buffer, size_t bytes)
{
    const struct artifact *artifact = arg;
    return artifact_temp_read(artifact->fd, offset, buffer, bytes);
}

static struct artifact *artifact_new(const void *data, int fd, uint64_t bytes,
                                     struct arena *arena)
{
    struct artifact *artifact = arena_calloc(arena, 1, sizeof(*artifact));
    if (!artifact)
        return NULL;
    artifact->data = data;
    artifact->fd = fd;
    artifact->source = (struct file_source){
        .bytes = bytes, .read = data ? read_data : read_file, .arg = artifact};
    return artifact;
}

void artifact_done(struct artifact *artifact)
{
    if (artifact && artifact->fd >= 0) {
        (void)close(artifact->fd);
        artifact->fd = -1;
    }
}

int artifact_upload_failed(struct error *err)
{
    if (!err)
        return -1;
    err->code = ERROR_DEPLOY_FAILED;
    static const char upload[] = "upload";
    memcpy(err->phase, upload, sizeof(upload));
    return error_wrap(err, "Worker upload failed");
}

/* ---- work in slices ---- */

struct slice {
    int (*step)(void *arg, struct error *err);
    void *arg;
    struct error *err;
    int result;
};

static void run_slice(void *arg)
{
    struct slice *slice = arg;
    slice->result = slice->step(slice->arg, slice->err);
}

int artifact_work(const char *what, int (*step)(void *arg, struct error *err), void *arg,
                  struct error *err)
{
    struct slice slice = {.step = step, .arg = arg, .err = err, .result = 1};
    while (slice.result > 0) {
        int interrupted = task_sleep(0); /* the only place where a cancel is seen */
        if (interrupted)
            return error_set_wait(err, interrupted, what);
        if (task_work(what, run_slice, &slice) != 0)
            return error_set_memory(err, what);
    }
    return slice.result;
}

/* ---- the check ---- */

struct check_work {
    struct artifact_check *check; /* made by the first step: libcrypto is no guest for the
                                     small stack of a task */
    struct artifact_check_options options;
    const char *install_command;
    struct artifact *artifact;
};

static int check_step(void *arg, struct error *err)
{
    struct check_work *work = arg;
    if (!work->check)
        work->check = artifact_check_new(&work->artifact->source, &work->options);
    if (!work->check)
        return error_set_memory(err, "the artifact's check");
    int more = artifact_check_step(work->check, err);
    if (more != 0)
        return more;
    work->artifact->unpacked_bytes = artifact_check_unpacked_bytes(work->check);
    return artifact_check_install_hash(work->check, work->install_command,
                                       work->artifact->install_hash, err);
}

static int check(struct artifact *artifact, const struct artifact_limits *limits,
                 const char *install_command, struct error *err)
{
    struct check_work work = {
        .options = {.unpacked_max_bytes = limits->unpacked_max_bytes,
                    .max_entries = ARTIFACT_MAX_ENTRIES,
                    .temp_dir = artifact_temp_dir(limits)},
        .install_command = install_command,
        .artifact = artifact,
    };
    int failed = artifact_work("check artifact", check_step, &work, err);
    artifact_check_free(work.check);
    return failed;
}

int artifact_from_data(const void *data, size_t bytes, const struct artifact_limits *limits,
                       const char *install_command, struct arena *arena,
                       struct artifact **ret_artifact, struct error *err)
{
    if (bytes > limits->max_bytes)
        return error_set_field(
            err, "artifact", "the artifact is larger than %llu bytes (artifact_max_bytes)",
            (unsigned long long)limits->max_bytes);
    struct artifact *artifact = artifact_new(data ? data : "", -1, bytes, arena);
    if (!artifact)
        return error_set_memory(err, "the artifact");
    if (check(artifact, limits, install_command, err) != 0)
        return -1;
    *ret_artifact = artifact;
    return 0;
}

int artifact_take_file(int fd, uint64_t bytes, const struct artifact_limits *limits,
                       const char *install_command, struct arena *arena,
                       struct artifact **ret_artifact, struct error *err)
{
    struct artifact *artifact = artifact_new(NULL, fd, bytes, arena);
    if (!artifact) {
        (void)close(fd);
        return error_set_memory(err, "the artifact");
    }
    if (check(artifact, limits, install_command, err) != 0) {
        artifact_done(artifact);
        return -1;
    }
    *ret_artifact = artifact;
    return 0;
}
