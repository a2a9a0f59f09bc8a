/* The connection against a real redis-server that is stopped, killed and started again. The
 * case ids are those of the reports that the tests guard against. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "queue/connection.h"
#include "queue/refusal.h"
#include "redis_server.h"
#include "runtime/deadline.h"
#include "runtime/event.h"
#include "runtime/loop.h"

enum { MANY = 500, WAIT_MS = 20000, SHORT_MS = 200 };

struct scene {
    struct redis_server server;
    struct connection *connection;
    uint64_t command_timeout_ms;
    int results[8];
    int good_count;
    int lost_count;
    int running_count;
    struct event done;
    struct task *victim;
    char text[64];
    char why[160];
    int inheritable_count;
};

static int set_up(void **state)
{
    static struct scene scene;
    memset(&scene, 0, sizeof(scene));
    redis_server_init(&scene.server);
    redis_server_start(&scene.server, NULL);
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    redis_server_done(&scene->server);
    return 0;
}

static void on_change(void *arg, bool is_up, const char *why)
{
    struct scene *scene = arg;
    if (!is_up)
        (void)snprintf(scene->why, sizeof(scene->why), "%s", why);
}

static void open_connection(struct scene *scene, const char *password)
{
    struct connection_options options = {.command_timeout_ms = scene->command_timeout_ms,
                                         .on_change = on_change,
                                         .on_change_arg = scene};
    struct error err = {0};
    (void)address_parse(scene->server.url, &options.address, &err);
    (void)snprintf(options.address.password, sizeof(options.address.password), "%s",
                   password);
    scene->connection = connection_new(task_loop(task_self()), &options);
}

/* Waits until it is up, with a bound. */
static int wait_up(struct scene *scene)
{
    struct deadline deadline;
    deadline_enter(&deadline, WAIT_MS);
    int result = connection_wait_up(scene->connection);
    deadline_leave(&deadline);
    return result;
}

/* ECHO of a text with a NUL in it; 0 where exactly that came back. */
static int echo(struct scene *scene, int number)
{
    arena_scoped struct arena *arena = arena_new(4096);
    redis_reply_scoped redisReply *reply = NULL;
    struct call call;
    char text[32];
    int length = snprintf(text, sizeof(text), "a%cb %d %%s", 0, number);
    call_init(&call, arena, 2);
    call_add_text(&call, "ECHO");
    call_add(&call, text, (size_t)length);
    int result = connection_call(scene->connection, &call, 0, &reply);
    if (result)
        return result;
    return reply->type == REDIS_REPLY_STRING && reply->len == (size_t)length &&
                   memcmp(reply->str, text, reply->len) == 0
               ? 0
               : -EBADMSG;
}

static void echo_in_a_task(void *arg)
{
    struct scene *scene = arg;
    int result = echo(scene, scene->running_count);
    scene->good_count += result == 0;
    scene->lost_count += result == -ECONNRESET || result == -ENOTCONN;
    scene->running_count--;
    event_broadcast(&scene->done);
}

static void echo_in_many_tasks(struct scene *scene, int count)
{
    for (int i = 0; i < count; i++) {
        scene->running_count++;
        (void)task_start(task_loop(task_self()), "echo", echo_in_a_task, scene);
    }
}

static void wait_for_all(struct scene *scene)
{
    while (scene->running_count > 0)
        if (event_wait(&scene->done, "echoes") != 0)
            break;
}

static void run_many(void *arg)
{
    struct scene *scene = arg;
    open_connection(scene, "");
    scene->results[0] = wait_up(scene);
    echo_in_many_tasks(scene, MANY);
    wait_for_all(scene);
    connection_free(scene->connection);
}

static void hi_11_each_task_gets_its_own_answer_byte_for_byte(void **state)
{
    struct scene *scene = *state;
    support_run_task(run_many, scene);
    assert_int_equal(scene->results[0], 0);
    assert_int_equal(scene->good_count, MANY);
}

static void run_late_answer(void *arg)
{
    struct scene *scene = arg;
    scene->command_timeout_ms = SHORT_MS;
    open_connection(scene, "");
    scene->results[0] = wait_up(scene);
    (void)kill(scene->server.pid, SIGSTOP);
    scene->results[1] = echo(scene, 1);
    (void)kill(scene->server.pid, SIGCONT);
    scene->results[2] = wait_up(scene);
    for (int i = 0; i < MANY && scene->results[3] == 0; i++)
        scene->results[3] = echo(scene, i);
    connection_free(scene->connection);
}

static void hi_01_a_late_answer_never_reaches_the_next_command(void **state)
{
    struct scene *scene = *state;
    support_run_task(run_late_answer, scene);
    assert_int_equal(scene->results[0], 0);
    assert_int_equal(scene->results[1], -ECONNRESET);
    assert_string_equal(scene->why, "a command got no answer in time");
    assert_int_equal(scene->results[2], 0);
    assert_int_equal(scene->results[3], 0);
}

static void restart(void *arg)
{
    struct scene *scene = arg;
    redis_server_kill(&scene->server);
    redis_server_start(&scene->server, NULL);
}

static void run_server_killed(void *arg)
{
    struct scene *scene = arg;
    open_connection(scene, "");
    scene->results[0] = wait_up(scene);
    (void)kill(scene->server.pid, SIGSTOP); /* so that all of them are under way */
    echo_in_many_tasks(scene, MANY);
    (void)task_sleep(1);
    scene->results[1] = task_work("restart", restart, scene);
    wait_for_all(scene);
    scene->results[2] = wait_up(scene);
    scene->results[3] = echo(scene, 1);
    connection_free(scene->connection);
}

static void
what_was_under_way_when_the_server_died_is_lost_once_and_it_connects_again(void **state)
{
    struct scene *scene = *state;
    support_run_task(run_server_killed, scene);
    assert_int_equal(scene->lost_count, MANY);
    assert_int_equal(scene->good_count, 0);
    assert_int_equal(scene->results[2], 0);
    assert_int_equal(scene->results[3], 0);
}

static void echo_as_victim(void *arg)
{
    struct scene *scene = arg;
    scene->victim = task_self();
    scene->results[1] = echo(scene, 1);
    scene->running_count--;
    event_broadcast(&scene->done);
}

static void run_cancelled(void *arg)
{
    struct scene *scene = arg;
    open_connection(scene, "");
    scene->results[0] = wait_up(scene);
    (void)kill(scene->server.pid, SIGSTOP);
    scene->running_count++;
    (void)task_start(task_loop(task_self()), "victim", echo_as_victim, scene);
    (void)task_sleep(1);
    task_cancel(scene->victim);
    wait_for_all(scene);
    (void)kill(scene->server.pid, SIGCONT);
    for (int i = 0; i < MANY && scene->results[2] == 0; i++)
        scene->results[2] = echo(scene, i);
    connection_free(scene->connection);
}

static void the_answer_to_a_cancelled_wait_is_dropped(void **state)
{
    struct scene *scene = *state;
    support_run_task(run_cancelled, scene);
    assert_int_equal(scene->results[1], -ECANCELED);
    assert_int_equal(scene->results[2], 0);
}

static void run_broken_often(void *arg)
{
    struct scene *scene = arg;
    open_connection(scene, "");
    for (int i = 0; i < 20; i++) {
        scene->results[0] |= wait_up(scene);
        echo_in_many_tasks(scene, 20);
        (void)task_sleep(i % 2);
        connection_break(scene->connection, "for the test");
        wait_for_all(scene);
    }
    connection_free(scene->connection);
}

static void hi_03_forced_resets_free_everything_once(void **state)
{
    struct scene *scene = *state;
    support_run_task(run_broken_often, scene);
    assert_int_equal(scene->results[0], 0);
    assert_int_equal(scene->good_count + scene->lost_count, 400);
}

static void run_freed_under_way(void *arg)
{
    struct scene *scene = arg;
    open_connection(scene, "");
    scene->results[0] = wait_up(scene);
    (void)kill(scene->server.pid, SIGSTOP);
    echo_in_many_tasks(scene, 20);
    (void)task_sleep(1);
    connection_free(scene->connection);
    wait_for_all(scene);
    (void)kill(scene->server.pid, SIGCONT);
}

static void freeing_it_ends_what_is_under_way(void **state)
{
    struct scene *scene = *state;
    support_run_task(run_freed_under_way, scene);
    assert_int_equal(scene->lost_count, 20);
}

static void run_without_server(void *arg)
{
    struct scene *scene = arg;
    redis_server_kill(&scene->server);
    open_connection(scene, "");
    scene->results[0] = echo(scene, 1);
    (void)task_sleep(20);
    redis_server_start(&scene->server, NULL);
    scene->results[1] = wait_up(scene);
    scene->results[2] = echo(scene, 1);
    connection_free(scene->connection);
}

static void it_comes_up_when_the_server_does(void **state)
{
    struct scene *scene = *state;
    support_run_task(run_without_server, scene);
    assert_int_equal(scene->results[0], -ENOTCONN);
    assert_int_equal(scene->results[1], 0);
    assert_int_equal(scene->results[2], 0);
}

static void run_wrong_password(void *arg)
{
    struct scene *scene = arg;
    redis_server_kill(&scene->server);
    redis_server_start(&scene->server, "right");
    open_connection(scene, "wrong");
    while (scene->why[0] == '\0')
        (void)task_sleep(1);
    scene->results[0] = connection_is_up(scene->connection);
    connection_free(scene->connection);
    open_connection(scene, "right");
    scene->results[1] = wait_up(scene);
    connection_free(scene->connection);
}

static void hi_05_a_refused_password_is_told_and_does_not_crash(void **state)
{
    struct scene *scene = *state;
    support_run_task(run_wrong_password, scene);
    assert_non_null(strstr(scene->why, "WRONGPASS"));
    assert_null(strstr(scene->why, "wrong"));
    assert_int_equal(scene->results[0], 0);
    assert_int_equal(scene->results[1], 0);
}

static void count_inheritable(struct scene *scene)
{
    for (int fd = 3; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && !(flags & FD_CLOEXEC))
            scene->inheritable_count++;
    }
}

static void run_inheritance(void *arg)
{
    struct scene *scene = arg;
    count_inheritable(scene);
    int before = scene->inheritable_count;
    open_connection(scene, "");
    scene->results[0] = wait_up(scene);
    scene->inheritable_count = 0;
    count_inheritable(scene);
    scene->inheritable_count -= before;
    connection_free(scene->connection);
}

static void no_child_inherits_the_socket(void **state)
{
    struct scene *scene = *state;
    support_run_task(run_inheritance, scene);
    assert_int_equal(scene->results[0], 0);
    assert_int_equal(scene->inheritable_count, 0);
}

#define scene_test(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(hi_11_each_task_gets_its_own_answer_byte_for_byte),
        scene_test(hi_01_a_late_answer_never_reaches_the_next_command),
        scene_test(
            what_was_under_way_when_the_server_died_is_lost_once_and_it_connects_again),
        scene_test(the_answer_to_a_cancelled_wait_is_dropped),
        scene_test(hi_03_forced_resets_free_everything_once),
        scene_test(freeing_it_ends_what_is_under_way),
        scene_test(it_comes_up_when_the_server_does),
        scene_test(hi_05_a_refused_password_is_told_and_does_not_crash),
        scene_test(no_child_inherits_the_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
