/* One function a command, found by a table. Nothing is written here, so that output is
 * whole or not there, and a reader that has gone is met in one place (main.c). */
#include "ctl/run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/answer_table.h"
#include "ctl/exchange.h"
#include "ctl/help.h"
#include "ctl/json_output.h"
#include "ctl/providers.h"
#include "ctl/request.h"
#include "ctl/visible.h"

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

static enum exit_status exchange_job(struct context *context,
                                     struct exchange_request *request)
{
    const struct options *options = context->options;
    struct exchange exchange;
    request->queue = options->queue;
    request->waits = !options->no_wait;
    if (address_parse(options->redis_url, &request->address, context->err) != 0)
        return EXIT_USAGE;
    int failed = exchange_run(request, context->arena, &exchange, context->err);
    context->output->is_stuck = exchange.is_stuck;
    if (failed)
        return context->err->code == ERROR_CONFIGURATION ? EXIT_USAGE : EXIT_NO_ANSWER;
    if (request->waits)
        return show_reply(context, &exchange.reply);
    return appended(context, append_ticket(&exchange, request->job_id, options->json,
                                           &context->output->out));
}

/* ---- commands ---- */

static int64_t unix_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static enum exit_status run_request(struct context *context)
{
    char id[REQUEST_ID_SIZE];
    buffer_scoped struct buffer job;
    struct options options = *context->options;
    int64_t deadline_unix_ms = 0;
    buffer_init(&job, MESSAGE_MAX_BYTES);
    if (!options.no_wait) {
        /* Nobody is to run the job once nobody waits for it. */
        if (options.timeout_ms == 0)
            options.timeout_ms = DEFAULT_TIMEOUT_MS;
        deadline_unix_ms = unix_now_ms() + options.timeout_ms;
    }
    if (request_make_id(id, context->err) != 0 ||
        request_pack(&options, id, deadline_unix_ms, context->arena, &job, context->err) !=
            0)
        return EXIT_USAGE;
    struct exchange_request request = {
        .job = job.data,
        .job_bytes = job.size,
        .job_id = id,
        .expires = deadline_unix_ms != 0,
        .timeout_ms =
            options.timeout_ms ? (uint64_t)options.timeout_ms : DEFAULT_TIMEOUT_MS,
    };
    return exchange_job(context, &request);
}

static int read_all(int fd, const char *name, struct buffer *out, struct error *err)
{
    char chunk[2048];
    ssize_t bytes = 1;
    while (bytes > 0) {
        bytes = read(fd, chunk, sizeof(chunk));
        if (bytes < 0 && errno == EINTR) {
            bytes = 1;
            continue;
        }
        if (bytes < 0)
            return error_set(err, ERROR_CONFIGURATION, "cannot read %.200s: %s", name,
                             strerror(errno));
        int failed = buffer_append(out, chunk, (size_t)bytes);
        if (failed == -EMSGSIZE)
            return error_set(err, ERROR_CONFIGURATION, "%.200s is longer than %d bytes",
                             name, MESSAGE_MAX_BYTES);
        if (failed)
            return error_set_memory(err, "a job");
    }
    return 0;
}

static int read_file(const char *path, struct buffer *out, struct error *err)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", out, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, ERROR_CONFIGURATION, "cannot open %.200s: %s", path,
                         strerror(errno));
    int failed = read_all(fd, path, out, err);
    (void)close(fd);
    return failed;
}

/* A job that a worker would refuse is enqueued all the same: the answer is what whoever
 * wrote it wants to see. Without an id there can be none. */
static enum exit_status run_enqueue(struct context *context)
{
    const struct options *options = context->options;
    buffer_scoped struct buffer body;
    struct job job;
    buffer_init(&body, MESSAGE_MAX_BYTES);
    if (read_file(options->operand, &body, context->err) != 0)
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
        .timeout_ms = timeout_ms,
    };
    return exchange_job(context, &request);
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
    [COMMAND_ATTACH] = run_request,        [COMMAND_STATUS] = run_request,
    [COMMAND_READ_OUTPUT] = run_request,   [COMMAND_INFO] = run_request,
    [COMMAND_ENQUEUE] = run_enqueue,       [COMMAND_PROVIDERS] = run_providers,
    [COMMAND_COMPLETION] = run_completion, [COMMAND_HELP] = run_help,
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
        .options = &options, .output = output, .arena = arena, .err = &err};
    if (!arena) {
        (void)error_set_memory(&err, "anything");
    } else if (options_parse(count, words, get, &options, &err) != 0) {
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
