/* One function a command, found by a table. Nothing is written here, so that output is
 * whole or not there, and a reader that has gone is met in one place (main.c); only how far
 * a job is goes out at once. */
#include "ctl/run.h"

#include <errno.h>
#include <string.h>

#include "ctl/answer_table.h"
#include "ctl/exchange.h"
#include "ctl/file.h"
#include "ctl/help.h"
#include "ctl/json_output.h"
#include "ctl/logs.h"
#include "ctl/payload.h"
#include "ctl/progress_view.h"
#include "ctl/providers.h"
#include "ctl/request.h"
#include "ctl/visible.h"
#include "runtime/clock.h"

enum {
    ARENA_MAX_BYTES = 512 * 1024 * 1024, /* the largest reply, and its table */
    OUTPUT_MAX_BYTES = 512 * 1024 * 1024,
    DEFAULT_TIMEOUT_MS = 30000,
};

extern const char completion_bash[];
extern const size_t completion_bash_size;

/* What the functions of the commands share. */
struct context {
    const struct options *options;
    const char *(*get)(const char *variable);
    struct run_output *output;
    struct arena *arena;
    struct error *err;
};

void run_output_init(struct run_output *output)
{
    *output = (struct run_output){0};
    buffer_init(&output->out, OUTPUT_MAX_BYTES);
    buffer_init(&output->err, OUTPUT_MAX_BYTES);
}

void run_output_done(struct run_output *output)
{
    buffer_done(&output->out);
    buffer_done(&output->err);
}

static enum exit_status no_memory(struct context *context)
{
    (void)error_set_memory(context->err, "the output");
    return EXIT_USAGE;
}

/* EXIT_ANSWER_OK where the appending went well. */
static enum exit_status appended(struct context *context, int failed)
{
    return failed ? no_memory(context) : EXIT_ANSWER_OK;
}

/* ---- answers ---- */

static int append_ticket(const struct exchange *exchange, const char *id, bool json,
                         struct buffer *out)
{
    if (!json)
        return buffer_append_format(out, "%s\n", id);
    return json_output_take(
        json_pack("{s:s, s:s}", "id", id, "entry", exchange->ticket.entry), out);
}

static int append_raw(const struct reply *reply, struct buffer *out)
{
    const struct message *data = message_find(reply->result, "data");
    if (!data || data->type != MESSAGE_TEXT)
        return -EBADMSG;
    return buffer_append(out, data->text.data, data->text.size);
}

/* With --raw standard output is for the bytes alone, so an error goes the other way. */
static enum exit_status show_reply(struct context *context, const struct reply *reply)
{
    const struct options *options = context->options;
    struct run_output *output = context->output;
    int failed;
    if (options->json)
        failed = json_output_message(reply->map, &output->out);
    else if (options->raw && reply->ok)
        failed = append_raw(reply, &output->out);
    else
        failed = answer_table_append(reply, context->arena,
                                     options->raw ? &output->err : &output->out);
    if (failed == -EBADMSG) {
        (void)error_set(context->err, ERROR_MALFORMED_JOB, "the answer holds no output");
        return EXIT_NO_ANSWER;
    }
    if (failed)
        return no_memory(context);
    return reply->ok ? EXIT_ANSWER_OK : EXIT_ANSWER_ERROR;
}

/* ---- the exchange ---- */

/* What stands on the way between a job's progress and who looks at it. */
struct watching {
    struct run_output *output;
    struct progress_view view;
};

static void show_progress(void *arg, const struct progress_entry *entry)
{
    struct watching *watching = arg;
    struct run_output *output = watching->output;
    /* What cannot be shown is no reason to give up the job. */
    (void)progress_view_show(&watching->view, entry);
    if (output->flush)
        (void)output->flush(output);
}

/* Where the job goes on, and how to come back to it. */
static enum exit_status say_interrupted(struct context *context,
                                        const struct exchange_request *request,
                                        const struct exchange *exchange)
{
    bool has_option = context->options->command != COMMAND_ENQUEUE;
    if (!exchange->begun)
        (void)error_set(context->err, ERROR_CANCELLED, "interrupted; nothing was enqueued");
    else if (!exchange->ticket.entry[0])
        (void)error_set(context->err, ERROR_CANCELLED,
                        "interrupted; job %s may be queued or not", request->job_id);
    else if (!request->has_effects)
        (void)error_set(context->err, ERROR_CANCELLED,
                        "interrupted; the answer to job %s is not waited for",
                        request->job_id);
    else
        (void)error_set(context->err, ERROR_CANCELLED,
                        "interrupted; job %s goes on. The same command%s%s gives its "
                        "answer and does nothing twice",
                        request->job_id, has_option ? " with --job-id " : "",
                        has_option ? request->job_id : "");
    return EXIT_INTERRUPTED;
}

static enum exit_status exchange_job(struct context *context,
                                     struct exchange_request *request)
{
    const struct options *options = context->options;
    struct run_output *output = context->output;
    struct session_target target = {.queue = options->queue,
                                    .connect_ms = request->timeout_ms};
    struct watching watching = {.output = output};
    struct session_end end;
    struct exchange exchange;
    request->waits = !options->no_wait;
    if (address_parse(options->redis_url, &target.address, context->err) != 0)
        return EXIT_USAGE;
    progress_view_init(&watching.view, &output->err, output->err_columns);
    request->on_progress_arg = &watching;
    int failed =
        exchange_run(&target, request, context->arena, &exchange, &end, context->err);
    output->is_stuck = end.is_stuck;
    (void)progress_view_end(&watching.view);
    if (failed && end.is_interrupted)
        return say_interrupted(context, request, &exchange);
    if (failed)
        return context->err->code == ERROR_CONFIGURATION ? EXIT_USAGE : EXIT_NO_ANSWER;
    if (request->waits)
        return show_reply(context, &exchange.reply);
    return appended(context,
                    append_ticket(&exchange, request->job_id, options->json, &output->out));
}

/* ---- commands ---- */

/* Of cancel, the grace comes on top: a worker refuses a job that could not wait for it. */
static int64_t default_timeout_ms(const struct options *options, enum job_op op)
{
    int64_t timeout_ms = (int64_t)job_op_timeout_ms(op);
    return op == JOB_CANCEL ? timeout_ms + options->grace_ms : timeout_ms;
}

/* The job of the options, which have its timeout, and its exchange. */
static int make_request(struct context *context, const struct options *options,
                        enum job_op op, const char *id, struct buffer *job,
                        struct exchange_request *ret_request)
{
    payload_scoped struct payload payload;
    bool launches = op == JOB_DEPLOY || op == JOB_RELAUNCH;
    /* Nobody is to run the job once nobody waits for it. */
    int64_t deadline_unix_ms = options->no_wait ? 0 : clock_unix_ms() + options->timeout_ms;
    const struct request_read from_start = {0};
    struct request request = {
        .options = options,
        .read = options->read ? &from_start : NULL,
        .payload = launches ? &payload : NULL,
        .id = id,
        .progress = launches && !options->no_wait && !options->quiet,
    };
    payload_init(&payload, context->arena, context->get);
    if (launches && payload_read(&payload, &options->launch, context->err) != 0)
        return -1;
    request.deadline_unix_ms = deadline_unix_ms;
    if (request_pack(&request, context->arena, job, context->err) != 0)
        return -1;
    *ret_request = (struct exchange_request){
        .job = job->data,
        .job_bytes = job->size,
        .job_id = id,
        .expires = deadline_unix_ms != 0,
        .has_effects = job_op_has_effects(op),
        .timeout_ms = (uint64_t)options->timeout_ms,
        .on_progress = request.progress ? show_progress : NULL,
    };
    return 0;
}

static enum exit_status run_request(struct context *context)
{
    char id[REQUEST_ID_SIZE];
    buffer_scoped struct buffer job;
    struct options options = *context->options;
    struct exchange_request request;
    enum job_op op = JOB_STATUS;
    buffer_init(&job, MESSAGE_MAX_BYTES);
    if (!request_op(options.command, &op) || request_make_id(id, context->err) != 0)
        return EXIT_USAGE;
    if (options.timeout_ms == 0 && !options.no_wait)
        options.timeout_ms = default_timeout_ms(&options, op);
    if (make_request(context, &options, op, options.job_id ? options.job_id : id, &job,
                     &request) != 0)
        return EXIT_USAGE;
    if (request.timeout_ms == 0)
        request.timeout_ms = job_op_timeout_ms(op);
    return exchange_job(context, &request);
}

/* A job that a worker would refuse is enqueued all the same: the answer is what whoever
 * wrote it wants to see. Without an id there can be none. */
static enum exit_status run_enqueue(struct context *context)
{
    const struct options *options = context->options;
    buffer_scoped struct buffer body;
    struct job job;
    buffer_init(&body, MESSAGE_MAX_BYTES);
    if (file_read(options->operand, &body, context->err) != 0)
        return EXIT_USAGE;
    if (job_read(body.data ? body.data : "", body.size, context->arena, &job,
                 context->err) != 0) {
        if (!job.id) {
            (void)error_wrap(context->err, "not enqueued, for it cannot be answered");
            return EXIT_USAGE;
        }
        *context->err = (struct error){0};
    }
    uint64_t timeout_ms = job.timeout_ms ? job.timeout_ms : DEFAULT_TIMEOUT_MS;
    if (options->timeout_ms)
        timeout_ms = (uint64_t)options->timeout_ms;
    struct exchange_request request = {
        .job = body.data,
        .job_bytes = body.size,
        .job_id = job.id,
        .reply_to = job.reply_to,
        .has_effects = job_op_has_effects(job.op),
        .timeout_ms = timeout_ms,
        .on_progress = job.progress && !options->quiet ? show_progress : NULL,
    };
    return exchange_job(context, &request);
}

static enum exit_status run_logs(struct context *context)
{
    struct address address;
    if (address_parse(context->options->redis_url, &address, context->err) != 0)
        return EXIT_USAGE;
    return logs_run(context->options, &address, context->output, context->err);
}

static enum exit_status run_providers(struct context *context)
{
    struct buffer *out = &context->output->out;
    if (context->options->json)
        return appended(context, providers_append_json(out));
    return appended(context, providers_append_table(context->arena, out));
}

static enum exit_status run_completion(struct context *context)
{
    return appended(context, buffer_append(&context->output->out, completion_bash,
                                           completion_bash_size));
}

static enum exit_status run_help(struct context *context)
{
    const struct options *options = context->options;
    enum command command = options->command;
    if (command == COMMAND_HELP && options->operand)
        command = options_command(options->operand)->command;
    else if (command == COMMAND_HELP && !options->help)
        command = COMMAND_NONE;
    return appended(context, help_append(command, &context->output->out));
}

static enum exit_status run_version(struct context *context)
{
    return appended(context, buffer_append_text(&context->output->out,
                                                "attachctl " ATTACHD_VERSION "\n"));
}

static enum exit_status (*const runs[])(struct context *context) = {
    [COMMAND_ATTACH] = run_request,
    [COMMAND_STATUS] = run_request,
    [COMMAND_READ_OUTPUT] = run_request,
    [COMMAND_DEPLOY] = run_request,
    [COMMAND_RELAUNCH] = run_request,
    [COMMAND_CANCEL] = run_request,
    [COMMAND_LOGS] = run_logs,
    [COMMAND_STOP] = run_request,
    [COMMAND_DESTROY] = run_request,
    [COMMAND_INFO] = run_request,
    [COMMAND_ENQUEUE] = run_enqueue,
    [COMMAND_PROVIDERS] = run_providers,
    [COMMAND_COMPLETION] = run_completion,
    [COMMAND_HELP] = run_help,
};

static enum exit_status run_options(struct context *context)
{
    if (context->options->version)
        return run_version(context);
    if (context->options->help)
        return run_help(context);
    return runs[context->options->command](context);
}

/* Messages may quote what a worker, Redis or the command line said. */
static void append_error(struct buffer *out, const struct error *err)
{
    if (buffer_append_text(out, "attachctl: ") != 0 ||
        visible_append(out, err->message, strlen(err->message), false) != 0 ||
        buffer_append_text(out, "\n") != 0)
        return; /* out of memory: the exit status has to do */
}

enum exit_status run_line(int count, const char *const *words,
                          const char *(*get)(const char *variable),
                          struct run_output *output)
{
    struct options options = {0};
    struct error err = {0};
    enum exit_status status = EXIT_USAGE;
    arena_scoped struct arena *arena = arena_new(ARENA_MAX_BYTES);
    struct context context = {
        .options = &options, .get = get, .output = output, .arena = arena, .err = &err};
    if (!arena) {
        (void)error_set_memory(&err, "anything");
    } else if (options_parse(count, words, get, arena, &options, &err) != 0) {
        append_error(&output->err, &err);
        (void)buffer_append_text(&output->err, "attachctl: see attachctl --help\n");
        return EXIT_USAGE;
    } else {
        status = run_options(&context);
    }
    if (err.code)
        append_error(&output->err, &err);
    return status;
}
