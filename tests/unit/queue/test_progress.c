/* Progress of a job, against a real redis-server: written without waiting, read as it
 * comes. */
#include "queue_scene.h"

#include <msgpack.h>

#include "queue/producer.h"
#include "queue/progress.h"

#define STREAM "attachd:{s}:progress:j"

static struct progress_entry entry_of(const char *phase, uint64_t bytes, uint64_t total,
                                      const char *line)
{
    struct progress_entry entry;
    progress_entry_set(&entry, phase, bytes, total, line, line ? strlen(line) : 0);
    return entry;
}

static void add(struct progress *progress, const char *phase, uint64_t bytes,
                uint64_t total, const char *line)
{
    const struct progress_entry entry = entry_of(phase, bytes, total, line);
    progress_add(progress, &entry);
}

/* ---- writing */

static void write_one(struct queue_scene *scene)
{
    struct progress progress;
    struct progress_entry entry;
    char line[300];
    memset(line, 'x', sizeof(line));
    memcpy(line, "a\0b\xff", 4);
    progress_init(&progress, scene->queue, "j");
    progress_entry_set(&entry, "upload", 10, 20, line, sizeof(line));
    progress_add(&progress, &entry);
    redis_reply_scoped redisReply *rows = scene_call(scene, "XRANGE " STREAM " - +");
    scene_expect(scene, rows && rows->elements == 1);
    if (!rows || rows->elements != 1)
        return;
    struct progress_entry read = {0};
    scene_expect(scene, progress_read(rows->element[0]->element[1], &read) == 0);
    scene_expect(scene, strcmp(read.phase, "upload") == 0);
    scene_expect(scene, read.bytes == 10 && read.total_bytes == 20);
    scene_expect(scene, read.line_bytes == PROGRESS_LINE_MAX);
    scene_expect(scene, memcmp(read.line, line, PROGRESS_LINE_MAX) == 0);
    long long life_ms = scene_number(scene, "PTTL " STREAM);
    scene_expect(scene, life_ms > PROGRESS_LIFE_MS / 2 && life_ms <= PROGRESS_LIFE_MS);
}

static void an_entry_keeps_its_numbers_and_two_hundred_bytes_of_its_line(void **state)
{
    scene_run(*state, write_one);
}

static void write_often(struct queue_scene *scene)
{
    struct progress progress;
    progress_init(&progress, scene->queue, "j");
    for (uint64_t i = 0; i < 10; i++)
        add(&progress, "upload", i, 100, NULL);
    scene_expect(scene, scene_number(scene, "XLEN " STREAM) == 1);
    add(&progress, "upload", 100, 100, NULL); /* its end, told once */
    add(&progress, "upload", 100, 100, NULL);
    scene_expect(scene, scene_number(scene, "XLEN " STREAM) == 2);
    add(&progress, "install", 0, 0, NULL);
    add(&progress, "install", 0, 0, "line");
    scene_expect(scene, scene_number(scene, "XLEN " STREAM) == 3);
    scene_expect(scene, task_sleep(PROGRESS_EVERY_MS + 20) == 0);
    add(&progress, "install", 0, 0, "line");
    scene_expect(scene, scene_number(scene, "XLEN " STREAM) == 4);
}

static void a_phase_has_an_entry_in_two_hundred_milliseconds_and_its_end(void **state)
{
    scene_run(*state, write_often);
}

static void write_many(struct queue_scene *scene)
{
    struct progress progress;
    progress_init(&progress, scene->queue, "j");
    for (uint64_t i = 0; i < 500; i++)
        add(&progress, i % 2 ? "extract" : "install", i, 0, NULL);
    long long count = scene_number(scene, "XLEN " STREAM);
    scene_expect(scene, count >= PROGRESS_MAXLEN && count < 500);
}

static void the_stream_is_bounded(void **state)
{
    scene_run(*state, write_many);
}

static void add_phases(void *arg)
{
    struct progress *progress = arg;
    for (uint64_t i = 0; i < 20; i++)
        add(progress, i % 2 ? "extract" : "install", i, 0, NULL);
}

/* On the loop's own stack nothing can wait: task_await asserts that. */
static void write_to_one_that_stands_still(struct queue_scene *scene)
{
    struct progress progress;
    progress_init(&progress, scene->queue, "j");
    (void)kill(scene->server.pid, SIGSTOP);
    task_on_loop(add_phases, &progress);
    (void)kill(scene->server.pid, SIGCONT);
    scene_expect(scene, scene_number(scene, "XLEN " STREAM) == 20);
}

static void writing_waits_for_nothing(void **state)
{
    scene_run(*state, write_to_one_that_stands_still);
}

static void write_while_down(struct queue_scene *scene)
{
    struct progress progress;
    struct progress none = {0};
    progress_init(&progress, scene->queue, "j");
    connection_break(scene->queue->commands, "the test");
    task_on_loop(add_phases, &progress);
    task_on_loop(add_phases, &none); /* nobody wants it */
    scene_expect(scene, progress.sent_at_ms == 0);
    scene_expect(scene, connection_wait_up(scene->queue->commands) == 0);
    scene_expect(scene, scene_number(scene, "XLEN " STREAM) == 0);
    add(&progress, "install", 0, 0, NULL);
    scene_expect(scene, scene_number(scene, "XLEN " STREAM) == 1);
}

static void while_redis_is_away_entries_are_dropped_and_later_ones_come(void **state)
{
    scene_run(*state, write_while_down);
}

static void write_in_the_way(struct queue_scene *scene)
{
    struct progress progress;
    redis_reply_scoped redisReply *set __attribute__((unused)) =
        scene_call(scene, "SET " STREAM " text");
    progress_init(&progress, scene->queue, "j");
    add(&progress, "upload", 0, 0, NULL);
    scene_expect(scene, scene_number(scene, "STRLEN " STREAM) == 4);
    scene_expect(scene, scene_number(scene, "PTTL " STREAM) == -1);
}

static void a_key_of_another_type_is_left_alone(void **state)
{
    scene_run(*state, write_in_the_way);
}

/* ---- reading */

struct heard {
    struct queue_scene *scene;
    char text[256];
    char line[PROGRESS_LINE_MAX];
    int count;
};

static void hear(void *arg, const struct progress_entry *entry)
{
    struct heard *heard = arg;
    size_t used = strlen(heard->text);
    (void)snprintf(heard->text + used, sizeof(heard->text) - used, "%s:%d/%d ",
                   entry->phase, (int)entry->bytes, (int)entry->total_bytes);
    memcpy(heard->line, entry->line, entry->line_bytes);
    heard->count++;
}

static void write_nil(msgpack_packer *packer, const void *arg)
{
    (void)arg;
    (void)msgpack_pack_nil(packer);
}

SUSPENDS static void add_reply(struct queue_scene *scene)
{
    const struct reply_envelope envelope = {.id = "j", .entry = "1-1", .worker = "w"};
    redis_reply_scoped redisReply *answer = NULL;
    const char *data = NULL;
    size_t size = 0;
    struct call call;
    scene_expect(scene, reply_write_result(&envelope, write_nil, NULL, scene->arena, &data,
                                           &size) == 0);
    call_init(&call, scene->arena, 10);
    call_add_text(&call, "XADD");
    call_add_text(&call, "attachd:{s}:replies");
    call_add_text(&call, "*");
    call_add_text(&call, "id");
    call_add_text(&call, "j");
    call_add_text(&call, "reply");
    call_add(&call, data, size);
    scene_expect(scene, connection_call(scene->queue->commands, &call, 0, &answer) == 0);
}

/* A worker that writes as it goes. It has a connection of its own: the reader's is blocked
 * in the server meanwhile. */
static void be_a_worker(void *arg)
{
    struct heard *heard = arg;
    struct queue_scene own = *heard->scene;
    struct progress progress;
    struct error err = {0};
    if (queue_open(task_loop(task_self()), &heard->scene->queue->options, false, &own.queue,
                   &err) != 0)
        return;
    (void)connection_wait_up(own.queue->commands);
    progress_init(&progress, own.queue, "j");
    add(&progress, "upload", 1, 2, NULL);
    while (heard->count < 1 && task_sleep(1) == 0)
        ;
    add(&progress, "install", 0, 0, "npm");
    add_reply(&own);
    queue_free(own.queue);
}

SUSPENDS static int follow(struct queue_scene *scene, struct heard *heard)
{
    struct producer_ticket ticket = {0};
    struct reply reply = {0};
    struct error err = {0};
    const struct producer_follow follow = {
        .job_id = "j", .on_progress = heard ? hear : NULL, .on_progress_arg = heard};
    if (producer_enqueue(scene->queue, "job", 3, NULL, &ticket, &err) != 0)
        return -1;
    if (heard)
        (void)task_start(task_loop(task_self()), "worker", be_a_worker, heard);
    else
        add_reply(scene);
    int failed =
        producer_follow(scene->queue, &follow, &ticket, scene->arena, &reply, &err);
    return failed ? failed : !reply.ok;
}

static void follow_one(struct queue_scene *scene)
{
    struct heard heard = {.scene = scene};
    struct progress before;
    progress_init(&before, scene->queue, "j");
    add(&before, "start", 7, 7, NULL); /* of an earlier job of the same id */
    scene_expect(scene, scene_number(scene, "XLEN " STREAM) == 1);
    scene_expect(scene, task_sleep(2) == 0); /* entries are told apart by the millisecond */
    scene_expect(scene, follow(scene, &heard) == 0);
    scene_expect(scene, strcmp(heard.text, "upload:1/2 install:0/0 ") == 0);
    scene_expect(scene, memcmp(heard.line, "npm", 3) == 0);
}

static void progress_is_told_as_it_comes_and_before_the_reply(void **state)
{
    scene_run(*state, follow_one);
}

static void follow_nothing(struct queue_scene *scene)
{
    scene_expect(scene, follow(scene, NULL) == 0);
}

static void without_a_listener_the_reply_is_waited_for_alone(void **state)
{
    scene_run(*state, follow_nothing);
}

/* The worker goes on once it is heard: here it need not be. */
static void follow_what_is_no_stream(struct queue_scene *scene)
{
    struct heard heard = {.scene = scene, .count = 1};
    redis_reply_scoped redisReply *set __attribute__((unused)) =
        scene_call(scene, "SET " STREAM " text");
    scene_expect(scene, follow(scene, &heard) == 0);
    scene_expect(scene, heard.text[0] == '\0');
}

static void where_progress_cannot_be_read_the_reply_still_comes(void **state)
{
    scene_run(*state, follow_what_is_no_stream);
}

static void read_foreign(struct queue_scene *scene)
{
    static const struct {
        const char *fields;
        int result;
        const char *phase;
        uint64_t bytes;
    } rows[] = {
        {"bytes 1", -1, "", 0},
        {"phase install bytes -5", 0, "install", 0},
        {"phase install bytes 5x", 0, "install", 0},
        {"phase install bytes 5 more m", 0, "install", 5},
        {"phase a-phase-with-a-long-name", 0, "a-phase-with-a-", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct progress_entry entry = {0};
        redis_reply_scoped redisReply *added __attribute__((unused)) = scene_call(
            scene, arena_printf(scene->arena, "XADD %zu * %s", i, rows[i].fields));
        redis_reply_scoped redisReply *found =
            scene_call(scene, arena_printf(scene->arena, "XRANGE %zu - +", i));
        scene_expect(scene, progress_read(found->element[0]->element[1], &entry) ==
                                rows[i].result);
        scene_expect(scene, strcmp(entry.phase, rows[i].phase) == 0);
        scene_expect(scene, entry.bytes == rows[i].bytes);
    }
}

static void entries_that_others_wrote_are_read_as_far_as_they_make_sense(void **state)
{
    scene_run(*state, read_foreign);
}

#define scene_test(name)                                                                   \
    cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(an_entry_keeps_its_numbers_and_two_hundred_bytes_of_its_line),
        scene_test(a_phase_has_an_entry_in_two_hundred_milliseconds_and_its_end),
        scene_test(the_stream_is_bounded),
        scene_test(writing_waits_for_nothing),
        scene_test(while_redis_is_away_entries_are_dropped_and_later_ones_come),
        scene_test(a_key_of_another_type_is_left_alone),
        scene_test(progress_is_told_as_it_comes_and_before_the_reply),
        scene_test(without_a_listener_the_reply_is_waited_for_alone),
        scene_test(where_progress_cannot_be_read_the_reply_still_comes),
        scene_test(entries_that_others_wrote_are_read_as_far_as_they_make_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
