/* Signals arrive on the loop, so their handlers may touch the worker. */
#include "worker/signals.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "runtime/log.h"
#include "runtime/loop.h"
#include "worker/worker.h"

enum { SIGNAL_COUNT = 3, EXIT_AT_ONCE = 1 };

static const int numbers[SIGNAL_COUNT] = {SIGTERM, SIGINT, SIGUSR1};

struct signals {
    struct worker *worker;
    uv_signal_t handles[SIGNAL_COUNT];
    int open_count;
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct signals *signals = handle->data;
    struct worker *worker = signals->worker;
    if (number == SIGUSR1) {
        worker_list_tasks(worker);
        return;
    }
    if (worker->stopping) {
        /* What is held stays pending; its leases run out and others take it. */
        log_warn("second signal: ending at once");
        log_flush();
        _exit(EXIT_AT_ONCE);
    }
    log_info("signal", log_text("name", number == SIGTERM ? "TERM" : "INT"));
    worker_stop(worker);
}

int signals_begin(struct worker *worker, struct error *err)
{
    struct signals *signals = calloc(1, sizeof(*signals));
    if (!signals)
        return error_set_memory(err, "the signal handlers");
    signals->worker = worker;
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        (void)uv_signal_init(&worker->loop->uv, &signals->handles[i]);
        signals->handles[i].data = signals;
        (void)uv_signal_start(&signals->handles[i], on_signal, numbers[i]);
        signals->open_count++;
    }
    worker->signals = signals;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct signals *signals = handle->data;
    if (--signals->open_count == 0)
        free(signals);
}

void signals_end(struct worker *worker)
{
    struct signals *signals = worker->signals;
    if (!signals)
        return;
    worker->signals = NULL;
    for (int i = 0; i < SIGNAL_COUNT; i++)
        uv_close((uv_handle_t *)&signals->handles[i], on_closed);
}
