/* Feeds files to a fuzz target without the fuzzer, so that every build replays the seeds
 * and what once crashed. Arguments are files, or folders whose files are all taken; a
 * folder that does not exist holds none. Having fed nothing at all is a failure. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Shown when the target aborts: which file it was. */
static void feed(const char *path, const uint8_t *data, size_t size)
{
    (void)fprintf(stderr, "%s\n", path);
    (void)LLVMFuzzerTestOneInput(data, size);
}

/* The number of files fed, or -1. The block is exactly as large as the file, so that a
 * sanitizer sees the first byte read too far. */
static int replay_file(const char *path, size_t size)
{
    int fed = -1;
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    if (file && data && fread(data, 1, size, file) == size) {
        feed(path, data, size);
        fed = 1;
    } else {
        (void)fprintf(stderr, "%s: cannot be read\n", path);
    }
    free(data);
    if (file)
        (void)fclose(file);
    return fed;
}

static int replay_entry(const char *folder, const char *name)
{
    char *path = NULL;
    struct stat info;
    if (name[0] == '.')
        return 0;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return -1;
    int fed = -1;
    if (stat(path, &info) == 0)
        fed = S_ISREG(info.st_mode) ? replay_file(path, (size_t)info.st_size) : 0;
    free(path);
    return fed;
}

static int replay_folder(const char *folder)
{
    int fed = 0;
    DIR *directory = opendir(folder);
    if (!directory)
        return -1;
    for (struct dirent *entry; (entry = readdir(directory));) {
        int more = replay_entry(folder, entry->d_name);
        if (more < 0) {
            fed = -1;
            break;
        }
        fed += more;
    }
    (void)closedir(directory);
    return fed;
}

static int replay(const char *path)
{
    struct stat info;
    if (stat(path, &info))
        return errno == ENOENT ? 0 : -1;
    if (S_ISDIR(info.st_mode))
        return replay_folder(path);
    return replay_file(path, (size_t)info.st_size);
}

int main(int argc, char **argv)
{
    int fed = 0;
    for (int i = 1; i < argc; i++) {
        int more = replay(argv[i]);
        if (more < 0)
            return EXIT_FAILURE;
        fed += more;
    }
    (void)fprintf(stderr, "%d files\n", fed);
    return fed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
