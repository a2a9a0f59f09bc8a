/* The tasks of a worker: a reader, a renewer, a reaper, one for each job, and the main one
 * that begins and drains. */
#include "worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "queue/lease.h"
#include "queue/reader.h"
#include "queue/reaper.h"
#include "runtime/clock.h"
#include "runtime/deadline.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "runtime/random.h"
#include "worker/signals.h"

enum { READ_AT_ONCE = 16, READ_BLOCK_MS = 2000, REAP_AT_ONCE = 16, TROUBLE_PAUSE_MS = 200 };

/* ---- reading, renewing, reaping --------------------------------------------------------
 */

static void begin_jobs(struct worker *worker, const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        slot_begin(worker, &batch->deliveries[i]);
}

/* What Redis gave while the worker was already stopping goes back at once: a peer that
 * waits gets it without having to wait for a lease. */
SUSPENDS static void hand_back_batch(struct worker *worker, const struct batch *batch)
{
    struct lease leases[READ_AT_ONCE];
    struct lease *list[READ_AT_ONCE];
    struct error err = {0};
    assert(batch->count <= READ_AT_ONCE);
    for (size_t i = 0; i < batch->count; i++) {
        leases[i] = (struct lease){.token = batch->deliveries[i].token};
        memcpy(leases[i].entry, batch->deliveries[i].entry, sizeof(leases[i].entry));
        list[i] = &leases[i];
    }
    if (batch->count == 0)
        return;
    if (lease_release(worker->queue, list, batch->count, &err) != 0)
        log_warn("jobs not handed back, their leases will run out",
                 LOG_TEXT("error", err.message));
    else
        log_info("handed back", LOG_INT("count", batch->count));
}

/* Waits for a free slot and an open connection. 0, or nonzero when the worker stops. */
SUSPENDS static int wait_until_readable(struct worker *worker)
{
    while (!worker->stopping && worker->held_count >= (size_t)worker->config->slots)
        if (event_wait(&worker->changed, "a free slot") != 0)
            return -1;
    if (worker->stopping)
        return -1;
    return connection_wait_up(worker->queue->reads);
}

static void read_jobs(void *arg)
{
    struct worker *worker = arg;
    worker->reader = task_self();
    while (wait_until_readable(worker) == 0) {
        batch_scoped struct batch batch = {0};
        struct error err = {0};
        size_t free_slots = (size_t)worker->config->slots - worker->held_count;
        int count = free_slots < READ_AT_ONCE ? (int)free_slots : READ_AT_ONCE;
        if (reader_read(worker->queue, count, READ_BLOCK_MS, &batch, &err) == 0) {
            if (worker->stopping)
                hand_back_batch(worker, &batch);
            else
                begin_jobs(worker, &batch);
            continue;
        }
        if (worker->stopping)
            break;
        log_warn("reading failed", LOG_TEXT("error", err.message));
        if (task_sleep(random_spread_ms(TROUBLE_PAUSE_MS)) != 0)
            break;
    }
    worker->reader = NULL;
    worker->helper_count--;
    event_broadcast(&worker->changed);
}

/* A job whose lease is gone must not go on: somebody else has it. */
static void let_go(struct worker *worker)
{
    uint64_t now_ms = clock_boot_ms();
    for (struct slot *slot = worker->held; slot; slot = slot->next) {
        if (lease_is_live(&slot->lease, (uint64_t)worker->config->lease_ms, now_ms))
            continue;
        slot->lease.lost = true;
        if (slot->state == SLOT_RUNNING)
            task_cancel(slot->task);
    }
}

/* Renews what is held now; slots may be given back while Redis answers, so the leases are
 * copies and found again by their entry. */
SUSPENDS static void renew_held(struct worker *worker)
{
    size_t count = worker->held_count;
    struct lease *copies = calloc(count + 1, sizeof(*copies));
    struct lease **list = calloc(count + 1, sizeof(*list));
    struct slot **slots = calloc(count + 1, sizeof(*slots));
    struct error err = {0};
    size_t n = 0;
    if (!copies || !list || !slots) {
        log_error("out of memory, leases are not renewed");
        goto out;
    }
    for (struct slot *slot = worker->held; slot && n < count; slot = slot->next, n++) {
        copies[n] = slot->lease;
        list[n] = &copies[n];
        slots[n] = slot;
    }
    if (lease_renew(worker->queue, list, n, &err) != 0)
        log_warn("leases not renewed", LOG_TEXT("error", err.message));
    for (size_t i = 0; i < n; i++) {
        struct lease *lease = &slots[i]->lease;
        if (slots[i]->state != SLOT_FREE && lease->token == copies[i].token &&
            strcmp(lease->entry, copies[i].entry) == 0)
            *lease = copies[i];
    }
out:
    free(copies);
    free(list);
    free(slots);
}

/* Waits until the event or until the time is over. true: the time is over. */
SUSPENDS static bool pause_unless(struct event *event, const char *step, uint64_t ms)
{
    struct deadline pause;
    deadline_enter(&pause, ms);
    int result = event_wait(event, step);
    deadline_leave(&pause);
    return result == -ETIMEDOUT;
}

static void renew_leases(void *arg)
{
    struct worker *worker = arg;
    uint64_t every_ms = (uint64_t)worker->config->lease_ms / 3;
    while (!worker->drained &&
           pause_unless(&worker->all_drained, "the next renewal", every_ms)) {
        if (worker->held_count > 0 && connection_is_up(worker->queue->commands))
            renew_held(worker);
        let_go(worker);
    }
    worker->helper_count--;
    event_broadcast(&worker->changed);
}

static void reap_jobs(void *arg)
{
    struct worker *worker = arg;
    uint64_t every_ms = (uint64_t)worker->config->lease_ms / 2;
    while (!worker->stopping &&
           pause_unless(&worker->stopped, "the next look for lost leases",
                        random_spread_ms(every_ms))) {
        batch_scoped struct batch batch = {0};
        struct error err = {0};
        size_t free_slots = (size_t)worker->config->slots - worker->held_count;
        if (worker->held_count >= (size_t)worker->config->slots ||
            !connection_is_up(worker->queue->commands))
            continue;
        int count = free_slots < REAP_AT_ONCE ? (int)free_slots : REAP_AT_ONCE;
        if (reaper_reap(worker->queue, count, &batch, &err) != 0) {
            log_warn("looking for lost leases failed", LOG_TEXT("error", err.message));
            continue;
        }
        if (batch.buried_count > 0)
            log_error("entries that nobody can answer were put to the dead letters",
                      LOG_INT("count", batch.buried_count));
        if (batch.count > 0)
            log_warn("took jobs over whose worker had gone", LOG_INT("count", batch.count));
        worker->recovered_count += batch.count;
        begin_jobs(worker, &batch);
    }
    worker->helper_count--;
    event_broadcast(&worker->changed);
}

/* ---- beginning and draining ------------------------------------------------------------
 */

static int begin_helper(struct worker *worker, const char *name, void (*run)(void *arg))
{
    worker->helper_count++;
    if (task_start(worker->loop, name, run, worker) == 0)
        return 0;
    worker->helper_count--;
    return -ENOMEM;
}

SUSPENDS static int join(struct worker *worker)
{
    while (!worker->stopping) {
        struct error err = {0};
        if (connection_is_up(worker->queue->commands) &&
            queue_join(worker->queue, &err) == 0)
            return 0;
        if (err.code)
            log_warn("joining the queue failed", LOG_TEXT("error", err.message));
        (void)pause_unless(&worker->stopped, "Redis", random_spread_ms(TROUBLE_PAUSE_MS));
    }
    return -1;
}

SUSPENDS static void drain(struct worker *worker)
{
    struct deadline grace;
    log_info("draining", LOG_INT("running", worker->held_count));
    reader_unblock(worker->queue);
    if (worker->reader && !connection_is_up(worker->queue->reads))
        task_cancel(worker->reader);
    deadline_enter(&grace, (uint64_t)worker->config->drain_ms);
    while (worker->held_count > 0)
        if (event_wait(&worker->changed, "running jobs") != 0)
            break;
    deadline_leave(&grace);
    worker->abandoning = true;
    for (struct slot *slot = worker->held; slot; slot = slot->next) {
        if (slot->state == SLOT_RUNNING)
            task_cancel(slot->task);
    }
    while (worker->held_count > 0)
        if (event_wait(&worker->changed, "the last jobs") != 0)
            break;
    worker->drained = true;
    event_broadcast(&worker->all_drained);
    while (worker->helper_count > 0)
        if (event_wait(&worker->changed, "the last tasks") != 0)
            break;
    queue_leave(worker->queue);
}

static void run_worker(void *arg)
{
    struct worker *worker = arg;
    if (join(worker) == 0) {
        log_info("ready", LOG_TEXT("queue", worker->queue->keys.queue),
                 LOG_TEXT("worker", worker->queue->consumer),
                 LOG_INT("slots", worker->config->slots));
        if (begin_helper(worker, "reader", read_jobs) != 0 ||
            begin_helper(worker, "lease renewer", renew_leases) != 0 ||
            begin_helper(worker, "reaper", reap_jobs) != 0) {
            log_error("out of memory at the start");
            worker->stopping = true;
        }
        while (!worker->stopping)
            if (event_wait(&worker->stopped, "work") != 0)
                break;
        drain(worker);
    }
    queue_free(worker->queue);
    worker->queue = NULL;
    log_info("stopped", LOG_INT("answered", worker->answered_count),
             LOG_INT("dead", worker->dead_count), LOG_INT("fenced", worker->fenced_count),
             LOG_INT("recovered", worker->recovered_count));
}

void worker_stop(struct worker *worker)
{
    worker->stopping = true;
    event_broadcast(&worker->stopped);
    event_broadcast(&worker->changed);
}

/* ---- the process -----------------------------------------------------------------------
 */

/* Told of every try of two connections; logged are the first failure, each new reason, and
 * the end of the trouble. */
static void on_change(void *arg, bool is_up, const char *why)
{
    struct worker *worker = arg;
    if (is_up) {
        if (worker->redis_trouble[0])
            log_info("connected to Redis again");
        worker->redis_trouble[0] = '\0';
        return;
    }
    if (strncmp(worker->redis_trouble, why, sizeof(worker->redis_trouble) - 1) == 0)
        return;
    (void)snprintf(worker->redis_trouble, sizeof(worker->redis_trouble), "%s", why);
    log_warn("not connected to Redis, trying on", LOG_TEXT("why", why));
}

static void list_task(const struct task *task, void *arg)
{
    struct worker *worker = arg;
    const struct task_context *context = task_context_of(task);
    uint64_t age_ms = loop_now_ms(worker->loop) - task_started_at_ms(task);
    log_info("task", LOG_INT("id", task_id(task)), LOG_TEXT("name", task_name(task)),
             LOG_TEXT("job", context->job), LOG_TEXT("op", context->op),
             LOG_TEXT("provider", context->provider), LOG_TEXT("step", task_step(task)),
             LOG_INT("age_ms", age_ms));
}

void worker_list_tasks(struct worker *worker)
{
    log_info("tasks", LOG_INT("count", task_count(worker->loop)),
             LOG_INT("held", worker->held_count));
    task_each(worker->loop, list_task, worker);
    log_flush();
}

/* Two pipes and a handle on the process for each job that runs a command here, sockets, and
 * some to spare; the default soft limit of 1,024 would do for 300 jobs. */
static void raise_descriptor_limit(int64_t slots)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)slots * 4 + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted)
        log_warn("the hard limit of open files is low for that many slots",
                 LOG_INT("limit", limit.rlim_max), LOG_INT("wanted", wanted));
}

int worker_run(struct worker *worker, const struct config *config, struct error *err)
{
    const struct queue_options options = {
        .address = config->address,
        .queue = config->queue,
        .lease_ms = (uint64_t)config->lease_ms,
        .reply_maxlen = config->reply_maxlen,
        .dead_maxlen = config->dead_maxlen,
        .record_ttl_ms = (uint64_t)config->record_ttl_ms,
        .max_deliveries = (int)config->max_deliveries,
        .on_change = on_change,
        .on_change_arg = worker,
    };
    raise_descriptor_limit(config->slots);
    *worker = (struct worker){.config = config, .loop = loop_new()};
    if (!worker->loop)
        return error_set_memory(err, "the loop");
    int failed = queue_open(worker->loop, &options, true, &worker->queue, err);
    if (!failed)
        failed = signals_begin(worker, err);
    if (!failed && task_start(worker->loop, "worker", run_worker, worker) != 0)
        failed = error_set_memory(err, "the worker's task");
    if (!failed)
        loop_run(worker->loop);
    signals_end(worker);
    slot_free_all(worker);
    if (!failed)
        loop_free(worker->loop);
    return failed;
}
