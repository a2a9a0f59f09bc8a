/* A watch is a task that sleeps, looks, and tells; whatever goes wrong with a look is no
 * news. */
#include "execution/watch.h"

#include <stdio.h>
#include <string.h>

#include "execution/remote.h"
#include "runtime/arena.h"
#include "runtime/deadline.h"

extern const char remote_peek_sh[];

enum {
    LOOK_EVERY_MS = 1000,
    LOOK_TIMEOUT_MS = 10000,
    OUTPUT_LIMIT_BYTES = 4096,
    ARENA_BYTES = 256 * 1024,
};

/* The line between the marks, terminated in place; NULL: there is none. */
static char *find_line(char *answer, const char *nonce)
{
    char mark[REMOTE_NONCE_LENGTH + 16];
    (void)snprintf(mark, sizeof(mark), "\n%s begin\n", nonce);
    char *line = strstr(answer, mark);
    if (!line)
        return NULL;
    line += strlen(mark);
    (void)snprintf(mark, sizeof(mark), "\n%s end\n", nonce);
    char *end = strstr(line, mark);
    if (!end)
        return NULL;
    *end = '\0';
    end = strchr(line, '\n');
    if (end)
        *end = '\0';
    return *line ? line : NULL;
}

SUSPENDS static void look_once(const struct watch *watch)
{
    arena_scoped struct arena *arena = arena_new(ARENA_BYTES);
    char nonce[REMOTE_NONCE_LENGTH + 1];
    const char *const arguments[] = {nonce, watch->path, NULL};
    struct exec_request request = {.timeout_ms = LOOK_TIMEOUT_MS,
                                   .output_limit_bytes = OUTPUT_LIMIT_BYTES};
    struct exec_result result = {0};
    struct error ignored = {0};
    size_t limit = watch->sandbox->provider->limits.max_script_bytes;
    remote_nonce(nonce);
    if (!arena ||
        remote_compose(remote_peek_sh, arguments, limit, arena, &request.script,
                       &ignored) != 0 ||
        sandbox_exec(watch->sandbox, &request, arena, &result, &ignored) != 0)
        return;
    char *answer = arena_text_n(arena, result.out.data, result.out.size);
    char *line = answer ? find_line(answer, nonce) : NULL;
    if (line && !watch->ending)
        watch->on_line(watch->on_line_arg, line);
}

static void run_watch(void *arg)
{
    struct watch *watch = arg;
    watch->task = task_self();
    while (!watch->ending && task_sleep(LOOK_EVERY_MS) == 0 && !watch->ending)
        look_once(watch);
    watch->task = NULL;
    watch->ended = true;
    event_broadcast(&watch->changed);
}

void watch_begin(struct watch *watch)
{
    watch->ending = false;
    watch->ended = false;
    watch->task = NULL;
    watch->changed = (struct event){0};
    struct loop *loop = task_loop(task_self());
    if (task_start(loop, "watch", run_watch, watch) != 0)
        watch->ended = true;
}

void watch_end(struct watch *watch)
{
    struct deadline shield;
    watch->ending = true;
    if (watch->task)
        task_cancel(watch->task);
    deadline_enter_shielded(&shield, UINT64_MAX);
    while (!watch->ended)
        if (event_wait(&watch->changed, "the end of a watch") != 0)
            break;
    deadline_leave(&shield);
}
