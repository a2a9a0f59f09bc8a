/* The tasks of a worker: a fetcher, a renewer, one for each job, and the main one that
 * begins and drains. */
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

enum {
    READ_AT_ONCE = 16,
    READ_BLOCK_MS = 2000,
    TROUBLE_PAUSE_MS = 200,
    TROUBLE_EVERY_MS = 60000,
    LAST_ANSWERS_MS = 3000
};

/* ---- fetching and renewing ---- */

static void helper_ended(struct worker *worker)
{
    worker->helper_count--;
    event_broadcast(&worker->changed);
}

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
    struct error err = {0};
    assert(batch->count <= READ_AT_ONCE);
    for (size_t i = 0; i < batch->count; i++) {
        leases[i] = (struct lease){.token = batch->deliveries[i].token};
        memcpy(leases[i].entry, batch->deliveries[i].entry, sizeof(leases[i].entry));
    }
    if (batch->count == 0)
        return;
    if (lease_release(worker->queue, leases, batch->count, &err) != 0)
        log_warn("jobs not handed back, their leases will run out",
                 log_text("error", err.message));
    else
        log_info("handed back", log_int("count", batch->count));
}

/* Waits for a free slot and an open connection, both at once. 0, or nonzero when the worker
 * stops. */
SUSPENDS static int wait_until_readable(struct worker *worker)
{
    for (;;) {
        if (worker->stopping)
            return -1;
        int result = 0;
        if (worker->held_count >= (size_t)worker->config->slots)
            result = event_wait(&worker->changed, "a free slot");
        else if (!connection_is_up(worker->queue->reads))
            result = connection_wait_up(worker->queue->reads);
        else
            return 0;
        if (result)
            return result;
    }
}

/* Trouble with Redis can last, and be met many times a second: a reason is logged when it
 * is new, and once a minute while it stays. */
static void log_trouble(struct worker *worker, const char *what, const struct error *err)
{
    uint64_t now_ms = loop_now_ms(worker->loop);
    bool is_known = strncmp(worker->queue_trouble, err->message,
                            sizeof(worker->queue_trouble) - 1) == 0;
    worker->trouble_count++;
    if (is_known && now_ms - worker->queue_trouble_at_ms < TROUBLE_EVERY_MS)
        return;
    (void)snprintf(worker->queue_trouble, sizeof(worker->queue_trouble), "%s",
                   err->message);
    worker->queue_trouble_at_ms = now_ms;
    log_warn(what, log_text("error", err->message));
}

static void trouble_ended(struct worker *worker)
{
    worker->trouble_count = 0;
    worker->queue_trouble[0] = '\0';
}

/* Longer with every time in a row, up to about two seconds. */
static uint64_t trouble_pause_ms(const struct worker *worker)
{
    unsigned doublings = worker->trouble_count < 4 ? worker->trouble_count : 4;
    return random_spread_ms((uint64_t)TROUBLE_PAUSE_MS << doublings);
}

static int free_slots(const struct worker *worker, int most)
{
    size_t slots = (size_t)worker->config->slots;
    size_t count = worker->held_count < slots ? slots - worker->held_count : 0;
    return count < (size_t)most ? (int)count : most;
}

static void take_batch(struct worker *worker, const struct batch *batch)
{
    if (worker->stopping)
        hand_back_batch(worker, batch);
    else
        begin_jobs(worker, batch);
}

/* Takes over what other workers left. Whether there may be more. */
SUSPENDS static bool reap_once(struct worker *worker)
{
    batch_scoped struct batch batch = {0};
    struct error err = {0};
    int count = free_slots(worker, READ_AT_ONCE);
    if (count == 0 || !connection_is_up(worker->queue->commands))
        return false;
    if (reaper_reap(worker->queue, count, &batch, &err) != 0) {
        log_trouble(worker, "looking for lost leases failed", &err);
        return false;
    }
    if (batch.buried_count > 0)
        log_error("entries that nobody can answer were put to the dead letters",
                  log_int("count", (int64_t)batch.buried_count));
    if (batch.unburied_count > 0)
        log_error("entries cannot be put to the dead letters",
                  log_text("key", worker->queue->keys.dead),
                  log_int("count", (int64_t)batch.unburied_count));
    if (batch.count > 0)
        log_warn("took jobs over whose worker had gone",
                 log_int("count", (int64_t)batch.count));
    worker->recovered_count += batch.count;
    take_batch(worker, &batch);
    return (int)batch.count == count;
}

/* One read, which blocks in the server for as long as nothing else is to be done. Nonzero:
 * pause before the next. */
SUSPENDS static int read_once(struct worker *worker, uint64_t block_ms)
{
    batch_scoped struct batch batch = {0};
    struct error err = {0};
    int count = free_slots(worker, READ_AT_ONCE);
    if (count == 0)
        return 0;
    int result = reader_read(worker->queue, count, block_ms, &batch, &err);
    if (result == 0) {
        trouble_ended(worker);
        take_batch(worker, &batch);
        return 0;
    }
    if (worker->stopping)
        return -1;
    if (result > 0)
        (void)error_set(&err, ERROR_QUEUE_UNAVAILABLE,
                        "the consumer group was gone and has been made anew");
    log_trouble(worker, "reading failed", &err);
    return -1;
}

/* The only task that takes jobs, so the only one that counts free slots. What others left
 * comes before what is new: it has waited longer. */
static void fetch_jobs(void *arg)
{
    struct worker *worker = arg;
    uint64_t every_ms = (uint64_t)worker->config->lease_ms / 2;
    uint64_t reap_at_ms = loop_now_ms(worker->loop) + random_spread_ms(every_ms);
    worker->fetcher = task_self();
    while (wait_until_readable(worker) == 0) {
        uint64_t now_ms = loop_now_ms(worker->loop);
        if (now_ms >= reap_at_ms) {
            if (!reap_once(worker))
                reap_at_ms = now_ms + random_spread_ms(every_ms);
            continue;
        }
        uint64_t block_ms = reap_at_ms - now_ms;
        if (read_once(worker, block_ms < READ_BLOCK_MS ? block_ms : READ_BLOCK_MS) == 0)
            continue;
        if (worker->stopping || task_sleep(trouble_pause_ms(worker)) != 0)
            break;
    }
    worker->fetcher = NULL;
    helper_ended(worker);
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

/* Takes over what Redis said of a lease, if the slot still holds that delivery: it may have
 * been given back, and to another, while Redis answered. */
static void take_renewal(struct slot *slot, const struct lease *renewed)
{
    struct lease *lease = &slot->lease;
    if (slot->state != SLOT_FREE && lease->token == renewed->token &&
        strcmp(lease->entry, renewed->entry) == 0)
        *lease = *renewed;
}

struct held_slot {
    struct slot *slot; /* slots are freed at the very end only */
};

SUSPENDS static void renew_held(struct worker *worker)
{
    size_t count = worker->held_count;
    struct lease *leases = calloc(count, sizeof(*leases));
    struct held_slot *slots = calloc(count, sizeof(*slots));
    struct error err = {0};
    size_t n = 0;
    if (!leases || !slots) {
        log_error("out of memory, leases are not renewed");
        goto out;
    }
    for (struct slot *slot = worker->held; slot; slot = slot->next) {
        if (slot->lease.lost)
            continue; /* its outcome will be dropped: let others have it */
        leases[n] = slot->lease;
        slots[n++].slot = slot;
    }
    if (lease_renew(worker->queue, leases, n, &err) != 0)
        log_trouble(worker, "leases not renewed", &err);
    for (size_t i = 0; i < n; i++)
        take_renewal(slots[i].slot, &leases[i]);
out:
    free(leases);
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
    helper_ended(worker);
}

/* ---- beginning and draining ---- */

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
            log_trouble(worker, "joining the queue failed", &err);
        (void)pause_unless(&worker->stopped, "Redis", trouble_pause_ms(worker));
    }
    return -1;
}

/* Waits until no job is held and none can be taken any more, for at most that long. */
SUSPENDS static void wait_for_jobs(struct worker *worker, const char *step,
                                   uint64_t most_ms)
{
    struct deadline deadline;
    deadline_enter(&deadline, most_ms);
    while (worker->held_count > 0 || worker->fetcher)
        if (event_wait(&worker->changed, step) != 0)
            break;
    deadline_leave(&deadline);
}

static void cancel_running(struct worker *worker)
{
    worker->abandoning = true;
    for (struct slot *slot = worker->held; slot; slot = slot->next) {
        if (slot->state == SLOT_RUNNING)
            task_cancel(slot->task);
    }
}

/* Answers that Redis does not take, because it is away, end with their leases: others will.
 */
static void give_leases_up(struct worker *worker)
{
    for (struct slot *slot = worker->held; slot; slot = slot->next)
        slot->lease.lost = true;
}

SUSPENDS static void drain(struct worker *worker)
{
    log_info("draining", log_int("running", (int64_t)worker->held_count));
    reader_unblock(worker->queue);
    if (worker->fetcher && !connection_is_up(worker->queue->reads))
        task_cancel(worker->fetcher);
    wait_for_jobs(worker, "running jobs", (uint64_t)worker->config->drain_ms);
    cancel_running(worker);
    wait_for_jobs(worker, "the last answers", LAST_ANSWERS_MS);
    give_leases_up(worker);
    wait_for_jobs(worker, "the last jobs", UINT64_MAX);
    worker->drained = true;
    event_broadcast(&worker->all_drained);
    while (worker->helper_count > 0)
        if (event_wait(&worker->changed, "the last tasks") != 0)
            break;
    assert(worker->held_count == 0);
    queue_leave(worker->queue);
}

static void begin_helpers(struct worker *worker)
{
    if (begin_helper(worker, "fetcher", fetch_jobs) == 0 &&
        begin_helper(worker, "lease renewer", renew_leases) == 0)
        return;
    log_error("out of memory at the start");
    worker->stopping = true;
}

SUSPENDS static void work_until_stopped(struct worker *worker)
{
    log_info("ready", log_text("queue", worker->queue->keys.queue),
             log_text("worker", worker->queue->consumer),
             log_int("slots", worker->config->slots));
    begin_helpers(worker);
    while (!worker->stopping)
        if (event_wait(&worker->stopped, "work") != 0)
            break;
    drain(worker);
}

static void run_worker(void *arg)
{
    struct worker *worker = arg;
    if (join(worker) == 0)
        work_until_stopped(worker);
    queue_free(worker->queue);
    worker->queue = NULL;
    log_info("stopped", log_int("answered", (int64_t)worker->answered_count),
             log_int("dead", (int64_t)worker->dead_count),
             log_int("fenced", (int64_t)worker->fenced_count),
             log_int("recovered", (int64_t)worker->recovered_count));
}

void worker_stop(struct worker *worker)
{
    worker->stopping = true;
    event_broadcast(&worker->stopped);
    event_broadcast(&worker->changed);
}

/* ---- the process ---- */

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
    log_warn("not connected to Redis, trying on", log_text("why", why));
}

static void list_task(const struct task *task, void *arg)
{
    struct worker *worker = arg;
    const struct task_context *context = task_context_of(task);
    uint64_t age_ms = loop_now_ms(worker->loop) - task_started_at_ms(task);
    log_info("task", log_int("id", task_id(task)), log_text("name", task_name(task)),
             log_text("job", context->job), log_text("op", context->op),
             log_text("provider", context->provider), log_text("step", task_step(task)),
             log_int("age_ms", age_ms));
}

void worker_list_tasks(struct worker *worker)
{
    log_info("tasks", log_int("count", task_count(worker->loop)),
             log_int("held", worker->held_count));
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
                 log_int("limit", limit.rlim_max), log_int("wanted", wanted));
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
