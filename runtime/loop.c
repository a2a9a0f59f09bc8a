/* Turns of the loop: tasks run before the poll (what timers and callbacks woke) and after
 * it (what descriptors woke). */
#include "runtime/loop.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/http.h"
#include "runtime/log.h"
#include "runtime/task.h"

static void on_busy(uv_idle_t *idle)
{
    (void)idle; /* an active idle handle is what keeps the poll from blocking */
}

static void run_tasks(struct loop *loop)
{
    if (task_run_ready(loop))
        (void)uv_idle_start(&loop->busy, on_busy);
    else
        (void)uv_idle_stop(&loop->busy);
    if (loop->live_count == 0)
        uv_stop(&loop->uv); /* else the poll would wait for nobody */
}

static void on_prepare(uv_prepare_t *prepare)
{
    run_tasks(prepare->data);
    log_flush();
}

static void on_check(uv_check_t *check)
{
    run_tasks(check->data);
}

struct loop *loop_new(void)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return NULL;
    if (uv_loop_init(&loop->uv) != 0) {
        free(loop);
        return NULL;
    }
    loop->uv.data = loop;
    (void)uv_prepare_init(&loop->uv, &loop->prepare);
    (void)uv_check_init(&loop->uv, &loop->check);
    (void)uv_idle_init(&loop->uv, &loop->busy);
    loop->prepare.data = loop->check.data = loop->busy.data = loop;
    (void)uv_prepare_start(&loop->prepare, on_prepare);
    (void)uv_check_start(&loop->check, on_check);
    return loop;
}

void loop_run(struct loop *loop)
{
    uv_update_time(&loop->uv);
    while (loop->live_count > 0)
        (void)uv_run(&loop->uv, UV_RUN_ONCE);
    log_flush();
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    assert(loop->live_count == 0 && "tasks run to their end before their loop is freed");
    http_pool_free(loop->http);
    loop->http = NULL;
    task_pool_drain(loop);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->busy, NULL);
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0)
        continue;
    int left = uv_loop_close(&loop->uv);
    assert(left == 0 && "every handle is closed before its loop is freed");
    (void)left;
    free(loop->home);
    free(loop);
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return uv_now(&loop->uv);
}
