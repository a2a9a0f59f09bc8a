/* Slots: their states, and the life of one job in one of them. */
#include "worker/slot.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "providers/provider.h"
#include "queue/outcome.h"
#include "runtime/clock.h"
#include "runtime/deadline.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "worker/answer.h"
#include "worker/operation.h"
#include "worker/worker.h"

enum { HAND_BACK_MS = 2000 };

static const char *const state_names[] = {
#define SLOT_STATE_NAME(state, name) [(state)] = (name),
    SLOT_STATES(SLOT_STATE_NAME)
#undef SLOT_STATE_NAME
};

static bool is_legal(enum slot_state from, enum slot_state to)
{
    if (to == SLOT_FREE)
        return from != SLOT_FREE;
    return to == from + 1;
}

void slot_set_state(struct slot *slot, enum slot_state state)
{
    assert(is_legal(slot->state, state));
    log_debug("slot", log_text("entry", slot->delivery.entry),
              log_text("from", state_names[slot->state]),
              log_text("to", state_names[state]));
    slot->state = state;
}

/* ---- slots ---- */

static struct slot *take_slot(struct worker *worker)
{
    struct slot *slot = worker->free;
    if (slot) {
        worker->free = slot->next;
    } else {
        slot = calloc(1, sizeof(*slot));
        if (!slot)
            return NULL;
    }
    *slot = (struct slot){.worker = worker, .next = worker->held};
    if (worker->held)
        worker->held->previous = slot;
    worker->held = slot;
    worker->held_count++;
    return slot;
}

static void give_slot_back(struct slot *slot)
{
    struct worker *worker = slot->worker;
    if (slot->previous)
        slot->previous->next = slot->next;
    else
        worker->held = slot->next;
    if (slot->next)
        slot->next->previous = slot->previous;
    arena_free(slot->arena);
    if (slot->state != SLOT_FREE)
        slot_set_state(slot, SLOT_FREE);
    *slot = (struct slot){.worker = worker, .next = worker->free};
    worker->free = slot;
    worker->held_count--;
    event_broadcast(&worker->changed);
}

void slot_free_all(struct worker *worker)
{
    assert(!worker->held);
    for (struct slot *slot = worker->free, *next; slot; slot = next) {
        next = slot->next;
        free(slot);
    }
    worker->free = NULL;
}

/* ---- one job ---- */

/* The job's own deadline counts like the timeout of this attempt, but is told apart. */
static uint64_t time_for(const struct job *job, int64_t now_unix_ms, bool *ret_by_deadline)
{
    uint64_t left_ms = UINT64_MAX;
    if (job->deadline_unix_ms != 0)
        left_ms = job->deadline_unix_ms > now_unix_ms
                      ? (uint64_t)(job->deadline_unix_ms - now_unix_ms)
                      : 0;
    *ret_by_deadline = left_ms <= job->timeout_ms;
    return *ret_by_deadline ? left_ms : job->timeout_ms;
}

SUSPENDS static int run_in_time(struct slot *slot, struct sandbox *sandbox,
                                struct operation_result *ret_result, struct error *err)
{
    bool by_deadline = false;
    struct deadline deadline;
    uint64_t time_ms = time_for(&slot->job, clock_unix_ms(), &by_deadline);
    if (time_ms == 0)
        return error_set(err, ERROR_DEADLINE_EXCEEDED, "the job's deadline had passed");
    deadline_enter(&deadline, time_ms);
    const struct operation_request request = {&slot->job, sandbox, slot->worker->config,
                                              slot->worker->queue};
    int failed = operation_run(&request, slot->arena, ret_result, err);
    deadline_leave(&deadline);
    if (failed && by_deadline && err->code == ERROR_TIMEOUT)
        return error_set(err, ERROR_DEADLINE_EXCEEDED,
                         "the job's deadline passed while it was running");
    return failed;
}

static int refuse_provider(const char *name, struct error *err)
{
    (void)error_set(err, ERROR_UNKNOWN_PROVIDER,
                    "no provider \"%.128s\" is configured on this fleet", name);
    err->remedy = "name a provider of the workers' configuration, or add a section "
                  "[provider NAME] to it";
    return -1;
}

/* The one error that comes before whatever else is wrong with a job: its provider lacks
 * what the operation needs. No request is sent for it, and no handle opened. */
static int check_capability(const struct slot *slot, struct error *err)
{
    const struct job *job = &slot->job;
    enum job_op op = JOB_ATTACH;
    if (!slot->profile || !job->op_name || !job_op_from_name(job->op_name, &op))
        return 0;
    return operation_require(op, slot->profile->provider, err);
}

/* Reads the job as far as it can be read and decides whether it is run at all. */
static int read_job(struct slot *slot, struct error *err)
{
    const struct delivery *delivery = &slot->delivery;
    struct job *job = &slot->job;
    if (!delivery->job)
        return error_set(err, ERROR_MALFORMED_JOB, "the stream entry has no field \"job\"");
    int failed = job_read(delivery->job, delivery->job_bytes, slot->arena, job, err);
    *task_context(task_self()) =
        (struct task_context){job->id, job->op_name, job->provider};
    if (job->provider)
        slot->profile = config_profile(slot->worker->config, job->provider);
    if (delivery->token > slot->worker->queue->options.max_deliveries)
        return error_set(err, ERROR_CRASH_LOOP,
                         "%lld workers took this job and none could answer it",
                         (long long)delivery->token - 1);
    if (failed && err->code != ERROR_INVALID_ARGUMENT)
        return -1;
    return check_capability(slot, err) != 0 || failed ? -1 : 0;
}

/* From the delivery to the operation's result; the sandbox is open afterwards where it
 * could be opened. */
SUSPENDS static int work_on(struct slot *slot, struct sandbox **ret_sandbox,
                            struct operation_result *ret_result, struct error *err)
{
    struct job *job = &slot->job;
    if (read_job(slot, err) != 0)
        return -1;
    if (!slot->profile)
        return refuse_provider(job->provider, err);
    struct descriptor_key *keys =
        arena_calloc(slot->arena, job->sandbox_key_count, sizeof(*keys));
    if (!keys)
        return error_set_memory(err, "a sandbox descriptor");
    for (size_t i = 0; i < job->sandbox_key_count; i++)
        keys[i] =
            (struct descriptor_key){job->sandbox_keys[i].name, job->sandbox_keys[i].value};
    const struct descriptor descriptor = {
        .provider = job->provider,
        .sandbox_id = job->sandbox_id,
        .keys = keys,
        .key_count = job->sandbox_key_count,
    };
    if (sandbox_open(&descriptor, slot->profile, slot->arena, ret_sandbox, err) != 0)
        return -1;
    if (job_read_arguments(job, slot->arena, err) != 0)
        return -1;
    if (job_op_has_effects(job->op)) {
        if (outcome_read(slot->worker->queue, &slot->lease, job->id, job->op_name,
                         slot->arena, &slot->recorded, err) != 0)
            return -1;
        if (slot->recorded.data)
            return 0;
    }
    return run_in_time(slot, *ret_sandbox, ret_result, err);
}

/* At the end of the drain: the entry goes back to the queue. Looking at an execution does
 * no harm when it is done again. */
SUSPENDS static void hand_back(struct slot *slot)
{
    struct error err = {0};
    struct deadline shield;
    deadline_enter_shielded(&shield, HAND_BACK_MS);
    if (lease_release(slot->worker->queue, &slot->lease, 1, &err) != 0)
        log_warn("job not handed back, its lease will run out",
                 log_text("error", err.message));
    else
        log_info("job", log_text("outcome", "handed_back"),
                 log_text("entry", slot->delivery.entry));
    deadline_leave(&shield);
}

static void run_job(void *arg)
{
    struct slot *slot = arg;
    struct sandbox *sandbox = NULL;
    struct operation_result result = {0};
    struct error err = {0};
    slot_set_state(slot, SLOT_RUNNING);
    slot->task = task_self();
    slot->began_at_ms = loop_now_ms(slot->worker->loop);
    slot->began_unix_ms = clock_unix_ms();
    int failed = work_on(slot, &sandbox, &result, &err);
    bool unread = failed && err.code == ERROR_INTERNAL && !slot->job.id;
    if (unread)
        /* A job that this process had no memory to read is no malformed one: another try is
         * made when its lease has run out. */
        log_error("job left to be recovered", log_text("error", err.message));
    else if (slot->lease.lost)
        log_warn("lease lost, the outcome is dropped",
                 log_text("entry", slot->delivery.entry));
    else if (failed && err.code == ERROR_CANCELLED && slot->worker->abandoning)
        hand_back(slot);
    else
        answer_job(slot, failed ? NULL : &result, sandbox, failed ? &err : NULL);
    sandbox_close(sandbox);
    *task_context(task_self()) = (struct task_context){0};
    give_slot_back(slot);
}

void slot_begin(struct worker *worker, const struct delivery *delivery)
{
    struct slot *slot = take_slot(worker);
    if (!slot)
        goto no_memory;
    slot->delivery = *delivery;
    /* The body was bounded by Redis and is here already: it comes on top. */
    slot->arena = arena_new((size_t)worker->config->job_memory_bytes + delivery->job_bytes);
    if (!slot->arena || delivery_copy(delivery, slot->arena, &slot->delivery) != 0)
        goto no_memory;
    slot->lease =
        (struct lease){.token = delivery->token, .renewed_at_ms = clock_boot_ms()};
    memcpy(slot->lease.entry, delivery->entry, sizeof(slot->lease.entry));
    slot_set_state(slot, SLOT_HELD);
    if (task_start(worker->loop, "job", run_job, slot) == 0)
        return;
no_memory:
    /* Left pending: it is recovered when its lease has run out. */
    log_error("out of memory, a job is left to be recovered",
              log_text("entry", delivery->entry));
    if (slot)
        give_slot_back(slot);
}
