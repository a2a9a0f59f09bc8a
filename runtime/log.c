/* Collected lines, written once a turn: a write of its own for each line would cost a
 * system call a job. Formatting never allocates; what does not fit is written at once. */
#include "runtime/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/task.h"
#include "runtime/utf8.h"

enum {
    COLLECTED_BYTES = 16 * 1024,
    LINE_BYTES = 8 * 1024,
    VALUE_BYTES = 1024,
    TAIL_BYTES = 16 /* the marker of a cut line, a brace, LF */
};

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

/* A line under way. A field that does not fit is left out whole, and the line says so: half
 * a field would break the form. */
struct line {
    char text[LINE_BYTES];
    size_t size;
    bool full; /* the present field found no room */
    bool cut;  /* an earlier one did not */
};

static void add(struct line *line, const char *text, size_t bytes)
{
    if (line->full || bytes > LINE_BYTES - TAIL_BYTES - line->size) {
        line->full = true;
        return;
    }
    memcpy(line->text + line->size, text, bytes);
    line->size += bytes;
}

static void add_text(struct line *line, const char *text)
{
    add(line, text, strlen(text));
}

/* How many bytes may stand as they are: printable text and UTF-8, but not the C1 controls,
 * which some terminals obey. */
static size_t count_safe(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        unsigned char c = (unsigned char)text[at];
        size_t step = c < 0x80 ? 1 : utf8_step(text + at, bytes - at);
        if (step == 0 || c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            break;
        if (c == 0xc2 && (unsigned char)text[at + 1] < 0xa0)
            break;
        at += step;
    }
    return at;
}

/* The inside of a quoted value, the same for logfmt and JSON. A terminal must not be
 * steered by what a sandbox printed, and a byte that is no UTF-8 must not break the JSON.
 */
static void add_escaped(struct line *line, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t safe = count_safe(text + at, bytes - at);
        add(line, text + at, safe);
        at += safe;
        if (at == bytes)
            return;
        unsigned char c = (unsigned char)text[at];
        char escape[8];
        if (c == '"' || c == '\\')
            (void)snprintf(escape, sizeof(escape), "\\%c", c);
        else if (c == '\n')
            (void)snprintf(escape, sizeof(escape), "\\n");
        else
            (void)snprintf(escape, sizeof(escape), "\\u%04x", c);
        add_text(line, escape);
        at++;
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

/* At most `most` bytes of the text, and no part of a character. */
static size_t cut_length(const char *text, size_t most)
{
    size_t bytes = strnlen(text, most + 1);
    if (bytes <= most)
        return bytes;
    bytes = most;
    while (bytes > most - 3 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
        bytes--;
    return bytes;
}

static void add_quoted(struct line *line, const char *text)
{
    add_text(line, "\"");
    add_escaped(line, text, cut_length(text, VALUE_BYTES));
    add_text(line, "\"");
}

static void add_field(struct line *line, const char *key, const char *text, int64_t number)
{
    char digits[24];
    bool json = form == LOG_FORMAT_JSON;
    size_t before = line->size;
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
    if (!line->full)
        return;
    line->size = before;
    line->full = false;
    line->cut = true;
}

/* The calendar is worked out once a second. */
static void add_time(struct line *line)
{
    static time_t known;
    static char seconds[24];
    struct timespec now;
    struct tm parts;
    char text[48];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != known || !seconds[0]) {
        (void)gmtime_r(&now.tv_sec, &parts);
        (void)strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &parts);
        known = now.tv_sec;
    }
    (void)snprintf(text, sizeof(text), "%s.%03dZ", seconds, (int)(now.tv_nsec / 1000000));
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
    if (context->job && task_step(task))
        add_field(line, "step", task_step(task), 0);
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
    line.full = line.cut = false;
    add_time(&line);
    add_field(&line, "level", level_names[level], 0);
    add_field(&line, "msg", message, 0);
    add_task(&line);
    for (; fields && fields->key; fields++)
        add_field(&line, fields->key, fields->text, fields->number);
    const char *marker = form == LOG_FORMAT_JSON ? ",\"cut\":1" : " cut=1";
    const char *tail = form == LOG_FORMAT_JSON ? "}\n" : "\n";
    for (const char *c = line.cut ? marker : ""; *c; c++)
        line.text[line.size++] = *c; /* TAIL_BYTES are kept for these */
    for (const char *c = tail; *c; c++)
        line.text[line.size++] = *c;
    if (collected_size + line.size > sizeof(collected))
        log_flush();
    memcpy(collected + collected_size, line.text, line.size);
    collected_size += line.size;
    if (level >= LOG_WARN || !task_self())
        log_flush();
}
