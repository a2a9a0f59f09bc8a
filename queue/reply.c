/* Replies, written and read.
 *
 * A reply is packed twice: first into a sink that only counts, then into exactly that many
 * bytes of the arena. Arenas cannot grow a block in place, so doubling would leave as much
 * again behind for every reply with a megabyte of output in it. */
#include "queue/reply.h"

#include "runtime/utf8.h"

#include <assert.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

enum { REPLACEMENT_BYTES = sizeof(replacement) - 1 };

/* Where packed bytes go; `data` is NULL while they are only counted. */
struct sink {
    char *data;
    size_t size;
    size_t capacity;
};

struct body {
    const struct reply_envelope *envelope;
    void (*write_result)(msgpack_packer *packer, const void *arg);
    const void *arg;
    const struct error *error; /* NULL: write_result stands */
    const char *const *supported;
    const struct reply_outcome *outcome; /* kept from an earlier entry; else NULL */
};

static int sink_write(void *arg, const char *data, size_t size)
{
    struct sink *sink = arg;
    if (size > sink->capacity - sink->size)
        return -1;
    if (sink->data)
        memcpy(sink->data + sink->size, data, size);
    sink->size += size;
    return 0;
}

/* The packers' results are not looked at: only the sink can fail, and then fewer bytes were
 * written than measured. */
static void pack_plain(msgpack_packer *packer, const char *text, size_t size)
{
    (void)msgpack_pack_str_with_body(packer, text, size);
}

/* The length of text with its bad bytes replaced. */
static size_t repaired_size(const char *text, size_t size)
{
    size_t repaired = 0;
    for (size_t at = 0; at < size;) {
        size_t step = utf8_step(text + at, size - at);
        repaired += step ? step : REPLACEMENT_BYTES;
        at += step ? step : 1;
    }
    return repaired;
}

static void pack_repaired(msgpack_packer *packer, const char *text, size_t size)
{
    (void)msgpack_pack_str(packer, repaired_size(text, size));
    for (size_t at = 0; at < size;) {
        size_t step = utf8_step(text + at, size - at);
        if (step)
            (void)msgpack_pack_str_body(packer, text + at, step);
        else
            (void)msgpack_pack_str_body(packer, replacement, REPLACEMENT_BYTES);
        at += step ? step : 1;
    }
}

void reply_pack_text(msgpack_packer *packer, const char *text)
{
    if (!text) {
        (void)msgpack_pack_nil(packer);
        return;
    }
    size_t size = strlen(text);
    if (utf8_is_valid(text, size))
        pack_plain(packer, text, size);
    else
        pack_repaired(packer, text, size);
}

static void pack_key(msgpack_packer *packer, const char *key)
{
    pack_plain(packer, key, strlen(key));
}

void reply_pack_key_text(msgpack_packer *packer, const char *key, const char *text)
{
    pack_key(packer, key);
    reply_pack_text(packer, text);
}

void reply_pack_key_int(msgpack_packer *packer, const char *key, int64_t value)
{
    pack_key(packer, key);
    (void)msgpack_pack_int64(packer, value);
}

void reply_pack_key_bool(msgpack_packer *packer, const char *key, bool value)
{
    pack_key(packer, key);
    if (value)
        (void)msgpack_pack_true(packer);
    else
        (void)msgpack_pack_false(packer);
}

void reply_pack_key_bin(msgpack_packer *packer, const char *key, const void *data,
                        size_t size)
{
    pack_key(packer, key);
    (void)msgpack_pack_bin_with_body(packer, data, size);
}

static size_t text_list_count(const char *const *texts)
{
    size_t count = 0;
    while (texts[count])
        count++;
    return count;
}

static void pack_supported(msgpack_packer *packer, const char *const *supported)
{
    if (!supported)
        return;
    pack_key(packer, "supported");
    (void)msgpack_pack_array(packer, text_list_count(supported));
    for (size_t i = 0; supported[i]; i++)
        reply_pack_text(packer, supported[i]);
}

static void pack_text_where_set(msgpack_packer *packer, const char *key, const char *text)
{
    if (text && text[0] != '\0')
        reply_pack_key_text(packer, key, text);
}

static size_t is_set(const char *text)
{
    return text && text[0] != '\0' ? 1 : 0;
}

static size_t error_member_count(const struct body *body)
{
    const struct error *error = body->error;
    return 3 + is_set(body->envelope->provider) + is_set(error->capability) +
           (body->supported ? 1 : 0) + is_set(error->remedy) + is_set(error->phase) +
           is_set(error->field) + (error->has_exit_code ? 1 : 0) + is_set(error->detail) +
           (error->retry_after_ms > 0 ? 1 : 0);
}

static void pack_error(msgpack_packer *packer, const struct body *body)
{
    const struct error *error = body->error;
    (void)msgpack_pack_map(packer, error_member_count(body));
    reply_pack_key_text(packer, "code", error_code_name(error->code));
    reply_pack_key_text(packer, "message", error->message);
    reply_pack_key_bool(packer, "retryable", error->retryable);
    pack_text_where_set(packer, "provider", body->envelope->provider);
    pack_text_where_set(packer, "capability", error->capability);
    pack_supported(packer, body->supported);
    pack_text_where_set(packer, "remedy", error->remedy);
    pack_text_where_set(packer, "phase", error->phase);
    pack_text_where_set(packer, "field", error->field);
    if (error->has_exit_code)
        reply_pack_key_int(packer, "exit_code", error->exit_code);
    pack_text_where_set(packer, "detail", error->detail);
    if (error->retry_after_ms > 0)
        reply_pack_key_int(packer, "retry_after_ms", error->retry_after_ms);
}

/* The value under `result` or `error`. */
static void pack_value(msgpack_packer *packer, const struct body *body)
{
    if (body->outcome)
        (void)packer->callback(packer->data, body->outcome->data, body->outcome->size);
    else if (body->error)
        pack_error(packer, body);
    else if (body->write_result)
        body->write_result(packer, body->arg);
}

static void pack_outcome(msgpack_packer *packer, const struct body *body)
{
    bool ok = body->outcome ? body->outcome->ok : !body->error;
    reply_pack_key_bool(packer, "ok", ok);
    pack_key(packer, ok ? "result" : "error");
    pack_value(packer, body);
}

static void pack_body(msgpack_packer *packer, const struct body *body)
{
    enum { MEMBERS = 12 };
    const struct reply_envelope *envelope = body->envelope;
    (void)msgpack_pack_map(packer, MEMBERS + is_set(envelope->traceparent) +
                                       (body->outcome ? 1 : 0));
    reply_pack_key_int(packer, "v", REPLY_VERSION);
    reply_pack_key_text(packer, "id", envelope->id);
    reply_pack_key_text(packer, "entry", envelope->entry);
    reply_pack_key_text(packer, "op", envelope->op);
    pack_outcome(packer, body);
    reply_pack_key_int(packer, "attempt", envelope->attempt);
    reply_pack_key_int(packer, "deliveries", envelope->deliveries);
    reply_pack_key_text(packer, "worker", envelope->worker);
    pack_key(packer, "queued_ms");
    if (envelope->queued_ms < 0)
        (void)msgpack_pack_nil(packer);
    else
        (void)msgpack_pack_int64(packer, envelope->queued_ms);
    reply_pack_key_int(packer, "run_ms", envelope->run_ms);
    reply_pack_key_int(packer, "execs", envelope->execs);
    pack_text_where_set(packer, "traceparent", envelope->traceparent);
    if (body->outcome)
        reply_pack_key_bool(packer, "duplicate", true);
}

static void pack_into(struct sink *sink, const struct body *body,
                      void (*pack)(msgpack_packer *packer, const struct body *body))
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, sink, sink_write);
    pack(&packer, body);
}

static int write_packed(const struct body *body,
                        void (*pack)(msgpack_packer *packer, const struct body *body),
                        struct arena *arena, const char **ret_data, size_t *ret_size)
{
    struct sink measure = {.capacity = SIZE_MAX};
    pack_into(&measure, body, pack);
    if (measure.size > REPLY_MAX_BYTES)
        return -1;
    struct sink sink = {.data = arena_alloc(arena, measure.size), .capacity = measure.size};
    if (!sink.data)
        return -1;
    pack_into(&sink, body, pack);
    assert(sink.size == sink.capacity); /* write_result packed the same value twice */
    *ret_data = sink.data;
    *ret_size = sink.size;
    return 0;
}

static int write_body(const struct body *body, struct arena *arena, const char **ret_data,
                      size_t *ret_size)
{
    return write_packed(body, pack_body, arena, ret_data, ret_size);
}

int reply_outcome_of_result(const struct reply_envelope *envelope,
                            void (*write_result)(msgpack_packer *packer, const void *arg),
                            const void *arg, struct arena *arena,
                            struct reply_outcome *ret_outcome)
{
    struct body body = {.envelope = envelope, .write_result = write_result, .arg = arg};
    struct reply_outcome outcome = {.op = envelope->op, .ok = true};
    if (write_packed(&body, pack_value, arena, &outcome.data, &outcome.size) != 0)
        return -1;
    *ret_outcome = outcome;
    return 0;
}

int reply_outcome_of_error(const struct reply_envelope *envelope, const struct error *error,
                           struct arena *arena, struct reply_outcome *ret_outcome)
{
    struct body body = {.envelope = envelope, .error = error};
    struct reply_outcome outcome = {.op = envelope->op, .ok = false};
    if (write_packed(&body, pack_value, arena, &outcome.data, &outcome.size) != 0)
        return -1;
    *ret_outcome = outcome;
    return 0;
}

int reply_write_outcome(const struct reply_envelope *envelope,
                        const struct reply_outcome *outcome, struct arena *arena,
                        const char **ret_data, size_t *ret_size)
{
    struct body body = {.envelope = envelope, .outcome = outcome};
    return write_body(&body, arena, ret_data, ret_size);
}

int reply_write_result(const struct reply_envelope *envelope,
                       void (*write_result)(msgpack_packer *packer, const void *arg),
                       const void *arg, struct arena *arena, const char **ret_data,
                       size_t *ret_size)
{
    struct body body = {.envelope = envelope, .write_result = write_result, .arg = arg};
    return write_body(&body, arena, ret_data, ret_size);
}

int reply_write_error(const struct reply_envelope *envelope, const struct error *error,
                      const char *const *supported, struct arena *arena,
                      const char **ret_data, size_t *ret_size)
{
    struct body body = {.envelope = envelope, .error = error, .supported = supported};
    return write_body(&body, arena, ret_data, ret_size);
}

static int refuse(struct error *err, const char *what)
{
    return error_set(err, ERROR_MALFORMED_JOB, "the reply %s", what);
}

static int read_text_where_set(const struct message *map, const char *key,
                               struct arena *arena, const char **ret_text,
                               struct error *err)
{
    const struct message *value = message_find(map, key);
    if (!value || value->type == MESSAGE_NIL)
        return 0;
    return message_text(value, key, MESSAGE_MAX_BYTES, arena, ret_text, err);
}

static int read_outcome(struct reply *reply, struct error *err)
{
    const struct message *ok = message_find(reply->map, "ok");
    if (!ok || ok->type != MESSAGE_BOOL)
        return refuse(err, "does not say whether it is ok");
    reply->ok = ok->boolean;
    if (reply->ok) {
        reply->result = message_find(reply->map, "result");
        return reply->result ? 0 : refuse(err, "is ok and has no result");
    }
    reply->error = message_find(reply->map, "error");
    if (!reply->error || reply->error->type != MESSAGE_MAP)
        return refuse(err, "is not ok and has no map under error");
    return 0;
}

int reply_read(const void *body, size_t bytes, struct arena *arena, struct reply *ret_reply,
               struct error *err)
{
    struct reply reply = {0};
    struct message *map = arena_alloc(arena, sizeof(*map));
    if (!map)
        return error_set_memory(err, "a reply");
    if (message_read_within(body, bytes, REPLY_MAX_BYTES, arena, map, err))
        return -1;
    if (map->type != MESSAGE_MAP)
        return refuse(err, "is no map");
    reply.map = map;
    if (read_text_where_set(map, "id", arena, &reply.id, err) ||
        read_text_where_set(map, "op", arena, &reply.op, err) || read_outcome(&reply, err))
        return -1;
    *ret_reply = reply;
    return 0;
}
