/* Shared by the unit tests. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "runtime/loop.h"
#include "runtime/task.h"

int support_open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    if (!directory)
        return -1;
    while (readdir(directory))
        count++;
    (void)closedir(directory);
    return count;
}

void support_run_task(void (*fn)(void *arg), void *arg)
{
    loop_free(loop_new()); /* libuv opens a pipe for good with the first loop */
    int before = support_open_descriptors();
    struct loop *loop = loop_new();
    assert_non_null(loop);
    assert_int_equal(task_start(loop, "test", fn, arg), 0);
    loop_run(loop);
    loop_free(loop);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(support_open_descriptors(), before);
}

char *support_read_source_file(const char *relative_path, size_t *ret_size)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/%s", TEST_SOURCE_DIR, relative_path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    (void)fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    text[size] = '\0';
    (void)fclose(file);
    if (ret_size)
        *ret_size = (size_t)size;
    return text;
}
