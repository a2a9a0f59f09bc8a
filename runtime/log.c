/* Collected lines, written once a turn: a write of its own for each line would cost a
 * system call a job. Formatting never allocates; what does not fit is written at once. */
#include "runtime/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "runtime/task.h"

enum { COLLECTED_BYTES = 16 * 1024, LINE_BYTES = 8 * 1024, VALUE_BYTES = 1024 };

/* The log level and where lines go: the only globals there are. */
static enum log_level least = LOG_INFO;
static enum log_format form = LOG_FORMAT_LOGFMT;
static int descriptor = STDERR_FILENO;
static char collected[COLLECTED_BYTES];
static size_t collected_size;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_set_level(enum log_level level)
{
    least = level;
}

void log_set_format(enum log_format format)
{
    form = format;
}

void log_set_descriptor(int fd)
{
    log_flush();
    descriptor = fd;
}

bool log_is_on(enum log_level level)
{
    return level >= least;
}

bool log_level_from_name(const char *name, enum log_level *ret_level)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

struct line {
    char text[LINE_BYTES];
    size_t size;
};

static void add(struct line *line, const char *text, size_t bytes)
{
    size_t room = sizeof(line->text) - line->size - 2; /* for a closing brace and LF */
    if (bytes > room)
        bytes = room;
    memcpy(line->text + line->size, text, bytes);
    line->size += bytes;
}

static void add_text(struct line *line, const char *text)
{
    add(line, text, strlen(text));
}

/* The inside of a quoted value, the same for logfmt and JSON. Bytes that are no printable
 * ASCII but part of UTF-8 pass; a terminal must not be steered by what a sandbox printed.
 */
static void add_escaped(struct line *line, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[8];
        if (c == '"' || c == '\\')
            (void)snprintf(escape, sizeof(escape), "\\%c", c);
        else if (c == '\n')
            (void)snprintf(escape, sizeof(escape), "\\n");
        else if (c < 0x20 || c == 0x7f)
            (void)snprintf(escape, sizeof(escape), "\\u%04x", c);
        else
            (void)snprintf(escape, sizeof(escape), "%c", c);
        add_text(line, escape);
    }
}

static bool is_plain(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f)
            return false;
    }
    return true;
}

static void add_quoted(struct line *line, const char *text)
{
    add_text(line, "\"");
    add_escaped(line, text, strnlen(text, VALUE_BYTES));
    add_text(line, "\"");
}

static void add_field(struct line *line, const char *key, const char *text, int64_t number)
{
    char digits[24];
    bool json = form == LOG_FORMAT_JSON;
    add_text(line, line->size == 0 ? (json ? "{" : "") : (json ? "," : " "));
    if (json)
        add_quoted(line, key);
    else
        add_text(line, key);
    add_text(line, json ? ":" : "=");
    if (!text) {
        (void)snprintf(digits, sizeof(digits), "%lld", (long long)number);
        add_text(line, digits);
    } else if (!json && is_plain(text) && strlen(text) <= VALUE_BYTES) {
        add_text(line, text);
    } else {
        add_quoted(line, text);
    }
}

static void add_time(struct line *line)
{
    struct timeval now;
    struct tm parts;
    char seconds[32];
    char text[48];
    (void)gettimeofday(&now, NULL);
    (void)gmtime_r(&now.tv_sec, &parts);
    (void)strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text, sizeof(text), "%s.%03dZ", seconds, (int)(now.tv_usec / 1000));
    add_field(line, "time", text, 0);
}

static void add_task(struct line *line)
{
    struct task *task = task_self();
    if (!task)
        return;
    const struct task_context *context = task_context(task);
    if (context->job)
        add_field(line, "job", context->job, 0);
    if (context->op)
        add_field(line, "op", context->op, 0);
    if (context->provider)
        add_field(line, "provider", context->provider, 0);
}

static void write_all(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(descriptor, text, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* nobody reads the log: there is nowhere to say so */
        text += written;
        bytes -= (size_t)written;
    }
}

void log_flush(void)
{
    if (collected_size == 0)
        return;
    write_all(collected, collected_size);
    collected_size = 0;
}

void log_write(enum log_level level, const char *message, const struct log_field *fields)
{
    /* Static: a line of 8 KiB has no place on a task's stack. */
    static struct line line;
    if (!log_is_on(level))
        return;
    line.size = 0;
    add_time(&line);
    add_field(&line, "level", level_names[level], 0);
    add_field(&line, "msg", message, 0);
    add_task(&line);
    for (; fields && fields->key; fields++)
        add_field(&line, fields->key, fields->text, fields->number);
    if (form == LOG_FORMAT_JSON)
        line.text[line.size++] = '}';
    line.text[line.size++] = '\n';
    if (collected_size + line.size > sizeof(collected))
        log_flush();
    memcpy(collected + collected_size, line.text, line.size);
    collected_size += line.size;
    if (level >= LOG_WARN || !task_self())
        log_flush();
}
