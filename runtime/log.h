/* Log lines on standard error: one line an event, logfmt or JSON.
 *
 *     log_info("job answered", log_text("outcome", "ok"), log_int("run_ms", 12));
 *
 * The time, the level, and the job, operation, provider and step of the running task are
 * added. Lines are collected and written once a turn of the loop (log_flush), or at once
 * where they pass 16 KiB. Values are quoted and escaped, so hostile text stays inside its
 * field; a value is cut at 1 KiB. Only worker/ and ctl/ log above debug. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

struct log_field {
    const char *key;  /* NULL ends the list */
    const char *text; /* NULL: the number stands */
    int64_t number;
};

static inline struct log_field log_text(const char *key, const char *value)
{
    return (struct log_field){.key = key, .text = value ? value : ""};
}

static inline struct log_field log_int(const char *key, int64_t value)
{
    return (struct log_field){.key = key, .number = value};
}

/* The level below which lines are dropped (default LOG_INFO), the form, and where lines go
 * (default: standard error). */
void log_set_level(enum log_level level);
void log_set_format(enum log_format format);
void log_set_descriptor(int fd);
bool log_is_on(enum log_level level);
bool log_level_from_name(const char *name, enum log_level *ret_level);

void log_write(enum log_level level, const char *message, const struct log_field *fields);
void log_flush(void);

#define LOG_FIELDS(...)         ((const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){0}})
#define log_debug(message, ...) log_write(LOG_DEBUG, message, LOG_FIELDS(__VA_ARGS__))
#define log_info(message, ...)  log_write(LOG_INFO, message, LOG_FIELDS(__VA_ARGS__))
#define log_warn(message, ...)  log_write(LOG_WARN, message, LOG_FIELDS(__VA_ARGS__))
#define log_error(message, ...) log_write(LOG_ERROR, message, LOG_FIELDS(__VA_ARGS__))
