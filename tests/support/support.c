/* Shared by the unit tests. */
#include "support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

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

static int count_children_of(const char *thread)
{
    char path[300];
    int count = 0;
    int pid = 0;
    (void)snprintf(path, sizeof(path), "/proc/self/task/%s/children", thread);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &pid) == 1)
        count++;
    if (file)
        (void)fclose(file);
    return count;
}

/* Running ones and those that nobody has reaped; the kernel lists them by the thread that
 * started them. */
static int count_children(void)
{
    DIR *threads = opendir("/proc/self/task");
    int count = 0;
    assert_non_null(threads);
    for (struct dirent *thread = readdir(threads); thread; thread = readdir(threads))
        count += count_children_of(thread->d_name);
    (void)closedir(threads);
    return count;
}

void support_run_task(void (*fn)(void *arg), void *arg)
{
    loop_free(loop_new()); /* libuv opens a pipe for good with the first loop */
    int children = count_children();
    int before = support_open_descriptors();
    struct loop *loop = loop_new();
    assert_non_null(loop);
    assert_int_equal(task_start(loop, "test", fn, arg), 0);
    loop_run(loop);
    loop_free(loop);
    /* A server that the test itself keeps runs on; nothing else may. */
    assert_int_equal(count_children(), children);
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
