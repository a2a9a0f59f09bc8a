/* Each look is a job of its own, so that any worker can answer the next one: nothing is
 * held for whoever reads. How long is paused follows what comes. */
#include "ctl/logs.h"

#include <errno.h>
#include <string.h>

#include "ctl/answer_table.h"
#include "ctl/exchange.h"
#include "ctl/logs_view.h"
#include "ctl/request.h"
#include "ctl/visible.h"
#include "runtime/arena.h"
#include "runtime/clock.h"

enum {
    LOOK_ARENA_MAX_BYTES = 256 * 1024 * 1024, /* the largest reply */
    LOOK_TIMEOUT_MS = 10000,
    PAUSE_LEAST_MS = 50,
    PAUSE_MOST_MS = 1000,
};

struct logs {
    const struct options *options; /* with their timeout */
    struct run_output *output;
    struct logs_view view;
    enum exit_status status; /* what it comes to */
    uint64_t pause_ms;
    bool was_answered; /* once at least */
    bool told;         /* that it does not go on at present */
};

/* What a look asks for next. */
enum step {
    STEP_AGAIN, /* at once */
    STEP_PAUSE,
    STEP_END,
};

static enum step end_with(struct logs *logs, enum exit_status status)
{
    logs->status = status;
    return STEP_END;
}

/* ---- what is written ---- */

/* A line of attachctl's own on standard error; what cannot be said is no reason to end. */
static void say(struct logs *logs, const char *text, const char *behind)
{
    struct buffer *out = &logs->output->err;
    if (buffer_append_text(out, "attachctl: ") != 0 ||
        visible_append(out, text, strlen(text), false) != 0 ||
        buffer_append_text(out, behind) != 0)
        return;
    (void)buffer_append_text(out, "\n");
}

/* A reader that has seen enough (head) is fine. */
static enum step flush(struct logs *logs, enum step step, struct error *err)
{
    int failed = logs->output->flush(logs->output);
    if (failed == -EPIPE)
        return end_with(logs, EXIT_ANSWER_OK);
    if (!failed)
        return step;
    (void)error_set(err, ERROR_CONFIGURATION, "cannot write the output: %s",
                    strerror(-failed));
    return end_with(logs, EXIT_USAGE);
}

/* ---- what does not go on ---- */

/* `why` may get better by itself. Where nobody ever answered, or nobody wants to wait, it
 * is the end. */
static enum step wait_for_better(struct logs *logs, struct error *why, struct error *err)
{
    if (!logs->options->follow || !logs->was_answered) {
        *err = *why;
        return end_with(logs, EXIT_NO_ANSWER);
    }
    if (!logs->told)
        say(logs, why->message, "; trying again until it goes on");
    logs->told = true;
    return STEP_PAUSE;
}

static enum step take_exchange_failure(struct logs *logs, struct error *why,
                                       struct error *err)
{
    if (why->code == ERROR_TIMEOUT || why->code == ERROR_QUEUE_UNAVAILABLE)
        return flush(logs, wait_for_better(logs, why, err), err);
    *err = *why;
    return end_with(logs, EXIT_NO_ANSWER);
}

/* The job's deadline is attachctl's own, so that it has passed says that the next look may
 * do better. */
static bool may_get_better(const struct message *error)
{
    const struct message *retryable = message_find(error, "retryable");
    return (retryable && retryable->type == MESSAGE_BOOL && retryable->boolean) ||
           message_is_text(message_find(error, "code"), "deadline_exceeded");
}

static enum step take_error_answer(struct logs *logs, const struct reply *reply,
                                   struct arena *arena, struct error *err)
{
    const struct message *message = message_find(reply->error, "message");
    struct error why = {0};
    if (may_get_better(reply->error) && logs->was_answered && logs->options->follow) {
        bool is_text = message && message->type == MESSAGE_TEXT;
        (void)error_set(&why, ERROR_PROVIDER_UNAVAILABLE, "%.*s",
                        is_text ? (int)message->text.size : 0,
                        is_text ? message->text.data : "");
        return wait_for_better(logs, &why, err);
    }
    if (answer_table_append(reply, arena, &logs->output->err) != 0)
        (void)error_set_memory(err, "the output");
    return end_with(logs, EXIT_ANSWER_ERROR);
}

/* ---- what comes ---- */

static enum step take_look(struct logs *logs, enum logs_view_look look,
                           const struct reply *reply, struct error *err)
{
    const struct options *options = logs->options;
    char state[LOGS_VIEW_STATE_SIZE];
    struct error why = {0};
    logs_view_describe(reply, state);
    switch (look) {
    case LOGS_VIEW_MORE:
        return STEP_AGAIN;
    case LOGS_VIEW_NEWS:
        logs->pause_ms = PAUSE_LEAST_MS;
        return options->follow ? STEP_PAUSE : end_with(logs, EXIT_ANSWER_OK);
    case LOGS_VIEW_IDLE:
        return options->follow ? STEP_PAUSE : end_with(logs, EXIT_ANSWER_OK);
    case LOGS_VIEW_COMPLETE:
        if (options->follow && !options->quiet)
            say(logs, state, "");
        return end_with(logs, EXIT_ANSWER_OK);
    case LOGS_VIEW_UNAVAILABLE:
        (void)error_set(&why, ERROR_PROVIDER_UNAVAILABLE,
                        "the sandbox cannot be looked into at present (%s)", state);
        return wait_for_better(logs, &why, err);
    case LOGS_VIEW_STOPPED:
        (void)error_set(err, ERROR_SANDBOX_STOPPED,
                        "the sandbox is stopped; --wake lets it be started");
        return end_with(logs, EXIT_ANSWER_ERROR);
    case LOGS_VIEW_UNKNOWN:
    default:
        (void)error_set(err, ERROR_INVALID_ARGUMENT, "there is no execution %.128s (%s)",
                        options->execution_id, state);
        return end_with(logs, EXIT_ANSWER_ERROR);
    }
}

static enum step take_reply(struct logs *logs, const struct reply *reply,
                            struct arena *arena, struct error *err)
{
    enum logs_view_look look = LOGS_VIEW_UNKNOWN;
    if (!reply->ok)
        return flush(logs, take_error_answer(logs, reply, arena, err), err);
    if (logs_view_take(&logs->view, reply, &look, err) != 0)
        return end_with(logs, EXIT_NO_ANSWER);
    if (look != LOGS_VIEW_UNAVAILABLE) {
        logs->was_answered = true;
        logs->told = false;
    }
    return flush(logs, take_look(logs, look, reply, err), err);
}

/* ---- the looks ---- */

static int make_job(const struct logs *logs, const char *id, struct arena *arena,
                    struct buffer *job, struct error *err)
{
    const struct request_read read = {.stdout_offset = logs->view.streams[0].offset,
                                      .stderr_offset = logs->view.streams[1].offset};
    const struct request request = {
        .options = logs->options,
        .read = &read,
        .id = id,
        .deadline_unix_ms = clock_unix_ms() + logs->options->timeout_ms,
    };
    return request_pack(&request, arena, job, err);
}

SUSPENDS static enum step look(struct logs *logs, struct session *session,
                               struct error *err)
{
    char id[REQUEST_ID_SIZE];
    struct exchange exchange;
    struct error why = {0};
    buffer_scoped struct buffer job;
    arena_scoped struct arena *arena = arena_new(LOOK_ARENA_MAX_BYTES);
    buffer_init(&job, MESSAGE_MAX_BYTES);
    if (!arena) {
        (void)error_set_memory(err, "an answer");
        return end_with(logs, EXIT_USAGE);
    }
    if (request_make_id(id, err) != 0 || make_job(logs, id, arena, &job, err) != 0)
        return end_with(logs, EXIT_USAGE);
    const struct exchange_request request = {
        .job = job.data,
        .job_bytes = job.size,
        .job_id = id,
        .waits = true,
        .expires = true,
        .timeout_ms = (uint64_t)logs->options->timeout_ms,
    };
    if (exchange_in(session, &request, arena, &exchange, &why) != 0)
        return take_exchange_failure(logs, &why, err);
    return take_reply(logs, &exchange.reply, arena, err);
}

SUSPENDS static int follow(struct session *session, void *arg, struct error *err)
{
    struct logs *logs = arg;
    enum step step = STEP_AGAIN;
    while (step != STEP_END) {
        if (step == STEP_PAUSE && task_sleep(logs->pause_ms) != 0)
            return error_set(err, ERROR_CANCELLED, "interrupted");
        if (step == STEP_PAUSE)
            logs->pause_ms =
                logs->pause_ms * 2 < PAUSE_MOST_MS ? logs->pause_ms * 2 : PAUSE_MOST_MS;
        step = look(logs, session, err);
    }
    return 0;
}

static void init(struct logs *logs, const struct options *options,
                 struct run_output *output)
{
    *logs = (struct logs){.options = options,
                          .output = output,
                          .status = EXIT_NO_ANSWER,
                          .pause_ms = PAUSE_LEAST_MS};
    logs_view_init(&logs->view, &output->out, &output->err);
    logs->view.streams[0].is_visible = output->out_is_terminal && !options->raw;
    logs->view.streams[1].is_visible = output->err_is_terminal && !options->raw;
}

enum exit_status logs_run(const struct options *given, const struct address *address,
                          struct run_output *output, struct error *err)
{
    struct options options = *given;
    struct logs logs;
    struct session_end end;
    if (options.timeout_ms == 0)
        options.timeout_ms = LOOK_TIMEOUT_MS;
    const struct session_target target = {.address = *address,
                                          .queue = options.queue,
                                          .connect_ms = (uint64_t)options.timeout_ms};
    init(&logs, &options, output);
    int failed = session_run(&target, follow, &logs, &end, err);
    output->is_stuck = end.is_stuck;
    if (!end.is_interrupted)
        return failed && err->code == ERROR_CONFIGURATION ? EXIT_USAGE : logs.status;
    *err = (struct error){0};
    return EXIT_INTERRUPTED;
}
