/* The producer's side: enqueueing a job and waiting for its reply. */
#pragma once

#include "queue/progress.h"
#include "queue/queue.h"
#include "queue/reply.h"

struct producer_ticket {
    char entry[44]; /* of the job in the jobs stream */
    char after[44]; /* replies are looked for after this entry of the reply stream */
    char progress_after[44]; /* likewise; empty: from when the job was enqueued */
};

/* Adds the job's bytes. reply_to (NULL: the default) is the stream that producer_wait will
 * look at. -1 with queue_unavailable; after a lost connection the job may be queued. */
SUSPENDS NODISCARD int producer_enqueue(struct queue *queue, const void *job, size_t bytes,
                                        const char *reply_to,
                                        struct producer_ticket *ret_ticket,
                                        struct error *err);

/* Waits for the reply to this job until the task's deadline. The reply's bytes live in the
 * arena. -1: timeout, cancelled, queue_unavailable. */
SUSPENDS NODISCARD int producer_wait(struct queue *queue, const char *job_id,
                                     const char *reply_to, struct producer_ticket *ticket,
                                     struct arena *arena, struct reply *ret_reply,
                                     struct error *err);

struct producer_follow {
    const char *job_id;
    const char *reply_to; /* NULL: the default stream */
    /* Told of each entry of the job's progress as it comes, always before the reply; must
     * not wait. NULL: progress is not looked at. */
    void (*on_progress)(void *arg, const struct progress_entry *entry);
    void *on_progress_arg;
};

/* As producer_wait, and takes the progress of a job that asked for it. Where that cannot be
 * read (rights, a key of another type), the reply is waited for without. */
SUSPENDS NODISCARD int producer_follow(struct queue *queue,
                                       const struct producer_follow *follow,
                                       struct producer_ticket *ticket, struct arena *arena,
                                       struct reply *ret_reply, struct error *err);
