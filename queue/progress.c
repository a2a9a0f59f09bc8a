/* Progress entries: written without waiting, read with suspicion. */
#include "queue/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/script.h"
#include "runtime/loop.h"

enum { CALL_ARENA_BYTES = 4096 };

void progress_entry_set(struct progress_entry *ret_entry, const char *phase, uint64_t bytes,
                        uint64_t total_bytes, const char *line, size_t line_bytes)
{
    *ret_entry = (struct progress_entry){.bytes = bytes, .total_bytes = total_bytes};
    (void)snprintf(ret_entry->phase, sizeof(ret_entry->phase), "%s", phase);
    if (!line)
        return;
    ret_entry->line_bytes = line_bytes < PROGRESS_LINE_MAX ? line_bytes : PROGRESS_LINE_MAX;
    memcpy(ret_entry->line, line, ret_entry->line_bytes);
}

void progress_init(struct progress *progress, struct queue *queue, const char *job_id)
{
    *progress = (struct progress){.queue = queue};
    keys_progress(&queue->keys, job_id, progress->key);
}

static bool is_due(const struct progress *progress, const struct progress_entry *entry)
{
    uint64_t age_ms = loop_now_ms(progress->queue->loop) - progress->sent_at_ms;
    bool is_end = entry->total_bytes != 0 && entry->bytes == entry->total_bytes &&
                  entry->bytes != progress->bytes;
    return strcmp(progress->phase, entry->phase) != 0 || is_end ||
           age_ms >= PROGRESS_EVERY_MS;
}

static void add_number(struct call *call, const char *name, uint64_t number)
{
    call_add_text(call, name);
    call_add_int(call, number < INT64_MAX ? (int64_t)number : INT64_MAX);
}

void progress_add(struct progress *progress, const struct progress_entry *entry)
{
    if (!progress->queue || !connection_is_up(progress->queue->commands) ||
        !is_due(progress, entry))
        return;
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    struct call call;
    if (!arena)
        return;
    script_begin(&call, SCRIPT_PROGRESS, 1, arena);
    call_add_text(&call, progress->key);
    call_add_int(&call, PROGRESS_MAXLEN);
    call_add_int(&call, PROGRESS_LIFE_MS);
    call_add_text(&call, "phase");
    call_add_text(&call, entry->phase);
    add_number(&call, "bytes", entry->bytes);
    add_number(&call, "total_bytes", entry->total_bytes);
    if (entry->line_bytes > 0) {
        call_add_text(&call, "line");
        call_add(&call, entry->line, entry->line_bytes);
    }
    script_post(progress->queue->commands, SCRIPT_PROGRESS, &call);
    (void)snprintf(progress->phase, sizeof(progress->phase), "%s", entry->phase);
    progress->bytes = entry->bytes;
    progress->sent_at_ms = loop_now_ms(progress->queue->loop);
}

static bool is_text(const redisReply *value)
{
    return value->type == REDIS_REPLY_STRING;
}

/* What is no number counts as none. */
static uint64_t number_of(const redisReply *value)
{
    char *end = NULL;
    unsigned long long number = strtoull(value->str, &end, 10);
    bool is_number = value->len > 0 && value->str[0] >= '0' && value->str[0] <= '9' &&
                     end == value->str + value->len;
    return is_number ? number : 0;
}

int progress_read(const redisReply *fields, struct progress_entry *ret_entry)
{
    struct progress_entry entry = {0};
    if (fields->type != REDIS_REPLY_ARRAY)
        return -1;
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        const redisReply *name = fields->element[i];
        const redisReply *value = fields->element[i + 1];
        if (!is_text(name) || !is_text(value))
            continue;
        if (strcmp(name->str, "phase") == 0)
            (void)snprintf(entry.phase, sizeof(entry.phase), "%s", value->str);
        if (strcmp(name->str, "bytes") == 0)
            entry.bytes = number_of(value);
        if (strcmp(name->str, "total_bytes") == 0)
            entry.total_bytes = number_of(value);
        if (strcmp(name->str, "line") == 0) {
            entry.line_bytes =
                value->len < PROGRESS_LINE_MAX ? value->len : PROGRESS_LINE_MAX;
            memcpy(entry.line, value->str, entry.line_bytes);
        }
    }
    if (!entry.phase[0])
        return -1;
    *ret_entry = entry;
    return 0;
}
