/* What unit tests share: running a function inside a task, and proving afterwards that the
 * loop is empty, no child is left and no descriptor leaked.
 *
 * cmocka assertions jump, so they never stand inside a task: the function given to
 * support_run_task stores what it saw, the test asserts afterwards. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

struct loop;

/* Runs fn(arg) in a task of a new loop until every task has ended, then checks that nothing
 * was left behind (loop handles, children, descriptors); fails the test otherwise. */
void support_run_task(void (*fn)(void *arg), void *arg);

/* The number of open descriptors of this process. */
int support_open_descriptors(void);

/* The whole file below the source folder, NUL-terminated, to be freed by free(); fails the
 * test where it cannot be read. ret_size may be NULL. */
char *support_read_source_file(const char *relative_path, size_t *ret_size);
