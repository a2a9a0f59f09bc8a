/* The progress of a job that asked for it: a short stream of its own, written while the job
 * runs and gone a minute later. Best effort: an answer never waits for it. */
#pragma once

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/keys.h"
#include "queue/queue.h"
#include "runtime/attributes.h"

enum {
    PROGRESS_LINE_MAX = 200, /* bytes */
    PROGRESS_EVERY_MS = 200, /* between two entries of one phase */
    PROGRESS_LIFE_MS = 60000,
    PROGRESS_MAXLEN = 64 /* about */
};

/* What one entry says. */
struct progress_entry {
    char phase[16]; /* upload, extract, install, start */
    uint64_t bytes;
    uint64_t total_bytes;         /* 0: not known */
    size_t line_bytes;            /* 0: no line */
    char line[PROGRESS_LINE_MAX]; /* of a program's output: any bytes, not terminated */
};

/* Fills an entry from texts, cutting what is too long. line may be NULL. */
void progress_entry_set(struct progress_entry *ret_entry, const char *phase, uint64_t bytes,
                        uint64_t total_bytes, const char *line, size_t line_bytes);

/* One job's progress, as its worker writes it. */
struct progress {
    struct queue *queue; /* NULL: nobody wants it, nothing is written */
    char key[KEY_MAX];
    char phase[16]; /* of the last entry that was sent */
    uint64_t bytes;
    uint64_t sent_at_ms;
};

/* Nothing is sent yet. */
void progress_init(struct progress *progress, struct queue *queue, const char *job_id);

/* Sends an entry and waits for nothing. It is dropped while Redis is not connected, and
 * where the last one of the same phase was sent less than PROGRESS_EVERY_MS ago; but the
 * end of a phase (all of its bytes) is told once. From a task or the loop. */
void progress_add(struct progress *progress, const struct progress_entry *entry);

/* Reads the fields of an entry of the stream; what is unknown is passed over. -1: it has no
 * phase. */
NODISCARD int progress_read(const redisReply *fields, struct progress_entry *ret_entry);
