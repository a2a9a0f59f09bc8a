/* Limits: the names on both sides, and the answer of a preflight. */
#include "execution/limits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LIMIT_COUNT = 4, DETAIL_BYTES = 4000 };

static const double SAFE_INTEGER_MAX = 9007199254740991.0;
static const char MARK[] = "MASTRA_WORKER_CAPABILITY:";

/* Ours, and the original's, which its messages use; in its order. */
static const struct {
    const char *name;
    const char *original;
    size_t member;
} rows[LIMIT_COUNT] = {
    {"cpu_time_seconds", "cpuTimeSeconds", offsetof(struct limits, cpu_time_seconds)},
    {"address_space_bytes", "addressSpaceBytes",
     offsetof(struct limits, address_space_bytes)},
    {"file_size_bytes", "fileSizeBytes", offsetof(struct limits, file_size_bytes)},
    {"open_files", "openFiles", offsetof(struct limits, open_files)},
};

bool limits_are_set(const struct limits *limits)
{
    return limits->cpu_time_seconds || limits->address_space_bytes ||
           limits->file_size_bytes || limits->open_files;
}

static int find_row(const char *name)
{
    for (int i = 0; i < LIMIT_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return i;
    }
    return -1;
}

static bool is_safe_integer(const struct limits_entry *entry)
{
    return entry->is_number && entry->value >= 1 && entry->value <= SAFE_INTEGER_MAX &&
           floor(entry->value) == entry->value;
}

static int refuse_value(int row, struct error *err)
{
    char field[64];
    (void)snprintf(field, sizeof(field), "resource_limits.%s", rows[row].name);
    return error_set_field(err, field,
                           "Worker resourceLimits.%s must be a positive safe integer.",
                           rows[row].original);
}

int limits_check(const struct limits_entry *entries, size_t count,
                 struct limits *ret_limits, struct error *err)
{
    const struct limits_entry *given[LIMIT_COUNT] = {NULL};
    struct limits limits = {0};
    for (size_t i = 0; i < count; i++) {
        int row = find_row(entries[i].name);
        if (row < 0)
            return error_set_field(err, "resource_limits",
                                   "Unknown worker resource limit: %s.", entries[i].name);
        given[row] = &entries[i];
    }
    for (int row = 0; row < LIMIT_COUNT; row++) {
        if (!given[row])
            continue;
        if (!is_safe_integer(given[row]))
            return refuse_value(row, err);
        *(uint64_t *)(void *)((char *)&limits + rows[row].member) =
            (uint64_t)given[row]->value;
    }
    *ret_limits = limits;
    return 0;
}

/* The name behind the first mark of a text; its length, 0 where there is none. */
static size_t find_capability(const struct exec_output *output, const char **ret_name)
{
    const char *end = output->data + output->size;
    for (const char *at = output->data; at && at < end; at++) {
        at = memmem(at, (size_t)(end - at), MARK, sizeof(MARK) - 1);
        if (!at)
            return 0;
        const char *name = at + sizeof(MARK) - 1;
        size_t bytes = 0;
        while (name + bytes < end &&
               ((name[bytes] >= 'a' && name[bytes] <= 'z') || name[bytes] == '_'))
            bytes++;
        if (bytes > 0) {
            *ret_name = name;
            return bytes;
        }
    }
    return 0;
}

/* What was printed, without the blanks around it. */
static const char *printed(const struct exec_result *exec, struct arena *arena)
{
    const struct exec_output *output = exec->err.size > 0 ? &exec->err : &exec->out;
    const char *data = output->data;
    size_t size = output->size;
    while (size > 0 && strchr(" \t\r\n", data[size - 1]))
        size--;
    while (size > 0 && strchr(" \t\r\n", *data)) {
        data++;
        size--;
    }
    if (size == 0)
        return "Resource-limit preflight command failed.";
    return arena_text_n(arena, data, size < DETAIL_BYTES ? size : DETAIL_BYTES);
}

int limits_judge(const struct exec_result *exec, struct arena *arena, struct error *err)
{
    const char *name = "sandbox_command";
    if (exec->end == EXEC_EXITED && exec->exit_code == 0)
        return 0;
    size_t bytes = find_capability(&exec->err, &name);
    if (bytes == 0)
        bytes = find_capability(&exec->out, &name);
    if (bytes == 0)
        bytes = strlen(name);
    if (bytes >= sizeof(err->capability))
        bytes = sizeof(err->capability) - 1;
    (void)error_set(err, ERROR_CAPABILITY_UNAVAILABLE,
                    "Worker resource-limit capability \"%.*s\" is unavailable.", (int)bytes,
                    name);
    (void)snprintf(err->capability, sizeof(err->capability), "%.*s", (int)bytes, name);
    err->remedy = "leave the limit out, or use a sandbox that can hold to it";
    err->detail = printed(exec, arena);
    return -1;
}
