/* Read to the end, whatever kind of file it is. */
#include "ctl/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int read_all(int fd, const char *name, struct buffer *out, struct error *err)
{
    char chunk[2048];
    ssize_t bytes = 1;
    while (bytes > 0) {
        bytes = read(fd, chunk, sizeof(chunk));
        if (bytes < 0 && errno == EINTR) {
            bytes = 1;
            continue;
        }
        if (bytes < 0)
            return error_set(err, ERROR_CONFIGURATION, "cannot read %.200s: %s", name,
                             strerror(errno));
        int failed = buffer_append(out, chunk, (size_t)bytes);
        if (failed == -EMSGSIZE) {
            (void)error_set(err, ERROR_CONFIGURATION, "%.200s is longer than %zu bytes",
                            name, out->max_bytes);
            return failed;
        }
        if (failed)
            return error_set_memory(err, "a file");
    }
    return 0;
}

int file_read(const char *path, struct buffer *out, struct error *err)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", out, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, ERROR_CONFIGURATION, "cannot open %.200s: %s", path,
                         strerror(errno));
    int failed = read_all(fd, path, out, err);
    (void)close(fd);
    return failed;
}
