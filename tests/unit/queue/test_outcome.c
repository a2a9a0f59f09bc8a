/* Outcome records against a real redis-server: written by the finish, read by whoever has
 * another entry of the same job id. */
#include "queue_scene.h"

#include <msgpack.h>
#include <stdlib.h>

#include "queue/finish.h"
#include "queue/outcome.h"
#include "runtime/clock.h"

#define RECORD "attachd:{s}:done:j"

static const char VALUE[] = "\x82\xa1x\xc4\x03\n\0\n\xa1y\xc0"; /* {x: bin, y: nil} */
enum { VALUE_BYTES = sizeof(VALUE) - 1 };

/* Adds an entry and takes it, as the queue's consumer. */
SUSPENDS static struct lease take_entry(struct queue_scene *scene)
{
    struct lease lease = {.token = 1, .renewed_at_ms = clock_boot_ms()};
    struct error err = {0};
    scene_expect(scene, queue_join(scene->queue, &err) == 0);
    redis_reply_scoped redisReply *added =
        scene_call(scene, "XADD attachd:{s}:jobs * job body");
    redis_reply_scoped redisReply *read = scene_call(
        scene,
        arena_printf(scene->arena,
                     "XREADGROUP GROUP workers %s COUNT 1 STREAMS attachd:{s}:jobs >",
                     scene->queue->consumer));
    scene_expect(scene, read && read->type == REDIS_REPLY_ARRAY);
    (void)snprintf(lease.entry, sizeof(lease.entry), "%s", added->str);
    return lease;
}

SUSPENDS static void finish(struct queue_scene *scene, const struct reply_outcome *outcome)
{
    const struct lease lease = take_entry(scene);
    const struct finish_reply reply = {
        .job_id = "j", .ok = true, .data = "r", .size = 1, .outcome = outcome};
    enum finish finish = FINISH_FENCED;
    struct error err = {0};
    scene_expect(scene,
                 finish_with_reply(scene->queue, &lease, &reply, &finish, &err) == 0);
    scene_expect(scene, finish == FINISH_DONE);
}

/* -1: error; 0: nothing is kept; 1: something. */
SUSPENDS static int read_as(struct queue_scene *scene, const char *job_id, const char *op,
                            struct reply_outcome *ret_outcome)
{
    const struct lease lease = {.renewed_at_ms = clock_boot_ms()};
    struct error err = {0};
    struct reply_outcome outcome = {0};
    if (outcome_read(scene->queue, &lease, job_id, op, scene->arena, &outcome, &err) != 0)
        return -1;
    if (ret_outcome)
        *ret_outcome = outcome;
    return outcome.data != NULL;
}

static void keep_and_read(struct queue_scene *scene)
{
    struct reply_outcome outcome = {"deploy", true, VALUE, VALUE_BYTES};
    struct reply_outcome read = {0};
    scene_expect(scene, read_as(scene, "j", "deploy", NULL) == 0);
    finish(scene, &outcome);
    scene_expect(scene, read_as(scene, "j", "deploy", &read) == 1);
    scene_expect(scene, read.ok && read.size == VALUE_BYTES);
    scene_expect(scene, read.data && memcmp(read.data, VALUE, VALUE_BYTES) == 0);
    scene_expect(scene, read_as(scene, "another", "deploy", NULL) == 0);
    scene_expect(scene, read_as(scene, "j", "cancel", NULL) == 0);
    scene_expect(scene, read_as(scene, "j", "deplo", NULL) == 0);
    scene_expect(scene, read_as(scene, "j", "deploy2", NULL) == 0);
    long long life_ms = scene_number(scene, "PTTL " RECORD);
    scene_expect(scene, life_ms > 30000 && life_ms <= 60000);
}

static void an_outcome_is_told_to_the_same_id_and_operation(void **state)
{
    scene_run(*state, keep_and_read);
}

static void keep_a_failure(struct queue_scene *scene)
{
    struct reply_outcome failed = {"deploy", false, VALUE, VALUE_BYTES};
    struct reply_outcome later = {"deploy", true, "\xc0", 1};
    struct reply_outcome read = {0};
    finish(scene, &failed);
    finish(scene, &later);
    finish(scene, NULL);
    scene_expect(scene, read_as(scene, "j", "deploy", &read) == 1);
    scene_expect(scene, !read.ok && read.size == VALUE_BYTES);
}

static void the_first_outcome_stays_whatever_later_entries_come_to(void **state)
{
    scene_run(*state, keep_a_failure);
}

static void keep_nothing(struct queue_scene *scene)
{
    finish(scene, NULL);
    scene_expect(scene, scene_number(scene, "EXISTS " RECORD) == 1);
    scene_expect(scene, read_as(scene, "j", "deploy", NULL) == 0);
}

static void a_delivery_without_an_outcome_leaves_its_mark_alone(void **state)
{
    scene_run(*state, keep_nothing);
}

static void keep_much(struct queue_scene *scene)
{
    enum { HEAD = 5 };
    char *data = arena_calloc(scene->arena, 1, OUTCOME_MAX_BYTES + 1);
    struct reply_outcome outcome = {"deploy", true, data, OUTCOME_MAX_BYTES};
    struct reply_outcome read = {0};
    memcpy(data, "\xc6\x00\x0f\xff\xfb", HEAD); /* bin of 1 MiB less its head */
    finish(scene, &outcome);
    scene_expect(scene, read_as(scene, "j", "deploy", &read) == 1);
    scene_expect(scene, read.size == OUTCOME_MAX_BYTES);
    scene_expect(scene, scene_number(scene, "DEL " RECORD) == 1);
    data[4]++;
    outcome.size++;
    finish(scene, &outcome);
    scene_expect(scene, scene_number(scene, "STRLEN " RECORD) < 300);
    scene_expect(scene, read_as(scene, "j", "deploy", NULL) == 0);
}

static void more_than_a_mebibyte_is_not_kept_and_its_mark_is(void **state)
{
    scene_run(*state, keep_much);
}

static void read_after_its_life(struct queue_scene *scene)
{
    struct reply_outcome outcome = {"deploy", true, VALUE, VALUE_BYTES};
    scene->queue->options.record_ttl_ms = 50;
    finish(scene, &outcome);
    scene_expect(scene, read_as(scene, "j", "deploy", NULL) == 1);
    while (scene_number(scene, "EXISTS " RECORD) == 1 && task_sleep(5) == 0)
        ;
    scene_expect(scene, read_as(scene, "j", "deploy", NULL) == 0);
}

static void a_record_ends_with_its_life(void **state)
{
    scene_run(*state, read_after_its_life);
}

SUSPENDS static void set_record(struct queue_scene *scene, const char *data, size_t size)
{
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    call_init(&call, scene->arena, 3);
    call_add_text(&call, "SET");
    call_add_text(&call, RECORD);
    call_add(&call, data, size);
    scene_expect(scene, connection_call(scene->queue->commands, &call, 0, &reply) == 0);
}

static void read_garbage(struct queue_scene *scene)
{
    static const struct {
        const char *text;
        size_t size;
        int kept;
    } rows[] = {
#define ROW(text, kept) {text, sizeof(text) - 1, kept}
        ROW("d:w:1-1:1:1\ndeploy 1\n\xc0", 1),
        ROW("", 0),
        ROW("d", 0),
        ROW("d:", 0),
        ROW("d:\n", 0),
        ROW("\n\n\n", 0),
        ROW("q:1-1\ndeploy 1\n\xc0", 0),
        ROW("d:w:1-1:1:1\ndeploy 1\n", 0),
        ROW("d:w:1-1:1:1\ndeploy 1", 0),
        ROW("d:w:1-1:1:1\ndeploy 11\n\xc0", 0),
        ROW("d:w:1-1:1:1\ndeploy\n\xc0\n\xc0", 0),
        ROW("d:w:1-1:1:1\ndeploy 1\n\xc1", 0),                 /* no MessagePack */
        ROW("d:w:1-1:1:1\ndeploy 1\n\xc0\xc0", 0),             /* more than one value */
        ROW("d:w:1-1:1:1\ndeploy 1\n\xdd\xff\xff\xff\xff", 0), /* a count, nothing behind */
#undef ROW
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_record(scene, rows[i].text, rows[i].size);
        int kept = read_as(scene, "j", "deploy", NULL);
        if (kept != rows[i].kept)
            (void)fprintf(stderr, "row %zu\n", i);
        scene_expect(scene, kept == rows[i].kept);
    }
    (void)scene_number(scene, "DEL " RECORD);
    scene_expect(scene, scene_number(scene, "RPUSH " RECORD " a list") == 2);
    scene_expect(scene, read_as(scene, "j", "deploy", NULL) == 0);
    finish(scene, NULL);
}

static void what_is_no_record_counts_as_none(void **state)
{
    scene_run(*state, read_garbage);
}

static void read_without_memory(struct queue_scene *scene)
{
    const struct lease lease = {.renewed_at_ms = clock_boot_ms()};
    int refused = 0;
    int read = 0;
    set_record(scene, "d:w:1-1:1:1\ndeploy 1\n\x93\x01\x02\x03",
               sizeof("d:w:1-1:1:1\ndeploy 1\n\x93\x01\x02\x03") - 1);
    for (size_t bytes = 1; bytes <= 4096; bytes *= 2) {
        arena_scoped struct arena *arena = arena_new(bytes);
        struct reply_outcome outcome = {.size = 7};
        struct error err = {0};
        int failed =
            outcome_read(scene->queue, &lease, "j", "deploy", arena, &outcome, &err);
        refused += failed && err.code == ERROR_INTERNAL && outcome.size == 7;
        read += !failed && outcome.data;
        scene_expect(scene, failed || outcome.data);
    }
    scene_expect(scene, refused > 0 && read > 0);
}

static void without_memory_for_it_a_record_is_an_error_and_not_none(void **state)
{
    scene_run(*state, read_without_memory);
}

static void come_back(void *arg)
{
    struct queue_scene *scene = arg;
    (void)task_sleep(300);
    connection_break(scene->queue->commands, "the test");
    (void)kill(scene->server.pid, SIGCONT);
}

static void read_while_away(struct queue_scene *scene)
{
    set_record(scene, "d:w:1-1:1:1\ndeploy 1\n\xc0", 22);
    (void)kill(scene->server.pid, SIGSTOP);
    (void)task_start(task_loop(task_self()), "back", come_back, scene);
    scene_expect(scene, read_as(scene, "j", "deploy", NULL) == 1);
}

static void a_redis_that_is_away_is_waited_for(void **state)
{
    scene_run(*state, read_while_away);
}

static void read_after_the_lease(struct queue_scene *scene)
{
    struct lease lease = {.renewed_at_ms = clock_boot_ms()};
    struct reply_outcome outcome = {.size = 7};
    struct error err = {0};
    scene->queue->options.lease_ms = 500;
    (void)kill(scene->server.pid, SIGSTOP);
    connection_break(scene->queue->commands, "the test");
    uint64_t began_at_ms = clock_boot_ms();
    scene_expect(scene, outcome_read(scene->queue, &lease, "j", "deploy", scene->arena,
                                     &outcome, &err) != 0);
    scene_expect(scene, err.code == ERROR_QUEUE_UNAVAILABLE && outcome.size == 7);
    scene_expect(scene, clock_boot_ms() - began_at_ms < 3000);
    (void)kill(scene->server.pid, SIGCONT);
}

static void but_no_longer_than_the_lease_lives(void **state)
{
    scene_run(*state, read_after_the_lease);
}

static void what_may_have_happened_is_kept_and_what_may_do_better_is_not(void **state)
{
    (void)state;
    static const enum error_code kept[] = {ERROR_COMMAND_FAILED, ERROR_DEPLOY_FAILED,
                                           ERROR_OUTCOME_UNKNOWN};
    for (int code = ERROR_NONE + 1; code <= ERROR_CONFIGURATION; code++) {
        struct error err = {0};
        bool expected = false;
        (void)error_set(&err, (enum error_code)code, "it");
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
            expected = expected || kept[i] == err.code;
        assert_int_equal(outcome_keeps_error(&err), expected);
        err.retryable = true;
        assert_false(outcome_keeps_error(&err));
    }
}

#define scene_test(name)                                                                   \
    cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(an_outcome_is_told_to_the_same_id_and_operation),
        scene_test(the_first_outcome_stays_whatever_later_entries_come_to),
        scene_test(a_delivery_without_an_outcome_leaves_its_mark_alone),
        scene_test(more_than_a_mebibyte_is_not_kept_and_its_mark_is),
        scene_test(a_record_ends_with_its_life),
        scene_test(what_is_no_record_counts_as_none),
        scene_test(without_memory_for_it_a_record_is_an_error_and_not_none),
        scene_test(a_redis_that_is_away_is_waited_for),
        scene_test(but_no_longer_than_the_lease_lives),
        cmocka_unit_test(what_may_have_happened_is_kept_and_what_may_do_better_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
