/* Stands in for a program that an attach runs, and holds the job in mid-flight: blocks
 * until the FIFO named by its own path with ".gate" appended is opened for writing and
 * closed. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char path[4096];
    char self[2048];
    char byte;
    (void)argc;
    (void)argv;
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length < 0)
        return 1;
    self[length] = '\0';
    (void)snprintf(path, sizeof(path), "%s.gate", self);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 1;
    while (read(fd, &byte, 1) > 0)
        continue;
    (void)printf("0\n");
    return 0;
}
