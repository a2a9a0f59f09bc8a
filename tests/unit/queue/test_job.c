/* Reading jobs: a good job with one key changed at a time. Ids such as mp_06 in the names
 * stand for publicly reported failures of other decoders. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

#include "queue/job.h"
#include "runtime/utf8.h"

enum { TEST_ARENA_BYTES = 16 * 1024 * 1024 };

static const char name_128[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._"
    ":-CDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";
static const char good_traceparent[] =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/* The torture: the allocation with this number fails, counted down; below zero none. The
 * linker routes every malloc of the code under test here. */
static int mallocs_until_failure = -1;
static int mallocs_seen;

/* NOLINTBEGIN(readability-identifier-naming): the linker makes these names. */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    mallocs_seen++;
    if (mallocs_until_failure >= 0 && mallocs_until_failure-- == 0)
        return NULL;
    return __real_malloc(bytes);
}
/* NOLINTEND(readability-identifier-naming) */

/* MessagePack in a short notation: 'text, "hex digits" as they are. */
static void pack_raw(msgpack_sbuffer *out, const char *hex)
{
    if (hex[0] == '\'') {
        msgpack_packer packer;
        msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
        (void)msgpack_pack_str_with_body(&packer, hex + 1, strlen(hex + 1));
        return;
    }
    while (*hex) {
        char digits[3] = {hex[0], hex[1], '\0'};
        char byte = (char)strtoul(digits, NULL, 16);
        (void)msgpack_sbuffer_write(out, &byte, 1);
        hex += 2;
        while (*hex == ' ')
            hex++;
    }
}

static void pack_text(msgpack_sbuffer *out, const char *text)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    (void)msgpack_pack_str_with_body(&packer, text, strlen(text));
}

struct member {
    const char *key;
    const char *value; /* as pack_raw takes it */
};

static const struct member good_members[] = {
    {"id", "'job-1"},
    {"op", "'attach"},
    {"sandbox", "82 a8 70726f7669646572 a6 646f636b6572 a2 6964 a3 626f78"},
    {"execution_id", "'run-1"},
};

enum { GOOD_COUNT = sizeof(good_members) / sizeof(good_members[0]) };

static bool replaces(const struct member *changes, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(changes[i].key, key) == 0)
            return true;
    }
    return false;
}

/* The good job with members replaced, added, or removed (an empty value). */
static void pack_job(msgpack_sbuffer *out, const struct member *changes, size_t count)
{
    msgpack_sbuffer members;
    msgpack_packer packer;
    size_t packed = 0;
    msgpack_sbuffer_init(&members);
    for (size_t i = 0; i < GOOD_COUNT + count; i++) {
        const struct member *member =
            i < GOOD_COUNT ? &good_members[i] : &changes[i - GOOD_COUNT];
        if ((i < GOOD_COUNT && replaces(changes, count, member->key)) ||
            member->value[0] == '\0')
            continue;
        pack_text(&members, member->key);
        pack_raw(&members, member->value);
        packed++;
    }
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    (void)msgpack_pack_map(&packer, packed);
    (void)msgpack_sbuffer_write(out, members.data, members.size);
    msgpack_sbuffer_destroy(&members);
}

/* Both steps of reading; everything lives until finish(). */
struct reading {
    struct arena *arena;
    struct job job;
    struct error err;
    int result;           /* of job_read */
    int arguments_result; /* of job_read_arguments, where job_read succeeded */
};

static void read_changed(struct reading *reading, const struct member *changes,
                         size_t count)
{
    msgpack_sbuffer body;
    msgpack_sbuffer_init(&body);
    pack_job(&body, changes, count);
    *reading = (struct reading){.arena = arena_new(TEST_ARENA_BYTES)};
    const void *kept = arena_copy(reading->arena, body.data, body.size);
    reading->result =
        job_read(kept, body.size, reading->arena, &reading->job, &reading->err);
    if (reading->result == 0)
        reading->arguments_result =
            job_read_arguments(&reading->job, reading->arena, &reading->err);
    msgpack_sbuffer_destroy(&body);
}

static void read_with(struct reading *reading, const char *key, const char *value)
{
    struct member change = {key, value};
    read_changed(reading, &change, 1);
}

static void finish(struct reading *reading)
{
    arena_free(reading->arena);
}

static void a_small_job_gets_the_defaults(void **state)
{
    (void)state;
    struct reading reading;
    read_changed(&reading, NULL, 0);
    const struct job *job = &reading.job;
    assert_int_equal(reading.result, 0);
    assert_int_equal(reading.arguments_result, 0);
    assert_string_equal(job->id, "job-1");
    assert_string_equal(job->op_name, "attach");
    assert_int_equal(job->op, JOB_ATTACH);
    assert_string_equal(job->provider, "docker");
    assert_string_equal(job->sandbox_id, "box");
    assert_int_equal(job->sandbox_key_count, 0);
    assert_null(job->reply_to);
    assert_null(job->traceparent);
    assert_int_equal(job->deadline_unix_ms, 0);
    assert_int_equal(job->timeout_ms, 30000);
    assert_int_equal(job->max_attempts, 8);
    assert_false(job->progress);
    assert_string_equal(job->execution_id, "run-1");
    assert_null(job->remote_dir);
    assert_true(job->termination_grace_ms == 5000);
    assert_false(job->wake);
    assert_false(job->read_stdout.wanted);
    assert_false(job->read_stderr.wanted);
    finish(&reading);
}

static void a_full_job_is_read_whole(void **state)
{
    (void)state;
    static const struct member all[] = {
        {"v", "01"},
        {"reply_to", "'svc.a"},
        {"deadline_ms", "cf 0000018bcfe56800"},
        {"timeout_ms", "cd 03e8"},
        {"max_attempts", "03"},
        {"progress", "c3"},
        {"traceparent", "'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
        {"remote_dir", "'/srv/app"},
        {"termination_grace_ms", "cb 4059200000000000"},
        {"wake", "c3"},
        /* {stdout: 7, max_bytes: 100} */
        {"read", "82 a6 7374646f7574 07 a9 6d61785f6279746573 64"},
        {"unknown", "81 01 c0"},
    };
    struct reading reading;
    read_changed(&reading, all, sizeof(all) / sizeof(all[0]));
    const struct job *job = &reading.job;
    assert_int_equal(reading.result, 0);
    assert_int_equal(reading.arguments_result, 0);
    assert_string_equal(job->reply_to, "svc.a");
    assert_int_equal(job->deadline_unix_ms, 1700000000000);
    assert_int_equal(job->timeout_ms, 1000);
    assert_int_equal(job->max_attempts, 3);
    assert_true(job->progress);
    assert_string_equal(job->traceparent, good_traceparent);
    assert_string_equal(job->remote_dir, "/srv/app");
    assert_true(job->termination_grace_ms == 100.5);
    assert_true(job->wake);
    assert_true(job->read_stdout.wanted);
    assert_int_equal(job->read_stdout.offset, 7);
    assert_int_equal(job->read_stdout.max_bytes, 100);
    assert_false(job->read_stderr.wanted);
    finish(&reading);
}

struct verdict {
    const char *key;
    const char *value;
    enum error_code code; /* ERROR_NONE: taken */
    const char *field;    /* NULL: as the key */
};

static void check_verdicts(const char *op, const struct verdict *verdicts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct verdict *verdict = &verdicts[i];
        struct reading reading;
        struct member changes[2] = {{verdict->key, verdict->value}, {"op", op}};
        read_changed(&reading, changes, op ? 2 : 1);
        bool failed = reading.result || reading.arguments_result;
        const char *field = verdict->field ? verdict->field : verdict->key;
        if (reading.err.code != verdict->code || failed != (verdict->code != ERROR_NONE))
            fail_msg("%s %s: %s %s", verdict->key, verdict->value,
                     error_code_name(reading.err.code), reading.err.message);
        if (failed && strcmp(reading.err.field, field) != 0)
            fail_msg("%s %s: field %s, not %s", verdict->key, verdict->value,
                     reading.err.field, field);
        if (failed && (reading.err.retryable || reading.err.message[0] == '\0'))
            fail_msg("%s %s: retryable or without a message", verdict->key, verdict->value);
        finish(&reading);
    }
}

#define CHECK(op, verdicts)                                                                \
    check_verdicts(op, verdicts, sizeof(verdicts) / sizeof((verdicts)[0]))

static const struct verdict envelope_verdicts[] = {
    {"v", "01", ERROR_NONE, NULL},
    {"v", "cb 3ff0000000000000", ERROR_NONE, NULL},
    {"v", "c0", ERROR_NONE, NULL},
    {"v", "02", ERROR_UNSUPPORTED_VERSION, NULL},
    {"v", "00", ERROR_UNSUPPORTED_VERSION, NULL},
    {"v", "ff", ERROR_UNSUPPORTED_VERSION, NULL},
    {"v", "'1", ERROR_INVALID_ARGUMENT, NULL},
    {"v", "cb 3ff8000000000000", ERROR_INVALID_ARGUMENT, NULL},
    {"id", "'a", ERROR_NONE, NULL},
    {"id", "c4 03 612d31", ERROR_NONE, NULL},
    {"id", "", ERROR_MALFORMED_JOB, NULL},
    {"id", "c0", ERROR_MALFORMED_JOB, NULL},
    {"id", "'", ERROR_MALFORMED_JOB, NULL},
    {"id", "'-a", ERROR_MALFORMED_JOB, NULL},
    {"id", "'a b", ERROR_MALFORMED_JOB, NULL},
    {"id", "a3 610062", ERROR_MALFORMED_JOB, NULL},
    {"id", "a2 61e4", ERROR_MALFORMED_JOB, NULL},
    {"id", "'{a}", ERROR_MALFORMED_JOB, NULL},
    {"op", "'status", ERROR_NONE, NULL},
    {"op", "c4 04 696e666f", ERROR_NONE, NULL},
    {"op", "'Attach", ERROR_UNKNOWN_OPERATION, NULL},
    {"op", "'", ERROR_UNKNOWN_OPERATION, NULL},
    {"op", "", ERROR_INVALID_ARGUMENT, NULL},
    {"op", "01", ERROR_INVALID_ARGUMENT, NULL},
    {"op", "a2 61e4", ERROR_INVALID_ARGUMENT, NULL},
    {"reply_to", "'svc", ERROR_NONE, NULL},
    {"reply_to", "c0", ERROR_NONE, NULL},
    {"reply_to", "'", ERROR_INVALID_ARGUMENT, NULL},
    {"reply_to", "'a}b", ERROR_INVALID_ARGUMENT, NULL},
    {"reply_to", "05", ERROR_INVALID_ARGUMENT, NULL},
    {"deadline_ms", "01", ERROR_NONE, NULL},
    {"deadline_ms", "d6 ff 6553f100", ERROR_NONE, NULL},
    {"deadline_ms", "d7 ff 773594006553f100", ERROR_NONE, NULL},
    {"deadline_ms", "c7 0c ff 1dcd6500 000000006553f100", ERROR_NONE, NULL},
    {"deadline_ms", "c7 07 ff 00000000000000", ERROR_INVALID_ARGUMENT, NULL},
    {"deadline_ms", "d7 0d 4278bcfe56800000", ERROR_INVALID_ARGUMENT, NULL},
    {"deadline_ms", "'2024-01-01", ERROR_INVALID_ARGUMENT, NULL},
    {"timeout_ms", "01", ERROR_NONE, NULL},
    {"timeout_ms", "ce 05265c00", ERROR_NONE, NULL},
    {"timeout_ms", "ce 05265c01", ERROR_INVALID_ARGUMENT, NULL},
    {"timeout_ms", "00", ERROR_INVALID_ARGUMENT, NULL},
    {"timeout_ms", "ff", ERROR_INVALID_ARGUMENT, NULL},
    {"timeout_ms", "cb 3ff8000000000000", ERROR_INVALID_ARGUMENT, NULL},
    {"timeout_ms", "cf ffffffffffffffff", ERROR_INVALID_ARGUMENT, NULL},
    {"timeout_ms", "'5", ERROR_INVALID_ARGUMENT, NULL},
    {"max_attempts", "01", ERROR_NONE, NULL},
    {"max_attempts", "32", ERROR_NONE, NULL},
    {"max_attempts", "33", ERROR_INVALID_ARGUMENT, NULL},
    {"max_attempts", "00", ERROR_INVALID_ARGUMENT, NULL},
    {"max_attempts", "c3", ERROR_INVALID_ARGUMENT, NULL},
    {"progress", "c2", ERROR_NONE, NULL},
    {"progress", "c0", ERROR_NONE, NULL},
    {"progress", "01", ERROR_INVALID_ARGUMENT, NULL},
    {"traceparent", "'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", ERROR_NONE,
     NULL},
    {"traceparent", "'01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x.y",
     ERROR_NONE, NULL},
    {"traceparent", "'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
     ERROR_INVALID_ARGUMENT, NULL},
    {"traceparent", "'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
     ERROR_INVALID_ARGUMENT, NULL},
    {"traceparent", "'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-a b",
     ERROR_INVALID_ARGUMENT, NULL},
    {"traceparent", "'00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
     ERROR_INVALID_ARGUMENT, NULL},
    {"traceparent", "'00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
     ERROR_INVALID_ARGUMENT, NULL},
    {"traceparent", "07", ERROR_INVALID_ARGUMENT, NULL},
};

static void every_envelope_key_has_its_good_and_bad_forms(void **state)
{
    (void)state;
    CHECK(NULL, envelope_verdicts);
}

static void every_sandbox_key_has_its_good_and_bad_forms(void **state)
{
    (void)state;
    /* In the hex: provider a870726f7669646572, id a26964. */
    static const struct verdict verdicts[] = {
        {"sandbox", "", ERROR_INVALID_ARGUMENT, NULL},
        {"sandbox", "c0", ERROR_INVALID_ARGUMENT, NULL},
        {"sandbox", "'docker", ERROR_INVALID_ARGUMENT, NULL},
        {"sandbox", "90", ERROR_INVALID_ARGUMENT, NULL},
        {"sandbox", "80", ERROR_INVALID_ARGUMENT, "sandbox.provider"},
        {"sandbox", "81 a26964 a161", ERROR_INVALID_ARGUMENT, "sandbox.provider"},
        {"sandbox", "82 a870726f7669646572 01 a26964 a161", ERROR_INVALID_ARGUMENT,
         "sandbox.provider"},
        {"sandbox", "82 a870726f7669646572 a0 a26964 a161", ERROR_INVALID_ARGUMENT,
         "sandbox.provider"},
        {"sandbox", "81 a870726f7669646572 a161", ERROR_INVALID_ARGUMENT, "sandbox.id"},
        {"sandbox", "82 a870726f7669646572 a161 a26964 05", ERROR_INVALID_ARGUMENT,
         "sandbox.id"},
        {"sandbox", "82 a870726f7669646572 a161 a26964 a0", ERROR_INVALID_ARGUMENT,
         "sandbox.id"},
        {"sandbox", "82 a870726f7669646572 a161 a26964 a3610062", ERROR_INVALID_ARGUMENT,
         "sandbox.id"},
        {"sandbox", "82 a870726f7669646572 a161 a26964 a2c328", ERROR_INVALID_ARGUMENT,
         "sandbox.id"},
        {"sandbox", "82 c40870726f7669646572 c40161 c4026964 c40162", ERROR_NONE, NULL},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 a16b a176", ERROR_NONE, NULL},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 a16b c0", ERROR_NONE, NULL},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 a16b 90",
         ERROR_INVALID_ARGUMENT, "sandbox.k"},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 a16b cb 3ff8000000000000",
         ERROR_INVALID_ARGUMENT, "sandbox.k"},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 a16b a3610062",
         ERROR_INVALID_ARGUMENT, "sandbox.k"},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 01 a176",
         ERROR_INVALID_ARGUMENT, "sandbox"},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 c0 02", ERROR_INVALID_ARGUMENT,
         "sandbox"},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 a0 02", ERROR_INVALID_ARGUMENT,
         "sandbox"},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 a26100 02",
         ERROR_INVALID_ARGUMENT, "sandbox"},
        {"sandbox", "83 a870726f7669646572 a161 a26964 a162 a26964 a162",
         ERROR_MALFORMED_JOB, "id"},
    };
    CHECK(NULL, verdicts);
}

static void every_argument_has_its_good_and_bad_forms(void **state)
{
    (void)state;
    static const struct verdict verdicts[] = {
        {"execution_id", "", ERROR_NONE, NULL},
        {"execution_id", "'not for us to judge!", ERROR_NONE, NULL},
        {"execution_id", "01", ERROR_INVALID_ARGUMENT, NULL},
        {"execution_id", "a3 610062", ERROR_INVALID_ARGUMENT, NULL},
        {"execution_id", "a2 c328", ERROR_INVALID_ARGUMENT, NULL},
        {"remote_dir", "'/srv", ERROR_NONE, NULL},
        {"remote_dir", "a3 2f0062", ERROR_INVALID_ARGUMENT, NULL},
        {"remote_dir", "a2 c328", ERROR_INVALID_ARGUMENT, NULL},
        {"remote_dir", "80", ERROR_INVALID_ARGUMENT, NULL},
        {"termination_grace_ms", "01", ERROR_NONE, NULL},
        {"termination_grace_ms", "cb 3fe0000000000000", ERROR_NONE, NULL},
        {"termination_grace_ms", "ca 3f000000", ERROR_NONE, NULL},
        {"termination_grace_ms", "'5", ERROR_INVALID_ARGUMENT, NULL},
        {"wake", "c2", ERROR_NONE, NULL},
        {"wake", "01", ERROR_INVALID_ARGUMENT, NULL},
        {"wake", "'true", ERROR_INVALID_ARGUMENT, NULL},
        {"1", "c0", ERROR_NONE, NULL},
    };
    CHECK("'attach", verdicts);
    CHECK("'status", verdicts);
}

static void the_read_map_has_its_good_and_bad_forms(void **state)
{
    (void)state;
    /* stdout a67374646f7574, stderr a6737464657272, max_bytes a96d61785f6279746573 */
    static const struct verdict verdicts[] = {
        {"read", "80", ERROR_NONE, NULL},
        {"read", "c0", ERROR_NONE, NULL},
        {"read", "90", ERROR_INVALID_ARGUMENT, NULL},
        {"read", "c3", ERROR_INVALID_ARGUMENT, NULL},
        {"read", "81 a67374646f7574 00", ERROR_NONE, NULL},
        {"read", "81 a67374646f7574 ff", ERROR_INVALID_ARGUMENT, "read.stdout"},
        {"read", "81 a67374646f7574 a130", ERROR_INVALID_ARGUMENT, "read.stdout"},
        {"read", "81 a6737464657272 cb 3ff8000000000000", ERROR_INVALID_ARGUMENT,
         "read.stderr"},
        {"read", "81 a6737464657272 cf ffffffffffffffff", ERROR_INVALID_ARGUMENT,
         "read.stderr"},
        {"read", "81 a6737464657272 cf 7fffffffffffffff", ERROR_NONE, NULL},
        {"read", "81 a96d61785f6279746573 01", ERROR_NONE, NULL},
        {"read", "81 a96d61785f6279746573 ce 01000000", ERROR_NONE, NULL},
        {"read", "81 a96d61785f6279746573 ce 01000001", ERROR_INVALID_ARGUMENT,
         "read.max_bytes"},
        {"read", "81 a96d61785f6279746573 00", ERROR_INVALID_ARGUMENT, "read.max_bytes"},
        {"read", "81 a96d61785f6279746573 c3", ERROR_INVALID_ARGUMENT, "read.max_bytes"},
        {"read", "81 a67374644f7574 00", ERROR_INVALID_ARGUMENT, NULL},
        {"read", "81 01 00", ERROR_INVALID_ARGUMENT, NULL},
    };
    static const struct verdict elsewhere[] = {{"read", "90", ERROR_NONE, NULL}};
    CHECK("'attach", verdicts);
    CHECK("'status", elsewhere);
}

static void the_keys_of_read_output_have_their_good_and_bad_forms(void **state)
{
    (void)state;
    static const struct verdict verdicts[] = {
        {"stream", "'stdout", ERROR_NONE, NULL},
        {"stream", "c4 06 737464657272", ERROR_NONE, NULL},
        {"stream", "'both", ERROR_INVALID_ARGUMENT, NULL},
        {"stream", "01", ERROR_INVALID_ARGUMENT, NULL},
        {"offset", "05", ERROR_NONE, NULL},
        {"offset", "ff", ERROR_INVALID_ARGUMENT, NULL},
        {"offset", "'0", ERROR_INVALID_ARGUMENT, NULL},
        {"max_bytes", "ce 01000000", ERROR_NONE, NULL},
        {"max_bytes", "ce 01000001", ERROR_INVALID_ARGUMENT, NULL},
        {"max_bytes", "00", ERROR_INVALID_ARGUMENT, NULL},
    };
    static const struct verdict elsewhere[] = {{"stream", "01", ERROR_NONE, NULL},
                                               {"offset", "ff", ERROR_NONE, NULL}};
    CHECK("'read_output", verdicts);
    CHECK("'attach", elsewhere);
}

static void the_keys_of_destroy_have_their_good_and_bad_forms(void **state)
{
    (void)state;
    static const struct verdict verdicts[] = {
        {"attempts", "00", ERROR_NONE, NULL},
        {"attempts", "ff", ERROR_NONE, NULL},
        {"attempts", "64", ERROR_NONE, NULL},
        {"attempts", "cb 3ffe666666666666", ERROR_NONE, NULL},
        {"attempts", "65", ERROR_INVALID_ARGUMENT, NULL},
        {"attempts", "cb 7ff8000000000000", ERROR_INVALID_ARGUMENT, NULL},
        {"attempts", "cb 7ff0000000000000", ERROR_INVALID_ARGUMENT, NULL},
        {"attempts", "'3", ERROR_INVALID_ARGUMENT, NULL},
        {"delay_ms", "00", ERROR_NONE, NULL},
        {"delay_ms", "ce 0036ee80", ERROR_NONE, NULL},
        {"delay_ms", "ce 0036ee81", ERROR_INVALID_ARGUMENT, NULL},
        {"delay_ms", "ff", ERROR_INVALID_ARGUMENT, NULL},
        {"delay_ms", "cb 3fe0000000000000", ERROR_INVALID_ARGUMENT, NULL},
    };
    static const struct verdict elsewhere[] = {{"attempts", "'3", ERROR_NONE, NULL},
                                               {"delay_ms", "ff", ERROR_NONE, NULL}};
    CHECK("'destroy", verdicts);
    CHECK("'stop", elsewhere);
}

static void destroy_gets_the_originals_defaults(void **state)
{
    (void)state;
    struct reading reading;
    read_with(&reading, "op", "'destroy");
    assert_int_equal(reading.result, 0);
    assert_int_equal(job_read_arguments(&reading.job, reading.arena, &reading.err), 0);
    assert_float_equal(reading.job.destroy.attempts, 3, 0);
    assert_int_equal(reading.job.destroy.delay_ms, 250);
    assert_int_equal(reading.job.timeout_ms, 30000);
    finish(&reading);
}

static void both_streams_of_read_share_the_limit(void **state)
{
    (void)state;
    struct reading reading;
    read_with(&reading, "read", "82 a67374646f7574 03 a6737464657272 cd 0100");
    assert_int_equal(reading.arguments_result, 0);
    assert_true(reading.job.read_stdout.wanted);
    assert_true(reading.job.read_stderr.wanted);
    assert_int_equal(reading.job.read_stdout.offset, 3);
    assert_int_equal(reading.job.read_stderr.offset, 256);
    assert_int_equal(reading.job.read_stdout.max_bytes, 1024 * 1024);
    assert_int_equal(reading.job.read_stderr.max_bytes, 1024 * 1024);
    finish(&reading);
}

static void read_output_wants_the_stream_it_names(void **state)
{
    (void)state;
    static const struct member changes[] = {{"op", "'read_output"},
                                            {"stream", "'stderr"},
                                            {"offset", "09"},
                                            {"max_bytes", "0a"}};
    struct reading reading;
    read_changed(&reading, changes, 4);
    assert_false(reading.job.read_stdout.wanted);
    assert_true(reading.job.read_stderr.wanted);
    assert_int_equal(reading.job.read_stderr.offset, 9);
    assert_int_equal(reading.job.read_stderr.max_bytes, 10);
    finish(&reading);
    read_changed(&reading, changes, 1);
    assert_true(reading.job.read_stdout.wanted);
    assert_false(reading.job.read_stderr.wanted);
    assert_int_equal(reading.job.read_stdout.offset, 0);
    assert_int_equal(reading.job.read_stdout.max_bytes, 1024 * 1024);
    finish(&reading);
}

static void a_grace_that_is_not_above_zero_gets_the_words_callers_match(void **state)
{
    (void)state;
    static const char *const values[] = {
        "00",
        "ff",
        "cb 0000000000000000",
        "cb 8000000000000000",
        "cb 7ff8000000000000", /* NaN */
        "cb 7ff0000000000000", /* infinity */
        "cb fff0000000000000",
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct reading reading;
        read_with(&reading, "termination_grace_ms", values[i]);
        assert_int_equal(reading.result, 0);
        assert_int_equal(reading.arguments_result, -1);
        assert_int_equal(reading.err.code, ERROR_INVALID_ARGUMENT);
        assert_string_equal(reading.err.field, "termination_grace_ms");
        assert_string_equal(reading.err.message,
                            "terminationGraceMs must be greater than zero.");
        assert_true(reading.job.termination_grace_ms == 5000);
        finish(&reading);
    }
}

static void an_execution_id_that_is_no_c_text_gets_the_words_callers_match(void **state)
{
    (void)state;
    struct reading reading;
    read_with(&reading, "execution_id", "a3 610062");
    assert_string_equal(
        reading.err.message,
        "Worker executionId must contain only letters, numbers, dots, underscores, and "
        "hyphens.");
    assert_null(reading.job.execution_id);
    finish(&reading);
}

static void failed_arguments_leave_the_job_as_it_was(void **state)
{
    (void)state;
    static const struct member changes[] = {{"remote_dir", "'/srv"}, {"wake", "07"}};
    struct reading reading;
    read_changed(&reading, changes, 2);
    assert_int_equal(reading.arguments_result, -1);
    assert_null(reading.job.execution_id);
    assert_null(reading.job.remote_dir);
    assert_string_equal(reading.job.id, "job-1");
    finish(&reading);
}

static void a_numeric_id_is_refused_mp_06(void **state)
{
    (void)state;
    static const char *const values[] = {"cf 013404d0acf0c574", "01",
                                         "cb 4373404d0acf0c57"};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct reading reading;
        read_with(&reading, "id", values[i]);
        assert_int_equal(reading.result, -1);
        assert_int_equal(reading.err.code, ERROR_MALFORMED_JOB);
        assert_string_equal(reading.err.field, "id");
        assert_null(reading.job.id);
        assert_string_equal(reading.job.op_name, "attach");
        finish(&reading);
    }
}

static void a_timeout_may_be_int_or_float_mp_07(void **state)
{
    (void)state;
    struct reading reading;
    read_with(&reading, "timeout_ms", "cb 408f400000000000");
    assert_int_equal(reading.result, 0);
    assert_int_equal(reading.job.timeout_ms, 1000);
    finish(&reading);
    read_with(&reading, "termination_grace_ms", "cb 3ff8000000000000");
    assert_true(reading.job.termination_grace_ms == 1.5);
    finish(&reading);
}

static void a_job_of_nothing_but_bin_is_read_mp_09(void **state)
{
    (void)state;
    /* {id: j, op: info, sandbox: {provider: p, id: b}} */
    static const char hex[] = "83 c4026964 c4016a c4026f70 c404696e666f "
                              "c50007 73616e64626f78 "
                              "82 c40870726f7669646572 c50001 70 c4026964 c40162";
    msgpack_sbuffer body;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    struct job job;
    struct error err = {0};
    msgpack_sbuffer_init(&body);
    pack_raw(&body, hex);
    assert_int_equal(job_read(body.data, body.size, arena, &job, &err), 0);
    assert_string_equal(job.id, "j");
    assert_int_equal(job.op, JOB_INFO);
    assert_string_equal(job.provider, "p");
    assert_string_equal(job.sandbox_id, "b");
    msgpack_sbuffer_destroy(&body);
}

static void a_strange_extension_matters_only_in_a_known_key_mp_10(void **state)
{
    (void)state;
    struct reading reading;
    read_with(&reading, "whenever", "d7 0d 4278bcfe56800000");
    assert_int_equal(reading.result, 0);
    finish(&reading);
    read_with(&reading, "deadline_ms", "d7 0d 4278bcfe56800000");
    assert_int_equal(reading.result, -1);
    assert_string_equal(reading.err.field, "deadline_ms");
    finish(&reading);
}

static void keys_that_are_no_text_are_ignored_at_the_top_only_mp_13(void **state)
{
    (void)state;
    /* {1: x, nil: 2, id: j, op: info, sandbox: {provider: p, id: b}} */
    static const char hex[] = "85 01 a178 c0 02 a26964 a16a a26f70 a4696e666f "
                              "a773616e64626f78 82 a870726f7669646572 a170 a26964 a162";
    msgpack_sbuffer body;
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    struct job job;
    struct error err = {0};
    msgpack_sbuffer_init(&body);
    pack_raw(&body, hex);
    assert_int_equal(job_read(body.data, body.size, arena, &job, &err), 0);
    assert_string_equal(job.id, "j");
    msgpack_sbuffer_destroy(&body);
    struct reading reading;
    read_with(&reading, "sandbox", "83 a870726f7669646572 a161 a26964 a162 01 a178");
    assert_int_equal(reading.result, -1);
    assert_string_equal(reading.err.field, "sandbox");
    finish(&reading);
}

static void a_newer_version_can_still_be_replied_to(void **state)
{
    (void)state;
    static const struct member changes[] = {
        {"v", "02"},
        {"op", "'teleport"},
        {"reply_to", "'svc"},
        {"sandbox", "90"},
        {"traceparent", "'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}};
    struct reading reading;
    read_changed(&reading, changes, 5);
    assert_int_equal(reading.result, -1);
    assert_int_equal(reading.err.code, ERROR_UNSUPPORTED_VERSION);
    assert_string_equal(reading.err.message,
                        "job version 2 is not supported; the supported range is 1 to 1");
    assert_string_equal(reading.job.id, "job-1");
    assert_string_equal(reading.job.reply_to, "svc");
    assert_string_equal(reading.job.op_name, "teleport");
    assert_string_equal(reading.job.traceparent, good_traceparent);
    finish(&reading);
}

static void the_first_wrong_key_in_the_contracts_order_is_named(void **state)
{
    (void)state;
    static const struct member changes[] = {
        {"max_attempts", "00"}, {"traceparent", "01"}, {"sandbox", "90"},
        {"op", "'teleport"},    {"reply_to", "01"},    {"id", "01"},
    };
    static const char *const fields[] = {"max_attempts", "max_attempts", "sandbox",
                                         "op",           "reply_to",     "id"};
    for (size_t count = 1; count <= 6; count++) {
        struct reading reading;
        read_changed(&reading, changes, count);
        assert_int_equal(reading.result, -1);
        assert_string_equal(reading.err.field, fields[count - 1]);
        finish(&reading);
    }
}

static void a_bad_reply_to_is_never_kept(void **state)
{
    (void)state;
    struct reading reading;
    read_with(&reading, "reply_to", "'a}{b");
    assert_int_equal(reading.result, -1);
    assert_string_equal(reading.err.field, "reply_to");
    assert_null(reading.job.reply_to);
    assert_string_equal(reading.job.id, "job-1");
    finish(&reading);
}

static void an_unknown_operation_is_told_which_there_are(void **state)
{
    (void)state;
    char op[1 + 200 + 1] = "'";
    struct reading reading;
    read_with(&reading, "op", "'teleport");
    assert_string_equal(reading.err.message,
                        "unknown operation \"teleport\"; there are attach, status, "
                        "read_output, cancel, info, deploy, relaunch, "
                        "stop, destroy");
    finish(&reading);
    /* Cut at 64 bytes, between characters: one byte and then two at a time. */
    op[1] = 'x';
    for (size_t i = 2; i + 1 < sizeof(op) - 1; i += 2) {
        op[i] = '\xc3';
        op[i + 1] = '\xa4';
    }
    read_with(&reading, "op", op);
    assert_int_equal(reading.err.code, ERROR_UNKNOWN_OPERATION);
    assert_int_equal(strlen(reading.job.op_name), 63);
    assert_true(utf8_is_valid(reading.job.op_name, 63));
    finish(&reading);
}

static void further_sandbox_keys_become_texts(void **state)
{
    (void)state;
    struct reading reading;
    /* {provider: a, s: v, id: b, i: -2, f: 3.0, t: true, n: nil, u: false} */
    read_with(&reading, "sandbox",
              "88 a870726f7669646572 a161 a173 a176 a26964 a162 a169 fe "
              "a166 cb 4008000000000000 a174 c3 a16e c0 a175 c2");
    assert_int_equal(reading.result, 0);
    static const struct job_sandbox_key expected[] = {
        {"s", "v"}, {"i", "-2"}, {"f", "3"}, {"t", "true"}, {"u", "false"}};
    assert_int_equal(reading.job.sandbox_key_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(reading.job.sandbox_keys[i].name, expected[i].name);
        assert_string_equal(reading.job.sandbox_keys[i].value, expected[i].value);
    }
    finish(&reading);
}

/* A sandbox with that many further keys, each value of value_bytes. */
static void pack_large_job(msgpack_sbuffer *out, size_t keys, size_t value_bytes)
{
    char *value = calloc(1, value_bytes + 1);
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    memset(value, 'x', value_bytes);
    (void)msgpack_pack_map(&packer, 4);
    pack_raw(out, "'id");
    pack_raw(out, "'job-1");
    pack_raw(out, "'op");
    pack_raw(out, "'attach");
    pack_raw(out, "'remote_dir");
    pack_text(out, value);
    pack_raw(out, "'sandbox");
    (void)msgpack_pack_map(&packer, keys + 2);
    pack_raw(out, "'provider");
    pack_raw(out, "'docker");
    pack_raw(out, "'id");
    pack_raw(out, "'box");
    for (size_t i = 0; i < keys; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "key%zu", i);
        pack_text(out, name);
        pack_text(out, value);
    }
    free(value);
}

static int read_large(size_t keys, size_t value_bytes, struct error *err)
{
    arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
    msgpack_sbuffer body;
    struct job job;
    msgpack_sbuffer_init(&body);
    pack_large_job(&body, keys, value_bytes);
    *err = (struct error){0};
    int result = job_read(body.data, body.size, arena, &job, err);
    if (result == 0)
        result = job_read_arguments(&job, arena, err);
    msgpack_sbuffer_destroy(&body);
    return result;
}

static void a_sandbox_takes_32_further_keys_of_4096_bytes(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(read_large(JOB_MAX_SANDBOX_KEYS, 4096, &err), 0);
    assert_int_equal(read_large(JOB_MAX_SANDBOX_KEYS + 1, 10, &err), -1);
    assert_string_equal(err.field, "sandbox");
    assert_int_equal(read_large(1, 4097, &err), -1);
    assert_string_equal(err.field, "sandbox.key0");
    assert_int_equal(read_large(0, 4097, &err), -1);
    assert_string_equal(err.field, "remote_dir");
}

static void a_deadline_of_long_ago_is_not_none(void **state)
{
    (void)state;
    struct reading reading;
    read_with(&reading, "deadline_ms", "00");
    assert_int_equal(reading.job.deadline_unix_ms, 1);
    finish(&reading);
    read_with(&reading, "deadline_ms", "c7 0c ff 00000000 ffffffffffffffff");
    assert_int_equal(reading.job.deadline_unix_ms, 1);
    finish(&reading);
}

static void what_is_no_map_is_malformed(void **state)
{
    (void)state;
    static const char *const bodies[] = {"c0", "90", "a0", "01", "c1"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
        msgpack_sbuffer body;
        struct job job;
        struct error err = {0};
        msgpack_sbuffer_init(&body);
        pack_raw(&body, bodies[i]);
        assert_int_equal(job_read(body.data, body.size, arena, &job, &err), -1);
        assert_int_equal(err.code, ERROR_MALFORMED_JOB);
        assert_null(job.id);
        assert_null(job.map);
        msgpack_sbuffer_destroy(&body);
    }
}

static void a_job_cut_at_any_byte_is_malformed_mp_15(void **state)
{
    (void)state;
    msgpack_sbuffer body;
    msgpack_sbuffer_init(&body);
    pack_job(&body, NULL, 0);
    for (size_t cut = 0; cut < body.size; cut++) {
        arena_scoped struct arena *arena = arena_new(TEST_ARENA_BYTES);
        char *exact = malloc(cut ? cut : 1);
        struct job job;
        struct error err = {0};
        memcpy(exact, body.data, cut);
        assert_int_equal(job_read(exact, cut, arena, &job, &err), -1);
        assert_int_equal(err.code, ERROR_MALFORMED_JOB);
        assert_null(job.id);
        free(exact);
    }
    msgpack_sbuffer_destroy(&body);
}

/* Reads with allocation `fail_at` failing (below zero: none); the number of allocations. */
static int read_tortured(const msgpack_sbuffer *body, int fail_at, struct error *err,
                         int *ret_result)
{
    struct arena *arena = arena_new(TEST_ARENA_BYTES);
    struct job job;
    struct job before;
    *err = (struct error){0};
    mallocs_seen = 0;
    mallocs_until_failure = fail_at;
    *ret_result = job_read(body->data, body->size, arena, &job, err);
    before = job;
    if (*ret_result == 0) {
        *ret_result = job_read_arguments(&job, arena, err);
        if (*ret_result)
            assert_memory_equal(&job, &before, sizeof(job));
    }
    mallocs_until_failure = -1;
    if (*ret_result == 0)
        assert_string_equal(job.id, "job-1");
    arena_free(arena);
    return mallocs_seen;
}

static void every_failing_allocation_is_a_clean_error(void **state)
{
    (void)state;
    msgpack_sbuffer body;
    struct error err;
    int result = -1;
    msgpack_sbuffer_init(&body);
    pack_large_job(&body, JOB_MAX_SANDBOX_KEYS, 4096);
    int allocations = read_tortured(&body, -1, &err, &result);
    assert_int_equal(result, 0);
    assert_true(allocations >= 5);
    for (int fail_at = 0; fail_at < allocations; fail_at++) {
        (void)read_tortured(&body, fail_at, &err, &result);
        assert_int_equal(result, -1);
        assert_int_equal(err.code, ERROR_INTERNAL);
        assert_true(err.retryable);
    }
    msgpack_sbuffer_destroy(&body);
}

static void every_arena_that_is_too_small_is_a_clean_error(void **state)
{
    (void)state;
    msgpack_sbuffer body;
    size_t needed = 0;
    msgpack_sbuffer_init(&body);
    pack_large_job(&body, 3, 20);
    for (size_t cap = 0; needed == 0; cap += 8) {
        arena_scoped struct arena *arena = arena_new(cap);
        struct job job;
        struct error err = {0};
        int result = job_read(body.data, body.size, arena, &job, &err);
        if (result == 0)
            result = job_read_arguments(&job, arena, &err);
        if (result)
            assert_int_equal(err.code, ERROR_INTERNAL);
        else
            assert_int_equal(job.sandbox_key_count, 3);
        needed = result ? 0 : cap;
        assert_true(cap < 65536);
    }
    assert_true(needed > 100);
    msgpack_sbuffer_destroy(&body);
}

static void names_are_short_and_plain(void **state)
{
    (void)state;
    assert_int_equal(strlen(name_128), 128);
    assert_true(job_is_name(name_128, 128));
    assert_false(job_is_name(name_128, 129));
    assert_false(job_is_name("", 0));
    assert_true(job_is_name("a", 1));
    assert_true(job_is_name("0.x_y:z-1", 9));
    assert_false(job_is_name("a\0b", 3));
    assert_false(job_is_name("a\xc3\xa4", 3));
    static const char *const bad[] = {".a", "_a", ":a", "-a", "a b", "a/b", "a{b", "a\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(job_is_name(bad[i], strlen(bad[i])));
}

static void operations_have_names(void **state)
{
    (void)state;
    enum job_op op = JOB_INFO;
    assert_true(job_op_from_name("read_output", &op));
    assert_int_equal(op, JOB_READ_OUTPUT);
    assert_string_equal(job_op_name(JOB_READ_OUTPUT), "read_output");
    assert_false(job_op_from_name("teleport", &op));
    assert_int_equal(op, JOB_READ_OUTPUT);
    assert_true(job_op_needs_execution(JOB_STATUS));
    assert_false(job_op_needs_execution(JOB_INFO));
    assert_false(job_op_needs_execution(JOB_STOP));
    assert_false(job_op_needs_execution(JOB_DESTROY));
    assert_true(job_op_has_effects(JOB_STOP));
    assert_true(job_op_has_effects(JOB_DESTROY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_job_gets_the_defaults),
        cmocka_unit_test(a_full_job_is_read_whole),
        cmocka_unit_test(every_envelope_key_has_its_good_and_bad_forms),
        cmocka_unit_test(every_sandbox_key_has_its_good_and_bad_forms),
        cmocka_unit_test(every_argument_has_its_good_and_bad_forms),
        cmocka_unit_test(the_read_map_has_its_good_and_bad_forms),
        cmocka_unit_test(the_keys_of_read_output_have_their_good_and_bad_forms),
        cmocka_unit_test(the_keys_of_destroy_have_their_good_and_bad_forms),
        cmocka_unit_test(destroy_gets_the_originals_defaults),
        cmocka_unit_test(both_streams_of_read_share_the_limit),
        cmocka_unit_test(read_output_wants_the_stream_it_names),
        cmocka_unit_test(a_grace_that_is_not_above_zero_gets_the_words_callers_match),
        cmocka_unit_test(an_execution_id_that_is_no_c_text_gets_the_words_callers_match),
        cmocka_unit_test(failed_arguments_leave_the_job_as_it_was),
        cmocka_unit_test(a_numeric_id_is_refused_mp_06),
        cmocka_unit_test(a_timeout_may_be_int_or_float_mp_07),
        cmocka_unit_test(a_job_of_nothing_but_bin_is_read_mp_09),
        cmocka_unit_test(a_strange_extension_matters_only_in_a_known_key_mp_10),
        cmocka_unit_test(keys_that_are_no_text_are_ignored_at_the_top_only_mp_13),
        cmocka_unit_test(a_newer_version_can_still_be_replied_to),
        cmocka_unit_test(the_first_wrong_key_in_the_contracts_order_is_named),
        cmocka_unit_test(a_bad_reply_to_is_never_kept),
        cmocka_unit_test(an_unknown_operation_is_told_which_there_are),
        cmocka_unit_test(further_sandbox_keys_become_texts),
        cmocka_unit_test(a_sandbox_takes_32_further_keys_of_4096_bytes),
        cmocka_unit_test(a_deadline_of_long_ago_is_not_none),
        cmocka_unit_test(what_is_no_map_is_malformed),
        cmocka_unit_test(a_job_cut_at_any_byte_is_malformed_mp_15),
        cmocka_unit_test(every_failing_allocation_is_a_clean_error),
        cmocka_unit_test(every_arena_that_is_too_small_is_a_clean_error),
        cmocka_unit_test(names_are_short_and_plain),
        cmocka_unit_test(operations_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
