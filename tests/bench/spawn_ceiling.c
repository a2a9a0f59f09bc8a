/* The ceiling of an attach on local: a bare loop of posix_spawn of the same script, with
 * the same pipes, environment and working directory, and nothing around it.
 *
 *   spawn_ceiling SCRIPT_FILE DIRECTORY COUNT AT_ONCE
 *
 * Runs the script COUNT times, in AT_ONCE processes that each loop, and prints runs per
 * second. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SCRIPT_MOST = 128 * 1024 };

static void read_all(int fd)
{
    char bytes[16 * 1024];
    while (read(fd, bytes, sizeof(bytes)) > 0)
        continue;
    (void)close(fd);
}

static int run_once(char *script, char *path)
{
    static char shell[] = "sh";
    static char option[] = "-c";
    char *argv[] = {shell, option, script, NULL};
    char *env[] = {path, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int out[2];
    int err[2];
    pid_t pid = 0;
    int status = -1;
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        return -1;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    (void)posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    int failed = posix_spawn(&pid, "/bin/sh", &actions, &attributes, argv, env);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(out[1]);
    (void)close(err[1]);
    read_all(out[0]);
    read_all(err[0]);
    if (failed)
        return -1;
    (void)waitpid(pid, &status, 0);
    return status;
}

static void loop(char *script, char *path, long count)
{
    for (long i = 0; i < count; i++) {
        if (run_once(script, path) != 0) {
            (void)fprintf(stderr, "spawn_ceiling: the script failed\n");
            _exit(1);
        }
    }
    _exit(0);
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static char *read_script(const char *path)
{
    static char script[SCRIPT_MOST];
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    size_t bytes = fread(script, 1, sizeof(script) - 1, file);
    (void)fclose(file);
    return bytes > 0 ? script : NULL;
}

int main(int argc, char **argv)
{
    static char path[4096];
    int failed = 0;
    int status = 0;
    if (argc != 5)
        return 2;
    char *script = read_script(argv[1]);
    long count = strtol(argv[3], NULL, 10);
    long at_once = strtol(argv[4], NULL, 10);
    if (!script || chdir(argv[2]) != 0 || count < at_once || at_once < 1)
        return 2;
    (void)snprintf(path, sizeof(path), "PATH=%s", getenv("PATH"));
    double began = now();
    for (long i = 0; i < at_once; i++) {
        if (fork() == 0)
            loop(script, path, count / at_once);
    }
    while (wait(&status) > 0)
        failed |= status;
    (void)printf("%.1f\n", (double)(count / at_once * at_once) / (now() - began));
    return failed ? 1 : 0;
}
