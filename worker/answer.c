/* Three outcomes: an answer, which goes to the reply stream; a dead letter, for what cannot
 * be answered; nothing, where the lease was lost and somebody else answers. */
#include "worker/answer.h"

#include <string.h>

#include "queue/finish.h"
#include "queue/outcome.h"
#include "queue/reply.h"
#include "runtime/deadline.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "worker/worker.h"

static struct reply_envelope envelope_of(const struct slot *slot,
                                         const struct sandbox *sandbox)
{
    const struct delivery *delivery = &slot->delivery;
    int64_t queued_ms = slot->began_unix_ms - delivery->enqueued_unix_ms;
    return (struct reply_envelope){
        .id = slot->job.id,
        .entry = delivery->entry,
        .op = slot->job.op_name,
        .worker = slot->worker->queue->consumer,
        .traceparent = slot->job.traceparent,
        .provider = slot->job.provider,
        .attempt = delivery->attempt,
        .deliveries = delivery->token,
        .queued_ms = queued_ms > 0 ? queued_ms : 0,
        .run_ms = (int64_t)(loop_now_ms(slot->worker->loop) - slot->began_at_ms),
        .execs = sandbox ? sandbox->exec_count : 0,
    };
}

/* Why the job goes to the dead letters; NULL: it is answered. */
static const char *letter_reason(const struct slot *slot, const struct error *err)
{
    if (!err)
        return NULL;
    if (err->code == ERROR_CRASH_LOOP)
        return "crash_loop";
    if (slot->job.id)
        return NULL;
    if (slot->delivery.job_bytes > MESSAGE_MAX_BYTES)
        return "oversize";
    return err->code == ERROR_UNSUPPORTED_VERSION ? "unsupported_version" : "malformed";
}

static int write_reply(struct slot *slot, const struct operation_result *result,
                       const struct sandbox *sandbox, const struct error *err,
                       struct finish_reply *ret_reply)
{
    const struct reply_envelope envelope = envelope_of(slot, sandbox);
    const char *const *supported = NULL;
    *ret_reply = (struct finish_reply){
        .job_id = slot->job.id, .reply_to = slot->job.reply_to, .ok = result != NULL};
    if (slot->recorded.data) {
        ret_reply->ok = slot->recorded.ok;
        return reply_write_outcome(&envelope, &slot->recorded, slot->arena,
                                   &ret_reply->data, &ret_reply->size);
    }
    if (result)
        return reply_write_result(&envelope, result->write, result->arg, slot->arena,
                                  &ret_reply->data, &ret_reply->size);
    if (err->code == ERROR_CAPABILITY_UNAVAILABLE && slot->profile)
        supported = operation_capabilities(slot->profile->provider, sandbox, slot->arena);
    return reply_write_error(&envelope, err, supported, slot->arena, &ret_reply->data,
                             &ret_reply->size);
}

SUSPENDS static int bury(struct slot *slot, const char *reason, const struct error *err,
                         const struct finish_reply *reply, enum finish *ret_finish,
                         struct error *failure)
{
    const struct finish_letter letter = {
        .reason = reason,
        .error = err->message,
        .attempt = slot->delivery.attempt,
        .job_id = slot->job.id,
        .reply = reply,
    };
    if (finish_with_letter(slot->worker->queue, &slot->lease, &letter, ret_finish,
                           failure) != 0)
        return -1;
    slot->worker->dead_count += *ret_finish == FINISH_DONE;
    return 0;
}

/* What later entries of the job id are told; NULL: they run again. */
static const struct reply_outcome *outcome_of(struct slot *slot,
                                              const struct operation_result *result,
                                              const struct error *err)
{
    const struct reply_envelope envelope = envelope_of(slot, NULL);
    struct reply_outcome outcome = {0};
    /* A recorded one stays as it is. */
    if (slot->recorded.data || !slot->job.op_name || !job_op_has_effects(slot->job.op))
        return NULL;
    if (result ? reply_outcome_of_result(&envelope, result->write, result->arg, slot->arena,
                                         &outcome)
               : (!outcome_keeps_error(err) ||
                  reply_outcome_of_error(&envelope, err, slot->arena, &outcome)))
        return NULL;
    slot->kept = outcome;
    return &slot->kept;
}

/* One line a job, the same keys for all. */
static void log_outcome(const struct slot *slot, const struct sandbox *sandbox,
                        const char *outcome, const char *message, enum log_level level)
{
    const struct reply_envelope envelope = envelope_of(slot, sandbox);
    struct log_field fields[10] = {
        log_text("outcome", outcome),
        log_text("entry", envelope.entry),
        log_int("attempt", envelope.attempt),
        log_int("deliveries", envelope.deliveries),
        log_int("queued_ms", envelope.queued_ms),
        log_int("run_ms", envelope.run_ms),
        log_int("execs", envelope.execs),
    };
    size_t count = 7;
    if (envelope.traceparent)
        fields[count++] = log_text("traceparent", envelope.traceparent);
    if (message)
        fields[count++] = log_text("error", message);
    log_write(level, "job", fields); /* a field without a key ends the list */
}

/* A reply stream whose key holds something else: the job cannot be answered where it asked
 * to be, so it becomes a dead letter without a reply. */
SUSPENDS static int bury_unanswerable(struct slot *slot, enum finish *ret_finish,
                                      struct error *failure)
{
    struct error why = {0};
    (void)error_set(&why, ERROR_INVALID_ARGUMENT,
                    "the key of its reply stream holds something that is no stream");
    return bury(slot, "unanswerable", &why, NULL, ret_finish, failure);
}

SUSPENDS static const char *deliver(struct slot *slot,
                                    const struct operation_result *result,
                                    const struct sandbox *sandbox, const struct error *err,
                                    struct error *failure)
{
    const char *reason = letter_reason(slot, err);
    struct finish_reply reply = {0};
    enum finish finish = FINISH_DONE;
    int failed = 0;
    if (slot->job.id && write_reply(slot, result, sandbox, err, &reply) != 0) {
        /* The result is too large for the job's memory: say that instead. */
        struct error memory = {0};
        (void)error_set_memory(&memory, "the reply");
        if (!result || write_reply(slot, NULL, sandbox, &memory, &reply) != 0) {
            (void)error_set_memory(failure, "a reply");
            return NULL;
        }
    }
    if (!reason)
        reply.outcome = outcome_of(slot, result, err);
    if (reason)
        failed = bury(slot, reason, err, slot->job.id ? &reply : NULL, &finish, failure);
    else
        failed =
            finish_with_reply(slot->worker->queue, &slot->lease, &reply, &finish, failure);
    if (!failed && finish == FINISH_UNANSWERABLE) {
        reason = "unanswerable";
        failed = bury_unanswerable(slot, &finish, failure);
    }
    if (!failed && finish == FINISH_UNANSWERABLE)
        failed = error_set(failure, ERROR_QUEUE_UNAVAILABLE,
                           "%s holds something that is no stream",
                           slot->worker->queue->keys.dead);
    if (failed)
        return NULL;
    if (finish == FINISH_FENCED) {
        slot->worker->fenced_count++;
        return "fenced";
    }
    if (slot->recorded.data)
        return "duplicate";
    return reason ? reason : (result ? "ok" : error_code_name(err->code));
}

void answer_job(struct slot *slot, const struct operation_result *result,
                const struct sandbox *sandbox, const struct error *err)
{
    struct error failure = {0};
    struct deadline shield;
    slot_set_state(slot, SLOT_ENDING);
    /* Neither the job's deadline nor a drain ends the answer; the lease does (finish.h). */
    deadline_enter_shielded(&shield, UINT64_MAX);
    const char *outcome = deliver(slot, result, sandbox, err, &failure);
    deadline_leave(&shield);
    if (!outcome) {
        log_outcome(slot, sandbox, "unwritten", failure.message, LOG_ERROR);
        return;
    }
    bool is_bug = !result && err->code == ERROR_INTERNAL;
    log_outcome(slot, sandbox, outcome, result ? NULL : err->message,
                is_bug ? LOG_ERROR : LOG_INFO);
    slot->worker->answered_count++;
}
