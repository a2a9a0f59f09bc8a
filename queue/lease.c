/* Renewing and handing back, in calls of at most 500 entries. */
#include "queue/lease.h"

#include <errno.h>

#include "queue/refusal.h"
#include "queue/script.h"
#include "runtime/clock.h"

enum { PER_CALL = 500, CALL_ARENA_BYTES = 256 * 1024 };

uint64_t lease_left_ms(const struct lease *lease, uint64_t lease_ms, uint64_t now_ms)
{
    uint64_t age_ms = now_ms - lease->renewed_at_ms;
    uint64_t usable_ms = lease_ms - lease_ms / 10;
    return lease->lost || age_ms >= usable_ms ? 0 : usable_ms - age_ms;
}

bool lease_is_live(const struct lease *lease, uint64_t lease_ms, uint64_t now_ms)
{
    return lease_left_ms(lease, lease_ms, now_ms) > 0;
}

/* Begins the script over these entries. The leases may change while it is under way: entry
 * and token are copied. */
static void begin(struct call *call, enum script script, const struct queue *queue,
                  const struct lease *leases, size_t count, struct arena *arena)
{
    script_begin(call, script, 1, arena);
    call_add_text(call, queue->keys.jobs);
    call_add_text(call, KEYS_GROUP);
    call_add_text(call, queue->consumer);
    for (size_t i = 0; i < count; i++) {
        const char *entry = arena_text(arena, leases[i].entry);
        if (!entry)
            call->failed = -ENOMEM;
        else
            call_add_text(call, entry);
        call_add_int(call, leases[i].token);
    }
}

SUSPENDS static int renew_some(struct queue *queue, struct lease *leases, size_t count,
                               struct error *err)
{
    arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    uint64_t asked_at_ms = clock_boot_ms();
    if (!arena)
        return error_set_memory(err, "renewing leases");
    begin(&call, SCRIPT_RENEW, queue, leases, count, arena);
    int result = script_run(queue->commands, SCRIPT_RENEW, &call, &reply);
    if (result)
        return queue_set_error(result, "renew leases", err);
    bool all_gone = refusal_of(reply) == REFUSAL_NO_GROUP;
    if (!all_gone && (reply->type != REDIS_REPLY_ARRAY || reply->elements != count))
        return reply->type == REDIS_REPLY_ERROR
                   ? refusal_set_error(reply, "renew leases", err)
                   : error_set(err, ERROR_INTERNAL,
                               "renew gave an answer of a strange form");
    for (size_t i = 0; i < count; i++) {
        if (all_gone || reply->element[i]->integer != 1)
            leases[i].lost = true;
        else
            leases[i].renewed_at_ms = asked_at_ms;
    }
    return 0;
}

int lease_renew(struct queue *queue, struct lease *leases, size_t count, struct error *err)
{
    for (size_t done = 0; done < count; done += PER_CALL) {
        size_t some = count - done < PER_CALL ? count - done : PER_CALL;
        if (renew_some(queue, leases + done, some, err) != 0)
            return -1;
    }
    return 0;
}

int lease_release(struct queue *queue, const struct lease *leases, size_t count,
                  struct error *err)
{
    for (size_t done = 0; done < count; done += PER_CALL) {
        size_t some = count - done < PER_CALL ? count - done : PER_CALL;
        arena_scoped struct arena *arena = arena_new(CALL_ARENA_BYTES);
        redis_reply_scoped redisReply *reply = NULL;
        struct call call;
        if (!arena)
            return error_set_memory(err, "handing jobs back");
        begin(&call, SCRIPT_RELEASE, queue, leases + done, some, arena);
        int result = script_run(queue->commands, SCRIPT_RELEASE, &call, &reply);
        if (result)
            return queue_set_error(result, "hand jobs back", err);
        if (reply->type == REDIS_REPLY_ERROR)
            return refusal_set_error(reply, "hand jobs back", err);
    }
    return 0;
}
