/* Jobs: what a producer wrote, read key by key.
 *
 * The envelope is read by a table of steps in the order in which their errors count. The
 * first failure is the one reported; the steps after it still run, so that the reply can
 * say what was readable (the id and where to reply to above all). */
#include "queue/job.h"

#include "runtime/name.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { JOB_VERSION_LEAST = 1 };
enum { OP_NAME_MAX = 64, TRACEPARENT_MAX = 256, PROVIDER_MAX = 128, SANDBOX_ID_MAX = 1024 };
enum { SANDBOX_NAME_MAX = 48, SANDBOX_VALUE_MAX = 4096, PATH_BYTES_MAX = 4096 };
enum { TIMEOUT_MAX_MS = 24 * 60 * 60 * 1000 };
enum { ATTEMPTS_DEFAULT = 8, ATTEMPTS_MAX = 50, GRACE_DEFAULT_MS = 5000 };
enum { READ_DEFAULT_BYTES = 1024 * 1024 };
enum { DESTROY_ATTEMPTS_DEFAULT = 3, DESTROY_DELAY_DEFAULT_MS = 250 };

static const struct {
    const char *name;
    uint64_t timeout_ms;
    bool needs_execution;
    bool has_effects;
} op_table[] = {
#define JOB_OP_ROW(op, name, needs_execution, timeout_ms, has_effects)                     \
    [op] = {name, timeout_ms, needs_execution, has_effects},
    JOB_OPS(JOB_OP_ROW)
#undef JOB_OP_ROW
};

enum { OP_COUNT = sizeof(op_table) / sizeof(op_table[0]) };

#define JOB_OP_LISTED(op, name, needs_execution, timeout_ms, has_effects) ", " name
/* ", attach, status, ...": shown from its third byte on. */
static const char op_names[] = JOB_OPS(JOB_OP_LISTED);
#undef JOB_OP_LISTED

const char *job_op_name(enum job_op op)
{
    return op_table[op].name;
}

bool job_op_from_name(const char *name, enum job_op *ret_op)
{
    for (size_t i = 0; i < OP_COUNT; i++) {
        if (strcmp(op_table[i].name, name) == 0) {
            *ret_op = (enum job_op)i;
            return true;
        }
    }
    return false;
}

bool job_op_needs_execution(enum job_op op)
{
    return op_table[op].needs_execution;
}

bool job_op_has_effects(enum job_op op)
{
    return op_table[op].has_effects;
}

uint64_t job_op_timeout_ms(enum job_op op)
{
    return op_table[op].timeout_ms;
}

bool job_is_name(const char *text, size_t bytes)
{
    return name_is_valid(text, bytes, "._:-");
}

/* The value of a key that may be left out. Nil counts as left out: encoders of several
 * languages write it for a member that was never set. */
static const struct message *find(const struct message *map, const char *key)
{
    const struct message *value = message_find(map, key);
    return value && value->type != MESSAGE_NIL ? value : NULL;
}

static int read_version(struct job *job, struct arena *arena, struct error *err)
{
    (void)arena;
    int64_t version = JOB_VERSION;
    const struct message *value = find(job->map, "v");
    if (!value)
        return 0;
    if (message_integer(value, "v", INT64_MIN, INT64_MAX, &version, err))
        return -1;
    if (version >= JOB_VERSION_LEAST && version <= JOB_VERSION)
        return 0;
    (void)error_set(err, ERROR_UNSUPPORTED_VERSION,
                    "job version %lld is not supported; the supported range is %d to %d",
                    (long long)version, JOB_VERSION_LEAST, JOB_VERSION);
    if (err)
        (void)snprintf(err->field, sizeof(err->field), "v");
    return -1;
}

/* An id that is no name cannot be part of a key or be replied to: the job is malformed. */
static int read_id(struct job *job, struct arena *arena, struct error *err)
{
    const struct message *value = find(job->map, "id");
    if (value && value->type == MESSAGE_TEXT &&
        job_is_name(value->text.data, value->text.size))
        return message_text(value, "id", JOB_ID_MAX, arena, &job->id, err);
    (void)error_set(err, ERROR_MALFORMED_JOB,
                    value ? "id must be a text of 1 to 128 letters, digits, dots, "
                            "underscores, colons and hyphens, a letter or digit first"
                          : "id is required");
    if (err)
        (void)snprintf(err->field, sizeof(err->field), "id");
    return -1;
}

static int read_reply_to(struct job *job, struct arena *arena, struct error *err)
{
    const struct message *value = find(job->map, "reply_to");
    if (!value)
        return 0;
    if (value->type == MESSAGE_TEXT && job_is_name(value->text.data, value->text.size))
        return message_text(value, "reply_to", JOB_ID_MAX, arena, &job->reply_to, err);
    return error_set_field(err, "reply_to",
                           "reply_to must be a text of 1 to 128 letters, digits, dots, "
                           "underscores, colons and hyphens, a letter or digit first");
}

/* Shortens a text that is only to be shown, between two characters. */
static struct message cut(const struct message *value, size_t max_bytes)
{
    struct message shorter = *value;
    if (value->type != MESSAGE_TEXT || value->text.size <= max_bytes)
        return shorter;
    shorter.text.size = max_bytes;
    while (shorter.text.size > 0 && (shorter.text.data[shorter.text.size] & 0xc0) == 0x80)
        shorter.text.size--;
    return shorter;
}

static int read_op(struct job *job, struct arena *arena, struct error *err)
{
    const struct message *value = find(job->map, "op");
    if (!value)
        return error_set_field(err, "op", "op is required");
    struct message shown = cut(value, OP_NAME_MAX);
    if (message_text(&shown, "op", OP_NAME_MAX, arena, &job->op_name, err))
        return -1;
    if (job_op_from_name(job->op_name, &job->op))
        return 0;
    (void)error_set(err, ERROR_UNKNOWN_OPERATION, "unknown operation \"%s\"; there are %s",
                    job->op_name, op_names + 2);
    if (err)
        (void)snprintf(err->field, sizeof(err->field), "op");
    return -1;
}

static int read_required_text(const struct message *value, const char *field,
                              size_t max_bytes, struct arena *arena, const char **ret_text,
                              struct error *err)
{
    const char *text = NULL;
    if (!value)
        return error_set_field(err, field, "%s is required", field);
    if (message_text(value, field, max_bytes, arena, &text, err))
        return -1;
    if (text[0] == '\0')
        return error_set_field(err, field, "%s must not be empty", field);
    *ret_text = text;
    return 0;
}

/* Providers take texts, so numbers and booleans are written out. */
static int read_sandbox_value(const struct message *value, const char *field,
                              struct arena *arena, const char **ret_text, struct error *err)
{
    int64_t integer = 0;
    if (value->type == MESSAGE_TEXT)
        return message_text(value, field, SANDBOX_VALUE_MAX, arena, ret_text, err);
    const char *text = NULL;
    if (value->type == MESSAGE_BOOL)
        text = arena_text(arena, value->boolean ? "true" : "false");
    else if (message_integer(value, field, INT64_MIN, INT64_MAX, &integer, NULL) == 0)
        text = arena_printf(arena, "%lld", (long long)integer);
    else
        return error_set_field(err, field, "%s must be a text, an integer or a boolean",
                               field);
    if (!text)
        return error_set_memory(err, field);
    *ret_text = text;
    return 0;
}

static int read_sandbox_key(const struct message_pair *pair, struct arena *arena,
                            struct job_sandbox_key *ret_key, struct error *err)
{
    char field[64];
    struct job_sandbox_key key = {0};
    if (read_required_text(&pair->key, "a key of sandbox", SANDBOX_NAME_MAX, arena,
                           &key.name, err)) {
        if (err && err->code == ERROR_INVALID_ARGUMENT)
            (void)snprintf(err->field, sizeof(err->field), "sandbox");
        return -1;
    }
    (void)snprintf(field, sizeof(field), "sandbox.%s", key.name);
    if (read_sandbox_value(&pair->value, field, arena, &key.value, err))
        return -1;
    *ret_key = key;
    return 0;
}

static bool is_further_sandbox_key(const struct message_pair *pair)
{
    return !message_is_text(&pair->key, "provider") && !message_is_text(&pair->key, "id") &&
           pair->value.type != MESSAGE_NIL;
}

static int read_sandbox_keys(struct job *job, const struct message *map,
                             struct arena *arena, struct error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < map->map.count; i++)
        count += is_further_sandbox_key(&map->map.pairs[i]);
    if (count > JOB_MAX_SANDBOX_KEYS)
        return error_set_field(err, "sandbox",
                               "sandbox must have at most %d keys beside provider and id",
                               JOB_MAX_SANDBOX_KEYS);
    struct job_sandbox_key *keys = arena_calloc(arena, count, sizeof(*keys));
    if (!keys)
        return error_set_memory(err, "the keys of sandbox");
    size_t read = 0;
    for (size_t i = 0; i < map->map.count; i++) {
        const struct message_pair *pair = &map->map.pairs[i];
        if (!is_further_sandbox_key(pair))
            continue;
        if (read_sandbox_key(pair, arena, &keys[read++], err))
            return -1;
    }
    job->sandbox_keys = keys;
    job->sandbox_key_count = count;
    return 0;
}

static int read_sandbox(struct job *job, struct arena *arena, struct error *err)
{
    const struct message *map = find(job->map, "sandbox");
    if (!map)
        return error_set_field(err, "sandbox", "sandbox is required");
    if (map->type != MESSAGE_MAP)
        return error_set_field(err, "sandbox", "sandbox must be a map");
    if (read_required_text(find(map, "provider"), "sandbox.provider", PROVIDER_MAX, arena,
                           &job->provider, err) ||
        read_required_text(find(map, "id"), "sandbox.id", SANDBOX_ID_MAX, arena,
                           &job->sandbox_id, err))
        return -1;
    return read_sandbox_keys(job, map, arena, err);
}

/* Zero stands for none, so a deadline before 1970 becomes its first millisecond: both are
 * long past. */
static int read_deadline(struct job *job, struct arena *arena, struct error *err)
{
    (void)arena;
    int64_t unix_ms = 0;
    const struct message *value = find(job->map, "deadline_ms");
    if (!value)
        return 0;
    if (message_time(value, "deadline_ms", &unix_ms, err))
        return -1;
    job->deadline_unix_ms = unix_ms < 1 ? 1 : unix_ms;
    return 0;
}

/* An integer of a map that keeps its value where the key is left out. */
static int read_integer(const struct message *map, const char *key, const char *field,
                        int64_t least, int64_t most, int64_t *ret_integer,
                        struct error *err)
{
    const struct message *value = find(map, key);
    if (!value)
        return 0;
    return message_integer(value, field, least, most, ret_integer, err);
}

static int read_limits(struct job *job, struct arena *arena, struct error *err)
{
    (void)arena;
    int64_t timeout_ms = (int64_t)op_table[job->op].timeout_ms;
    int64_t max_attempts = ATTEMPTS_DEFAULT;
    if (read_integer(job->map, "timeout_ms", "timeout_ms", 1, TIMEOUT_MAX_MS, &timeout_ms,
                     err) ||
        read_integer(job->map, "max_attempts", "max_attempts", 1, ATTEMPTS_MAX,
                     &max_attempts, err))
        return -1;
    job->timeout_ms = (uint64_t)timeout_ms;
    job->max_attempts = (int)max_attempts;
    return 0;
}

static int read_progress(struct job *job, struct arena *arena, struct error *err)
{
    (void)arena;
    const struct message *value = find(job->map, "progress");
    if (!value)
        return 0;
    return message_boolean(value, "progress", &job->progress, err);
}

/* VERSION-TRACE-PARENT-FLAGS of 2, 32, 16 and 2 hexadecimal digits; a later version may go
 * on after another hyphen (https://www.w3.org/TR/trace-context/). It goes into logs, hence
 * only visible ASCII. */
static bool is_traceparent(const char *text, size_t bytes)
{
    enum { FIXED_BYTES = 55 };
    if (bytes < FIXED_BYTES || (bytes > FIXED_BYTES && text[FIXED_BYTES] != '-'))
        return false;
    for (size_t i = 0; i < FIXED_BYTES; i++) {
        bool hyphen = i == 2 || i == 35 || i == 52;
        if (hyphen ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    for (size_t i = FIXED_BYTES; i < bytes; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    }
    return true;
}

static int read_traceparent(struct job *job, struct arena *arena, struct error *err)
{
    const struct message *value = find(job->map, "traceparent");
    if (!value)
        return 0;
    if (value->type == MESSAGE_TEXT && !is_traceparent(value->text.data, value->text.size))
        return error_set_field(err, "traceparent",
                               "traceparent must have the form of W3C Trace Context");
    return message_text(value, "traceparent", TRACEPARENT_MAX, arena, &job->traceparent,
                        err);
}

static int (*const envelope_steps[])(struct job *job, struct arena *arena,
                                     struct error *err) = {
    read_version,  read_id,     read_reply_to, read_op,          read_sandbox,
    read_deadline, read_limits, read_progress, read_traceparent,
};

static int read_map(const void *body, size_t bytes, struct arena *arena, struct job *job,
                    struct error *err)
{
    struct message *map = arena_alloc(arena, sizeof(*map));
    if (!map)
        return error_set_memory(err, "a job");
    if (message_read(body, bytes, arena, map, err))
        return -1;
    if (map->type != MESSAGE_MAP)
        return error_set(err, ERROR_MALFORMED_JOB, "a job must be a map");
    job->map = map;
    return 0;
}

int job_read(const void *body, size_t bytes, struct arena *arena, struct job *ret_job,
             struct error *err)
{
    int result = 0;
    *ret_job = (struct job){.max_attempts = ATTEMPTS_DEFAULT,
                            .termination_grace_ms = GRACE_DEFAULT_MS};
    if (read_map(body, bytes, arena, ret_job, err))
        return -1;
    for (size_t i = 0; i < sizeof(envelope_steps) / sizeof(envelope_steps[0]); i++) {
        if (envelope_steps[i](ret_job, arena, result ? NULL : err))
            result = -1;
    }
    return result;
}

/* A text that can be no execution id is refused with the words that execution/ has for all
 * the others, which never sees those that are no C string. */
static int read_execution_id(struct job *job, struct arena *arena, struct error *err)
{
    const struct message *value = find(job->map, "execution_id");
    struct error text_error = {0};
    if (!value)
        return 0;
    if (message_text(value, "execution_id", PATH_BYTES_MAX, arena, &job->execution_id,
                     &text_error) == 0)
        return 0;
    if (value->type == MESSAGE_TEXT && text_error.code == ERROR_INVALID_ARGUMENT)
        return error_set_field(err, "execution_id",
                               "Worker executionId must contain only letters, numbers, "
                               "dots, underscores, and hyphens.");
    if (err)
        *err = text_error;
    return -1;
}

static int read_remote_dir(struct job *job, struct arena *arena, struct error *err)
{
    const struct message *value = find(job->map, "remote_dir");
    if (!value)
        return 0;
    return message_text(value, "remote_dir", PATH_BYTES_MAX, arena, &job->remote_dir, err);
}

static int read_termination_grace(struct job *job, struct error *err)
{
    const struct message *value = find(job->map, "termination_grace_ms");
    double grace_ms = 0;
    if (!value)
        return 0;
    if (message_number(value, "termination_grace_ms", &grace_ms, err))
        return -1;
    if (!(grace_ms > 0 && grace_ms < __builtin_inf()))
        return error_set_field(err, "termination_grace_ms",
                               "terminationGraceMs must be greater than zero.");
    job->termination_grace_ms = grace_ms;
    return 0;
}

static int read_wake(struct job *job, struct error *err)
{
    const struct message *value = find(job->map, "wake");
    if (!value)
        return 0;
    return message_boolean(value, "wake", &job->wake, err);
}

static int read_stream(const struct message *map, const char *key, const char *field,
                       int64_t max_bytes, struct job_read_stream *stream, struct error *err)
{
    int64_t offset = 0;
    if (read_integer(map, key, field, 0, INT64_MAX, &offset, err))
        return -1;
    *stream = (struct job_read_stream){
        .wanted = true, .offset = (uint64_t)offset, .max_bytes = (uint64_t)max_bytes};
    return 0;
}

/* A misspelt key would silently read nothing. */
static int check_read_keys(const struct message *map, struct error *err)
{
    static const char *const known[] = {"stdout", "stderr", "max_bytes"};
    for (size_t i = 0; i < map->map.count; i++) {
        const struct message *key = &map->map.pairs[i].key;
        if (!message_is_text(key, known[0]) && !message_is_text(key, known[1]) &&
            !message_is_text(key, known[2]))
            return error_set_field(err, "read",
                                   "read takes only the keys stdout, stderr and max_bytes");
    }
    return 0;
}

static int read_read(struct job *job, struct error *err)
{
    const struct message *map = find(job->map, "read");
    int64_t max_bytes = READ_DEFAULT_BYTES;
    if (!map)
        return 0;
    if (map->type != MESSAGE_MAP)
        return error_set_field(err, "read", "read must be a map");
    if (check_read_keys(map, err) || read_integer(map, "max_bytes", "read.max_bytes", 1,
                                                  JOB_READ_MAX_BYTES, &max_bytes, err))
        return -1;
    if (find(map, "stdout") &&
        read_stream(map, "stdout", "read.stdout", max_bytes, &job->read_stdout, err))
        return -1;
    if (find(map, "stderr") &&
        read_stream(map, "stderr", "read.stderr", max_bytes, &job->read_stderr, err))
        return -1;
    return 0;
}

static int read_output(struct job *job, struct error *err)
{
    const struct message *stream = find(job->map, "stream");
    int64_t max_bytes = READ_DEFAULT_BYTES;
    bool is_stderr = message_is_text(stream, "stderr");
    if (stream && !is_stderr && !message_is_text(stream, "stdout"))
        return error_set_field(err, "stream", "stream must be \"stdout\" or \"stderr\"");
    if (read_integer(job->map, "max_bytes", "max_bytes", 1, JOB_READ_MAX_BYTES, &max_bytes,
                     err))
        return -1;
    return read_stream(job->map, "offset", "offset", max_bytes,
                       is_stderr ? &job->read_stderr : &job->read_stdout, err);
}

static int read_deploy(struct job *job, struct arena *arena, struct error *err)
{
    struct job_deploy *deploy = arena_calloc(arena, 1, sizeof(*deploy));
    if (!deploy)
        return error_set_memory(err, "a job");
    job->deploy = deploy;
    return job_deploy_read(job->map, job->op == JOB_RELAUNCH, arena, deploy, err);
}

/* The attempts as the original takes them, 1.9 as 1 and 0 too; NaN, of which it makes no
 * attempt at all, is refused. */
static int read_destroy(struct job *job, struct error *err)
{
    const struct message *attempts = find(job->map, "attempts");
    int64_t delay_ms = DESTROY_DELAY_DEFAULT_MS;
    job->destroy.attempts = DESTROY_ATTEMPTS_DEFAULT;
    if (attempts && message_number(attempts, "attempts", &job->destroy.attempts, err))
        return -1;
    if (!(fabs(job->destroy.attempts) <= JOB_DESTROY_MAX_ATTEMPTS))
        return error_set_field(err, "attempts", "attempts must be at most %d",
                               JOB_DESTROY_MAX_ATTEMPTS);
    if (read_integer(job->map, "delay_ms", "delay_ms", 0, JOB_DESTROY_MAX_DELAY_MS,
                     &delay_ms, err))
        return -1;
    job->destroy.delay_ms = (uint64_t)delay_ms;
    return 0;
}

static int read_operation(struct job *job, struct arena *arena, struct error *err)
{
    switch (job->op) {
    case JOB_DEPLOY:
    case JOB_RELAUNCH:
        return read_deploy(job, arena, err);
    case JOB_ATTACH:
        return read_read(job, err);
    case JOB_READ_OUTPUT:
        return read_output(job, err);
    case JOB_DESTROY:
        return read_destroy(job, err);
    case JOB_STATUS:
    case JOB_CANCEL:
    case JOB_INFO:
    case JOB_STOP:
    default:
        return 0;
    }
}

int job_read_arguments(struct job *job, struct arena *arena, struct error *err)
{
    struct job read = *job;
    if (read_execution_id(&read, arena, err) || read_remote_dir(&read, arena, err) ||
        read_termination_grace(&read, err) || read_wake(&read, err) ||
        read_operation(&read, arena, err))
        return -1;
    *job = read;
    return 0;
}
