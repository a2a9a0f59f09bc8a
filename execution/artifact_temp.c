/* O_TMPFILE where the file system has it, else a name that is removed at once. */
#include "execution/artifact_temp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_and_unlink(const char *directory)
{
    char path[1024];
    int length = snprintf(path, sizeof(path), "%s/attachd-XXXXXX", directory);
    if (length < 0 || (size_t)length >= sizeof(path))
        return -ENAMETOOLONG;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    (void)unlink(path);
    return fd;
}

int artifact_temp_open(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
        return open_and_unlink(directory);
    return -errno;
}

int artifact_temp_write(int fd, uint64_t offset, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        ssize_t written = pwrite(fd, from, bytes, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        from += written;
        offset += (uint64_t)written;
        bytes -= (size_t)written;
    }
    return 0;
}

int artifact_temp_read(int fd, uint64_t offset, void *buffer, size_t bytes)
{
    char *to = buffer;
    while (bytes > 0) {
        ssize_t got = pread(fd, to, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EIO;
        to += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return 0;
}

int artifact_temp_fail(struct error *err, int failed)
{
    char what[128];
    if (failed == -ENOMEM)
        return error_set_memory(err, "the artifact");
    (void)error_set(err, ERROR_DEPLOY_FAILED,
                    "Worker upload failed: the artifact cannot be kept in the worker's "
                    "temporary directory: %s",
                    strerror_r(-failed, what, sizeof(what)));
    if (err) {
        err->retryable = true;
        (void)snprintf(err->phase, sizeof(err->phase), "upload");
    }
    return -1;
}
