/* A reply as it stands in the `reply` field of a reply stream's entry. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <msgpack.h>

#include "queue/message.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

enum {
    REPLY_VERSION = 1,
    REPLY_MAX_BYTES = 40 * 1024 * 1024, /* both streams at their most, and room to spare */
};

/* What is said of the job whatever its outcome. */
struct reply_envelope {
    const char *id;    /* job id */
    const char *entry; /* stream entry id */
    const char *op;    /* as the job gave it; NULL: it could not be read */
    const char *worker;
    const char *traceparent; /* NULL: none */
    const char *provider;    /* for errors; NULL: not known */
    int attempt;
    int64_t deliveries;
    int64_t queued_ms; /* from enqueueing to the start of this attempt; -1: nil */
    int64_t run_ms;
    uint32_t execs; /* commands sent into the sandbox */
};

/* Writes {v, id, entry, op, ok: true, result: ..., attempt, ...}: `write_result` packs
 * exactly one value. It is called twice, to measure and to write, and must pack the same
 * both times. The bytes live in the arena. -1: out of memory, or more than REPLY_MAX_BYTES.
 */
NODISCARD int reply_write_result(const struct reply_envelope *envelope,
                                 void (*write_result)(msgpack_packer *packer,
                                                      const void *arg),
                                 const void *arg, struct arena *arena,
                                 const char **ret_data, size_t *ret_size);

/* The same with ok: false and error: {code, message, retryable, ...}; only members that are
 * set are written. `supported` lists capability names, NULL-ended; NULL: left out. */
NODISCARD int reply_write_error(const struct reply_envelope *envelope,
                                const struct error *error, const char *const *supported,
                                struct arena *arena, const char **ret_data,
                                size_t *ret_size);

/* An outcome as it is kept for later entries of the same job id: the value alone that would
 * stand under `result` or `error`. */
struct reply_outcome {
    const char *op; /* of the job that came to it */
    bool ok;
    const char *data; /* NULL: there is none */
    size_t size;
};

NODISCARD int reply_outcome_of_result(const struct reply_envelope *envelope,
                                      void (*write_result)(msgpack_packer *packer,
                                                           const void *arg),
                                      const void *arg, struct arena *arena,
                                      struct reply_outcome *ret_outcome);
NODISCARD int reply_outcome_of_error(const struct reply_envelope *envelope,
                                     const struct error *error, struct arena *arena,
                                     struct reply_outcome *ret_outcome);

/* As reply_write_result, with what was kept, and duplicate: true. */
NODISCARD int reply_write_outcome(const struct reply_envelope *envelope,
                                  const struct reply_outcome *outcome, struct arena *arena,
                                  const char **ret_data, size_t *ret_size);

/* Packing helpers for write_result functions. Text is written as str, and where it is not
 * UTF-8 each bad byte is replaced by U+FFFD; NULL is nil. Keys are written as they are. */
void reply_pack_text(msgpack_packer *packer, const char *text);
void reply_pack_key_text(msgpack_packer *packer, const char *key, const char *text);
void reply_pack_key_int(msgpack_packer *packer, const char *key, int64_t value);
void reply_pack_key_bool(msgpack_packer *packer, const char *key, bool value);
void reply_pack_key_bin(msgpack_packer *packer, const char *key, const void *data,
                        size_t size);

/* A reply as a caller reads it. Texts live in the arena; NULL: absent. The messages point
 * into the body. */
struct reply {
    const char *id;
    const char *op;
    bool ok;
    const struct message *result; /* ok */
    const struct message *error;  /* not ok: the map */
    const struct message *map;    /* all of it */
};

/* malformed_job where the bytes are no reply, internal where memory ran out. */
NODISCARD int reply_read(const void *body, size_t bytes, struct arena *arena,
                         struct reply *ret_reply, struct error *err);
