/* The error object: one table of codes, a few ways to fill it. */
#include "runtime/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    bool retryable;
} error_table[] = {
#define ERROR_ROW(code, name, retryable) [code] = {name, retryable},
    ERROR_CODES(ERROR_ROW)
#undef ERROR_ROW
};

#define ERROR_COUNT (sizeof(error_table) / sizeof(error_table[0]))

const char *error_code_name(enum error_code code)
{
    if ((size_t)code >= ERROR_COUNT)
        return error_table[ERROR_INTERNAL].name;
    return error_table[code].name;
}

enum error_code error_code_from_name(const char *name)
{
    for (size_t i = 0; i < ERROR_COUNT; i++) {
        if (strcmp(error_table[i].name, name) == 0)
            return (enum error_code)i;
    }
    return ERROR_INTERNAL;
}

__attribute__((format(printf, 3, 0))) static int
set(struct error *err, enum error_code code, const char *format, va_list arguments)
{
    if (!err)
        return -1;
    *err = (struct error){.code = code, .retryable = error_table[code].retryable};
    (void)vsnprintf(err->message, sizeof(err->message), format, arguments);
    return -1;
}

int error_set(struct error *err, enum error_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)set(err, code, format, arguments);
    va_end(arguments);
    return -1;
}

int error_set_field(struct error *err, const char *field, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)set(err, ERROR_INVALID_ARGUMENT, format, arguments);
    va_end(arguments);
    if (err)
        (void)snprintf(err->field, sizeof(err->field), "%s", field);
    return -1;
}

int error_wrap(struct error *err, const char *context)
{
    if (!err)
        return -1;
    size_t room = sizeof(err->message);
    size_t prefix = strnlen(context, room / 2) + 2;
    size_t rest = strlen(err->message);
    if (prefix + rest >= room)
        rest = room - prefix - 1;
    memmove(err->message + prefix, err->message, rest);
    err->message[prefix + rest] = '\0';
    memcpy(err->message, context, prefix - 2);
    memcpy(err->message + prefix - 2, ": ", 2);
    return -1;
}

int error_set_memory(struct error *err, const char *what)
{
    return error_set(err, ERROR_INTERNAL, "out of memory for %s", what);
}

int error_set_wait(struct error *err, int wait_result, const char *what)
{
    switch (wait_result) {
    case -ETIMEDOUT:
        return error_set(err, ERROR_TIMEOUT, "%s took too long", what);
    case -ECANCELED:
        return error_set(err, ERROR_CANCELLED, "%s was cancelled", what);
    case -ENOMEM:
        return error_set_memory(err, what);
    default:
        return error_set(err, ERROR_INTERNAL, "%s: %s", what, strerror(-wait_result));
    }
}
