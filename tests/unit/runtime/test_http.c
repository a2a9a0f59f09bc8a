/* http.h against a server that plays scripts, and against ports where nobody answers.
 * Tests named cu_nn follow recorded cases of libcurl (CU-nn). */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "scripted_server.h"
#include "runtime/deadline.h"
#include "runtime/http.h"
#include "runtime/http_pool.h"
#include "runtime/loop.h"
#include "runtime/task.h"

#define OK_2  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define BEGIN "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"

enum {
    ARENA_BYTES = 32 * 1024 * 1024,
    RECEIVED_BYTES = 4096,
    MAX_OUTCOMES = 24,
    MANY = 600,
    UNTOUCHED = -77
};

struct outcome {
    int result;
    struct error err;
    struct http_response response;
    bool untouched; /* the response, of a failure */
};

struct scene {
    const struct scripted_step *script; /* for every connection, or else */
    const struct scripted_step *const *scripts;
    struct scripted_options options;
    void (*act)(struct scene *scene); /* NULL: one request */
    struct http_request request;      /* its URL is made of `path` */
    const char *path;
    const char *url_scheme;

    struct scripted_server *server;
    struct arena *arena;
    char url[256];
    struct outcome *outcomes; /* MAX_OUTCOMES */
    size_t outcome_count;
    struct task *task;
    size_t good;
    size_t ended;
    char *received; /* RECEIVED_BYTES */
    size_t received_bytes;
    size_t refuse_after; /* on_data ends the transfer at that many bytes; 0: never */
    size_t numbers[4];
};

/* ---- name lookups of this program ------------------------------------------------------
 *
 * libcurl's lookups end here, so that no test asks a name server. */

static sem_t lookup_may_end;
static sem_t lookup_begun;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_addresses)
{
    (void)service;
    (void)hints;
    (void)ret_addresses;
    if (node && strcmp(node, "slow.test") == 0) {
        (void)sem_post(&lookup_begun);
        while (sem_wait(&lookup_may_end) != 0)
            continue;
    }
    return EAI_NONAME;
}

/* ---- acting ---- */

static struct outcome *perform_request(struct scene *scene,
                                       const struct http_request *request)
{
    struct outcome *outcome = &scene->outcomes[scene->outcome_count++];
    outcome->response.status = UNTOUCHED;
    outcome->result =
        http_perform(request, scene->arena, &outcome->response, &outcome->err);
    outcome->untouched = outcome->response.status == UNTOUCHED;
    return outcome;
}

static struct outcome *perform(struct scene *scene)
{
    return perform_request(scene, &scene->request);
}

/* Until the server has recorded that many; for at most ten seconds. */
static void await_count(struct scene *scene, size_t (*count)(struct scripted_server *),
                        size_t wanted)
{
    for (int i = 0; i < 10000 && count(scene->server) < wanted; i++)
        (void)task_sleep(1);
}

static void play(void *arg)
{
    struct scene *scene = arg;
    const struct scripted_step *const single[] = {scene->script, NULL};
    if (!scene->options.scripts)
        scene->options.scripts = scene->scripts ? scene->scripts : single;
    scene->server = scripted_server_start(&scene->options);
    scene->arena = arena_new(ARENA_BYTES);
    scene->task = task_self();
    if (!scene->request.method)
        scene->request.method = "GET";
    (void)snprintf(scene->url, sizeof(scene->url), "%s://127.0.0.1:%d%s",
                   scene->url_scheme ? scene->url_scheme : "http",
                   scripted_server_port(scene->server), scene->path ? scene->path : "/");
    scene->request.url = scene->url;
    if (scene->act)
        scene->act(scene);
    else
        (void)perform(scene);
    scripted_server_stop(scene->server);
}

static void scene_run(struct scene *scene)
{
    scene->outcomes = calloc(MAX_OUTCOMES, sizeof(*scene->outcomes));
    scene->received = calloc(1, RECEIVED_BYTES);
    assert_true(scene->outcomes && scene->received);
    support_run_task(play, scene);
}

static void scene_done(struct scene *scene)
{
    scripted_server_free(scene->server);
    arena_free(scene->arena);
    free(scene->outcomes);
    free(scene->received);
}

static void assert_code(const struct outcome *outcome, enum error_code code)
{
    assert_string_equal(error_code_name(outcome->err.code), error_code_name(code));
    assert_int_equal(outcome->result, -1);
    assert_true(outcome->untouched);
}

static void assert_ok(const struct outcome *outcome, const char *body)
{
    assert_string_equal(outcome->err.message, "");
    assert_int_equal(outcome->result, 0);
    assert_int_equal(outcome->response.status, 200);
    assert_string_equal(outcome->response.body, body);
    assert_int_equal(outcome->response.body_bytes, strlen(body));
}

static const struct scripted_step answer_ever[] = {
    {SCRIPTED_EXPECT, NULL, 0}, {SCRIPTED_SEND, OK_2, 0}, {SCRIPTED_REPEAT, NULL, 0}, {0}};

/* ---- connections ---- */

static void perform_three_times(struct scene *scene)
{
    for (int i = 0; i < 3; i++)
        (void)perform(scene);
}

static void sequential_requests_share_one_connection(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_ever, .act = perform_three_times};
    scene_run(&scene);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(&scene.outcomes[i], "ok");
        assert_int_equal(scene.outcomes[i].response.connection_reused, i > 0);
    }
    assert_int_equal(scripted_server_connections(scene.server), 1);
    assert_int_equal(scripted_server_requests(scene.server), 3);
    scene_done(&scene);
}

static const struct scripted_step answer_when_released[] = {{SCRIPTED_EXPECT, NULL, 0},
                                                            {SCRIPTED_STALL, NULL, 0},
                                                            {SCRIPTED_SEND, OK_2, 0},
                                                            {SCRIPTED_REPEAT, NULL, 0},
                                                            {0}};

static void count_watch(uv_handle_t *handle, void *arg)
{
    size_t *count = arg;
    *count += uv_handle_get_type(handle) == UV_POLL;
}

static void perform_as_one_of_many(void *arg)
{
    struct scene *scene = arg;
    struct arena *arena = arena_new(16384);
    struct http_response response = {0};
    struct error err = {0};
    if (http_perform(&scene->request, arena, &response, &err) == 0 &&
        response.status == 200 && strcmp(response.body, "ok") == 0)
        scene->good++;
    scene->ended++;
    arena_free(arena);
}

static void perform_at_once(struct scene *scene, size_t count)
{
    struct loop *loop = task_loop(task_self());
    for (size_t i = 0; i < count; i++)
        if (task_start(loop, "one of many", perform_as_one_of_many, scene) != 0)
            return;
    await_count(scene, scripted_server_requests, count);
    scene->numbers[0] = http_pool_shard_count(loop->http);
    scene->numbers[1] = http_pool_fullest_shard(loop->http);
    scripted_server_release(scene->server);
    while (scene->ended < count)
        (void)task_sleep(1);
}

static void perform_64_at_once(struct scene *scene)
{
    perform_at_once(scene, 64);
}

static void sixty_four_requests_are_under_way_at_once(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_when_released, .act = perform_64_at_once};
    scene_run(&scene);
    assert_int_equal(scene.good, 64);
    assert_int_equal(scripted_server_connections(scene.server), 64);
    assert_int_equal(scene.numbers[0], 1);
    scene_done(&scene);
}

static void perform_64_and_count_watches(struct scene *scene)
{
    perform_at_once(scene, 64);
    (void)task_sleep(1); /* a turn of the loop, for close callbacks */
    uv_walk(&task_loop(task_self())->uv, count_watch, &scene->numbers[2]);
}

static void a_closed_connection_leaves_no_watch_on_its_descriptor(void **state)
{
    (void)state;
    static const struct scripted_step answer_and_close[] = {
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_STALL, NULL, 0},
        {SCRIPTED_SEND,
         "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 0},
        {SCRIPTED_CLOSE, NULL, 0},
        {0}};
    struct scene scene = {.script = answer_and_close, .act = perform_64_and_count_watches};
    scene_run(&scene);
    assert_int_equal(scene.good, 64);
    assert_int_equal(scene.numbers[2], 0);
    scene_done(&scene);
}

static void perform_many_at_once(struct scene *scene)
{
    perform_at_once(scene, MANY);
}

static void six_hundred_transfers_are_spread_over_shards(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_when_released, .act = perform_many_at_once};
    scene_run(&scene);
    assert_int_equal(scene.good, MANY);
    assert_int_equal(scene.numbers[0], 3);
    assert_int_equal(scene.numbers[1], HTTP_SHARD_TRANSFERS);
    scene_done(&scene);
}

size_t
__sanitizer_get_current_allocated_bytes(void) /* NOLINT(readability-identifier-naming) */
    __attribute__((weak));

/* Of the whole process; 0 where no sanitizer counts. */
static size_t allocated_bytes(void)
{
    return __sanitizer_get_current_allocated_bytes
               ? __sanitizer_get_current_allocated_bytes()
               : 0;
}

static void perform_a_thousand_times(struct scene *scene)
{
    struct arena *kept = scene->arena;
    for (int i = 0; i < 1000; i++) {
        scene->outcome_count = 0;
        scene->arena = arena_new(16384);
        scene->good += perform(scene)->result == 0;
        arena_free(scene->arena);
        if (i == 99) {
            scene->numbers[0] = (size_t)support_open_descriptors();
            scene->numbers[1] = allocated_bytes();
        }
    }
    scene->arena = kept;
    scene->numbers[2] = (size_t)support_open_descriptors();
    scene->numbers[3] = allocated_bytes();
}

static void a_thousand_requests_leave_no_descriptor_and_no_memory(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_ever, .act = perform_a_thousand_times};
    scene_run(&scene);
    assert_int_equal(scene.good, 1000);
    assert_int_equal(scripted_server_connections(scene.server), 1);
    assert_int_equal(scene.numbers[0], scene.numbers[2]);
    assert_true(scene.numbers[3] < scene.numbers[1] + 8192);
    scene_done(&scene);
}

static void count_active_watch(uv_handle_t *handle, void *arg)
{
    size_t *count = arg;
    *count += uv_handle_get_type(handle) == UV_POLL && uv_is_active(handle);
}

static void perform_after_the_server_hung_up(struct scene *scene)
{
    (void)perform(scene);
    await_count(scene, scripted_server_ends, 1);
    /* One that stays on would find the closed connection readable in every turn. */
    uv_walk(&task_loop(task_self())->uv, count_active_watch, &scene->numbers[0]);
    (void)perform(scene);
}

static void a_kept_connection_that_was_closed_meanwhile_is_not_used(void **state)
{
    (void)state;
    static const struct scripted_step answer_once[] = {{SCRIPTED_EXPECT, NULL, 0},
                                                       {SCRIPTED_SEND, OK_2, 0},
                                                       {SCRIPTED_CLOSE, NULL, 0},
                                                       {0}};
    struct scene scene = {.script = answer_once,
                          .act = perform_after_the_server_hung_up,
                          .request = {.method = "POST", .body = "x", .body_bytes = 1}};
    scene_run(&scene);
    assert_ok(&scene.outcomes[0], "ok");
    assert_ok(&scene.outcomes[1], "ok");
    assert_int_equal(scripted_server_requests(scene.server), 2);
    assert_int_equal(scene.numbers[0], 0);
    scene_done(&scene);
}

/* ---- never twice ---- */

static void perform_twice(struct scene *scene)
{
    (void)perform(scene);
    (void)perform(scene);
}

static const struct scripted_step close_at_second[] = {{SCRIPTED_EXPECT, NULL, 0},
                                                       {SCRIPTED_SEND, OK_2, 0},
                                                       {SCRIPTED_EXPECT, NULL, 0},
                                                       {SCRIPTED_CLOSE, NULL, 0},
                                                       {0}};
static const struct scripted_step reset_at_second[] = {{SCRIPTED_EXPECT, NULL, 0},
                                                       {SCRIPTED_SEND, OK_2, 0},
                                                       {SCRIPTED_EXPECT, NULL, 0},
                                                       {SCRIPTED_RESET, NULL, 0},
                                                       {0}};

static void a_request_is_not_sent_again_when_a_kept_connection_breaks(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        const char *body;
        const struct scripted_step *first;
    } cases[] = {
        {"POST", "run", close_at_second},  {"POST", NULL, close_at_second},
        {"PUT", "run", close_at_second},   {"PATCH", "run", close_at_second},
        {"DELETE", NULL, close_at_second}, {"GET", NULL, close_at_second},
        {"POST", "run", reset_at_second},  {"POST", NULL, reset_at_second},
        {"DELETE", NULL, reset_at_second}, {"GET", NULL, reset_at_second},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct scripted_step *const scripts[] = {cases[i].first, answer_ever, NULL};
        struct scene scene = {.scripts = scripts,
                              .act = perform_twice,
                              .request = {.method = cases[i].method,
                                          .body = cases[i].body,
                                          .body_bytes = cases[i].body ? 3 : 0}};
        scene_run(&scene);
        assert_ok(&scene.outcomes[0], "ok");
        assert_code(&scene.outcomes[1], ERROR_OUTCOME_UNKNOWN);
        assert_false(scene.outcomes[1].err.retryable);
        assert_int_equal(scripted_server_requests(scene.server), 2);
        scene_done(&scene);
    }
}

/* ---- how it breaks ---- */

/* A port of this machine that nobody listens on, for as long as the socket is open. */
static int closed_port(int *ret_socket)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    *ret_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(*ret_socket, (const struct sockaddr *)&address, bytes) != 0 ||
        getsockname(*ret_socket, (struct sockaddr *)&address, &bytes) != 0)
        return -1;
    return ntohs(address.sin_port);
}

static void perform_on_closed_port(struct scene *scene)
{
    int fd = -1;
    (void)snprintf(scene->url, sizeof(scene->url), "http://127.0.0.1:%d/secret-path?key=1",
                   closed_port(&fd));
    (void)perform(scene);
    (void)close(fd);
}

static void a_refused_connection_cannot_have_run(void **state)
{
    (void)state;
    const char *const headers[] = {"Authorization: secret-token", NULL};
    struct scene scene = {.script = answer_ever,
                          .act = perform_on_closed_port,
                          .request = {.method = "POST", .headers = headers}};
    scene_run(&scene);
    assert_code(&scene.outcomes[0], ERROR_PROVIDER_UNAVAILABLE);
    assert_true(scene.outcomes[0].err.retryable);
    assert_non_null(strstr(scene.outcomes[0].err.message, "127.0.0.1:"));
    assert_non_null(strstr(scene.outcomes[0].err.message, "refused"));
    assert_null(strstr(scene.outcomes[0].err.message, "secret"));
    assert_null(strstr(scene.outcomes[0].err.message, "key"));
    scene_done(&scene);
}

static void perform_with_no_such_name(struct scene *scene)
{
    scene->request.url = "http://nowhere.test/secret-path";
    (void)perform(scene);
}

static void a_name_that_does_not_exist_cannot_have_run(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_ever, .act = perform_with_no_such_name};
    scene_run(&scene);
    assert_code(&scene.outcomes[0], ERROR_PROVIDER_UNAVAILABLE);
    assert_non_null(strstr(scene.outcomes[0].err.message, "nowhere.test"));
    assert_null(strstr(scene.outcomes[0].err.message, "secret"));
    scene_done(&scene);
}

static void a_reset_before_the_request_is_read_may_have_run_if_bytes_left(void **state)
{
    (void)state;
    static const struct scripted_step reset_at_once[] = {{SCRIPTED_RESET, NULL, 0}, {0}};
    struct scene scene = {.script = reset_at_once, .request = {.method = "POST"}};
    scene_run(&scene);
    /* Whether the reset or the request is first is the kernel's choice. */
    if (scene.outcomes[0].err.code != ERROR_PROVIDER_UNAVAILABLE)
        assert_code(&scene.outcomes[0], ERROR_OUTCOME_UNKNOWN);
    assert_int_equal(scripted_server_requests(scene.server), 0);
    scene_done(&scene);
}

static void an_answer_that_is_not_whole_may_have_run(void **state)
{
    (void)state;
    static const struct scripted_step scripts[][4] = {
        {{SCRIPTED_EXPECT, NULL, 0}, {SCRIPTED_RESET, NULL, 0}},
        {{SCRIPTED_EXPECT, NULL, 0}, {SCRIPTED_CLOSE, NULL, 0}},
        {{SCRIPTED_EXPECT, NULL, 0},
         {SCRIPTED_SEND, "HTTP/1.1 200", 0},
         {SCRIPTED_CLOSE, NULL, 0}},
        {{SCRIPTED_EXPECT, NULL, 0}, {SCRIPTED_SEND, BEGIN, 0}, {SCRIPTED_CLOSE, NULL, 0}},
        {{SCRIPTED_EXPECT, NULL, 0}, {SCRIPTED_SEND, BEGIN, 0}, {SCRIPTED_RESET, NULL, 0}},
        {{SCRIPTED_EXPECT, NULL, 0},
         {SCRIPTED_SEND, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 0},
         {SCRIPTED_CLOSE, NULL, 0}},
        {{SCRIPTED_EXPECT, NULL, 0},
         {SCRIPTED_SEND, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0},
         {SCRIPTED_CLOSE, NULL, 0}},
        {{SCRIPTED_EXPECT, NULL, 0},
         {SCRIPTED_SEND, "SSH-2.0-x\r\n", 0},
         {SCRIPTED_CLOSE, NULL, 0}},
    };
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        struct scene scene = {
            .script = scripts[i], .request = {.method = "POST"}, .path = "/secret-path"};
        scene_run(&scene);
        assert_code(&scene.outcomes[0], ERROR_OUTCOME_UNKNOWN);
        assert_null(strstr(scene.outcomes[0].err.message, "secret"));
        assert_int_equal(scripted_server_requests(scene.server), 1);
        scene_done(&scene);
    }
}

/* ---- bodies ---- */

static int take_data(void *arg, const void *data, size_t bytes)
{
    struct scene *scene = arg;
    if (task_self() || scene->received_bytes + bytes >= RECEIVED_BYTES)
        return -1; /* it is promised to be called on the loop's stack */
    memcpy(scene->received + scene->received_bytes, data, bytes);
    scene->received_bytes += bytes;
    return scene->refuse_after && scene->received_bytes >= scene->refuse_after;
}

static void perform_with_on_data(struct scene *scene)
{
    scene->request.on_data = take_data;
    scene->request.on_data_arg = scene;
    (void)perform(scene);
}

static void on_data_gets_the_body(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_ever, .act = perform_with_on_data};
    scene_run(&scene);
    assert_ok(&scene.outcomes[0], "");
    assert_string_equal(scene.received, "ok");
    scene_done(&scene);
}

static void the_body_of_a_refusal_is_collected_even_with_on_data(void **state)
{
    (void)state;
    static const struct scripted_step refuse[] = {
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND, "HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy", 0},
        {0}};
    struct scene scene = {.script = refuse, .act = perform_with_on_data};
    scene_run(&scene);
    assert_int_equal(scene.outcomes[0].result, 0);
    assert_int_equal(scene.outcomes[0].response.status, 409);
    assert_string_equal(scene.outcomes[0].response.body, "busy");
    assert_int_equal(scene.received_bytes, 0);
    scene_done(&scene);
}

static void perform_and_await_hangup(struct scene *scene)
{
    perform_with_on_data(scene);
    await_count(scene, scripted_server_hangups, 1);
}

static void on_data_can_end_the_transfer(void **state)
{
    (void)state;
    static const struct scripted_step begin_and_stall[] = {{SCRIPTED_EXPECT, NULL, 0},
                                                           {SCRIPTED_SEND, BEGIN, 0},
                                                           {SCRIPTED_STALL, NULL, 0},
                                                           {0}};
    struct scene scene = {
        .script = begin_and_stall, .act = perform_and_await_hangup, .refuse_after = 1};
    scene_run(&scene);
    assert_code(&scene.outcomes[0], ERROR_CANCELLED);
    assert_string_equal(scene.received, "half");
    assert_int_equal(scripted_server_hangups(scene.server), 1);
    scene_done(&scene);
}

static void perform_at_the_limit(struct scene *scene)
{
    static const size_t limits[] = {100000, 99999};
    for (size_t i = 0; i < 2; i++) {
        scene->request.max_response_bytes = limits[i];
        (void)perform(scene);
    }
    scene->refuse_after = 0;
    scene->request.max_response_bytes = 1;
    perform_with_on_data(scene);
}

static void an_answer_over_the_limit_is_an_error_and_not_cut(void **state)
{
    (void)state;
    /* No Content-Length, so that only counting can tell. */
    static const struct scripted_step large[] = {
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", 0},
        {SCRIPTED_FILL, NULL, 100000},
        {SCRIPTED_CLOSE, NULL, 0},
        {0}};
    struct scene scene = {.script = large, .act = perform_at_the_limit};
    scene_run(&scene);
    assert_int_equal(scene.outcomes[0].result, 0);
    assert_int_equal(scene.outcomes[0].response.body_bytes, 100000);
    assert_code(&scene.outcomes[1], ERROR_OUTCOME_UNKNOWN);
    assert_non_null(strstr(scene.outcomes[1].err.message, "larger than allowed"));
    assert_code(&scene.outcomes[2], ERROR_OUTCOME_UNKNOWN);
    assert_int_equal(scene.received_bytes, 0);
    scene_done(&scene);
}

static void perform_with_small_arena(struct scene *scene)
{
    struct arena *large = scene->arena;
    scene->arena = arena_new(64);
    (void)perform(scene);
    arena_free(scene->arena);
    scene->arena = large;
}

static void an_answer_without_room_in_the_arena_has_run(void **state)
{
    (void)state;
    static const struct scripted_step large[] = {
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", 0},
        {SCRIPTED_FILL, NULL, 100},
        {0}};
    struct scene scene = {.script = large, .act = perform_with_small_arena};
    scene_run(&scene);
    assert_code(&scene.outcomes[0], ERROR_OUTCOME_UNKNOWN);
    scene_done(&scene);
}

static char *make_socket_path(char *folder, size_t bytes)
{
    static char path[64];
    (void)snprintf(folder, bytes, "/tmp/test_http.XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/socket", folder);
    return path;
}

static void an_answer_is_the_same_when_split_at_every_byte(void **state)
{
    (void)state;
    static const struct scripted_step singly[] = {
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND_SINGLY,
         "HTTP/1.1 100 Continue\r\n\r\n"
         "HTTP/1.1 200 OK\r\nX-One: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
         "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
         0},
        {SCRIPTED_END, NULL, 0}};
    char folder[64];
    char *path = make_socket_path(folder, sizeof(folder));
    struct scene scene = {.script = singly,
                          .options = {.unix_path = path},
                          .request = {.unix_socket_path = path}};
    scene_run(&scene);
    assert_ok(&scene.outcomes[0], "abc0123456789abcdef");
    assert_string_equal(http_response_header(&scene.outcomes[0].response, "x-one"), "1");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    scene_done(&scene);
}

static void a_unix_socket_serves_in_place_of_the_host(void **state)
{
    (void)state;
    char folder[64];
    char *path = make_socket_path(folder, sizeof(folder));
    struct scene scene = {.script = answer_ever,
                          .act = perform_three_times,
                          .options = {.unix_path = path},
                          .request = {.unix_socket_path = path}};
    scene_run(&scene);
    assert_ok(&scene.outcomes[2], "ok");
    assert_true(scene.outcomes[2].response.connection_reused);
    assert_int_equal(scripted_server_connections(scene.server), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    scene_done(&scene);
}

static void chunks_are_joined_and_trailers_are_no_headers(void **state)
{
    (void)state;
    static const struct scripted_step chunked[] = {
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND,
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-UPPER:  two words \r\n\r\n"
         "2\r\nab\r\n1\r\nc\r\n0\r\nX-Trailer: 1\r\n\r\n",
         0},
        {0}};
    struct scene scene = {.script = chunked};
    scene_run(&scene);
    const struct http_response *response = &scene.outcomes[0].response;
    assert_ok(&scene.outcomes[0], "abc");
    assert_string_equal(http_response_header(response, "x-upper"), "two words");
    assert_null(http_response_header(response, "x-trailer"));
    assert_int_equal(response->header_count, 2);
    scene_done(&scene);
}

static void perform_head_and_delete(struct scene *scene)
{
    scene->request.method = "HEAD";
    (void)perform(scene);
    scene->request.method = "DELETE";
    (void)perform(scene);
}

static void head_and_204_have_no_body(void **state)
{
    (void)state;
    static const struct scripted_step no_bodies[] = {
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", 0},
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND, "HTTP/1.1 204 No Content\r\n\r\n", 0},
        {0}};
    struct scene scene = {.script = no_bodies, .act = perform_head_and_delete};
    scene_run(&scene);
    assert_ok(&scene.outcomes[0], "");
    assert_int_equal(scene.outcomes[1].result, 0);
    assert_int_equal(scene.outcomes[1].response.status, 204);
    assert_int_equal(scene.outcomes[1].response.body_bytes, 0);
    assert_int_equal(scripted_server_connections(scene.server), 1);
    scene_done(&scene);
}

/* ---- what is sent ---- */

static void perform_each_method(struct scene *scene)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    for (size_t i = 0; i < 5; i++) {
        scene->request.method = methods[i];
        (void)perform(scene);
    }
    scene->request.method = "DELETE";
    scene->request.body = "a\0b";
    scene->request.body_bytes = 3;
    (void)perform(scene);
}

static void a_request_says_what_it_was_told_and_nothing_of_libcurls(void **state)
{
    (void)state;
    const char *const headers[] = {"X-Value: a b", "X-Empty:", NULL};
    struct scene scene = {.script = answer_ever,
                          .act = perform_each_method,
                          .request = {.headers = headers},
                          .path = "/path?query=1"};
    scene_run(&scene);
    char wanted[512];
    static const char *const first[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "DELETE"};
    static const char *const last[] = {
        "", "Content-Length: 0\r\n", "Content-Length: 0\r\n", "Content-Length: 0\r\n",
        "", "Content-Length: 3\r\n"};
    for (size_t i = 0; i < 6; i++) {
        assert_ok(&scene.outcomes[i], "ok");
        (void)snprintf(wanted, sizeof(wanted),
                       "%s /path?query=1 HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\n"
                       "X-Value: a b\r\nX-Empty:\r\n%s\r\n%s",
                       first[i], scene.url + strlen("http://"), last[i], i == 5 ? "a" : "");
        char *path = strstr(strstr(wanted, "Host: "), "/path");
        memmove(path, path + strlen("/path?query=1"),
                strlen(path + strlen("/path?query=1")) + 1);
        assert_string_equal(scripted_server_request(scene.server, i), wanted);
    }
    scene_done(&scene);
}

static char large_body[2 * 1024 * 1024];

static void a_large_body_is_sent_without_asking_first(void **state)
{
    (void)state;
    memset(large_body, 'b', sizeof(large_body));
    struct scene scene = {
        .script = answer_ever,
        .request = {.method = "PUT", .body = large_body, .body_bytes = sizeof(large_body)}};
    scene_run(&scene);
    assert_ok(&scene.outcomes[0], "ok");
    assert_true(scripted_server_bytes(scene.server) > sizeof(large_body));
    assert_null(strcasestr(scripted_server_request(scene.server, 0), "expect:"));
    scene_done(&scene);
}

static void perform_unusable_requests(struct scene *scene)
{
    static const char *const headers[] = {"X: a\r\nInjected: 1",
                                          "X: a\nInjected: 1",
                                          "X\r\n: a",
                                          "no colon",
                                          ": no name",
                                          "two words: x",
                                          "X: \x01",
                                          "",
                                          "Content-Length: 5",
                                          "transfer-encoding: chunked"};
    static const char *const urls[] = {"http://127.0.0.1/\r\nX: 1",
                                       "http://127.0.0.1/a b",
                                       "http://127.0.0.1/\x01",
                                       "file:///etc/passwd",
                                       "ftp://127.0.0.1/",
                                       "127.0.0.1/",
                                       "http://user:secret@host/",
                                       "http://",
                                       NULL};
    struct outcome *outcome = NULL;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        const char *const list[] = {headers[i], NULL};
        struct http_request request = scene->request;
        request.headers = list;
        outcome = perform_request(scene, &request);
        scene->good += outcome->err.code == ERROR_INVALID_ARGUMENT && outcome->untouched;
    }
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct http_request request = scene->request;
        request.url = urls[i];
        outcome = perform_request(scene, &request);
        scene->good += outcome->err.code == ERROR_INVALID_ARGUMENT && outcome->untouched &&
                       !strstr(outcome->err.message, "secret");
    }
    struct http_request request = scene->request;
    request.method = "GET / HTTP/1.1\r\nX: 1\r\n\r\nGET";
    outcome = perform_request(scene, &request);
    scene->good += outcome->err.code == ERROR_INVALID_ARGUMENT && outcome->untouched;
}

static void a_request_that_could_smuggle_is_refused_before_anything_is_sent(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_ever, .act = perform_unusable_requests};
    scene_run(&scene);
    assert_int_equal(scene.outcome_count, 20);
    assert_int_equal(scene.good, 20);
    assert_int_equal(scripted_server_connections(scene.server), 0);
    scene_done(&scene);
}

static void redirects_and_the_environments_proxies_are_not_followed(void **state)
{
    (void)state;
    static const struct scripted_step redirect[] = {
        {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND,
         "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", 0},
        {SCRIPTED_REPEAT, NULL, 0},
        {0}};
    struct scene scene = {.script = redirect};
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("ALL_PROXY", "http://127.0.0.1:1", 1), 0);
    scene_run(&scene);
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_int_equal(unsetenv("ALL_PROXY"), 0);
    assert_int_equal(scene.outcomes[0].result, 0);
    assert_int_equal(scene.outcomes[0].response.status, 302);
    assert_int_equal(scripted_server_requests(scene.server), 1);
    scene_done(&scene);
}

static void cleartext_http2_is_spoken_only_when_asked_for(void **state)
{
    (void)state;
    static const struct scripted_step hear[] = {
        {SCRIPTED_EXPECT, NULL, 0}, {SCRIPTED_CLOSE, NULL, 0}, {0}};
    struct scene scene = {.script = hear, .request = {.cleartext_http2 = true}};
    scene_run(&scene);
    assert_code(&scene.outcomes[0], ERROR_OUTCOME_UNKNOWN);
    assert_string_equal(scripted_server_request(scene.server, 0), "PRI * HTTP/2.0\r\n\r\n");
    scene_done(&scene);
}

/* ---- headers of the answer ---- */

static void perform_for_each_retry_after(struct scene *scene)
{
    for (size_t i = 0; i < 10; i++)
        (void)perform(scene);
}

static void retry_after_is_read_as_seconds_or_as_a_date(void **state)
{
    (void)state;
    char in_an_hour[64];
    time_t now = time(NULL);
    time_t later = now + 3600;
    struct tm parts;
    assert_non_null(gmtime_r(&later, &parts));
    (void)strftime(in_an_hour, sizeof(in_an_hour), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    const struct {
        const char *value;
        int64_t wanted_ms;
    } cases[10] = {{"7", 7000},
                   {" 120 ", 120000},
                   {"0", 1},
                   {"Sun, 06 Nov 1994 08:49:37 GMT", 1},
                   {"Sunday, 06-Nov-94 08:49:37 GMT", 1},
                   {"soon", -1},
                   {"-5", -1},
                   {"1.5", -1},
                   {"99999999999999999999", 366LL * 24 * 3600 * 1000},
                   {in_an_hour, 3600000}};
    char answers[10][160];
    struct scripted_step script[21] = {0};
    for (size_t i = 0; i < 10; i++) {
        (void)snprintf(answers[i], sizeof(answers[i]),
                       "HTTP/1.1 429 Slow\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n",
                       cases[i].value);
        script[2 * i] = (struct scripted_step){SCRIPTED_EXPECT, NULL, 0};
        script[2 * i + 1] = (struct scripted_step){SCRIPTED_SEND, answers[i], 0};
    }
    struct scene scene = {.script = script, .act = perform_for_each_retry_after};
    scene_run(&scene);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(scene.outcomes[i].result, 0);
        int64_t lower = cases[i].wanted_ms - (i == 9 ? 60000 : 0);
        assert_in_range(scene.outcomes[i].response.retry_after_ms + 1, lower + 1,
                        cases[i].wanted_ms + 1);
    }
    scene_done(&scene);
}

static char many_headers[32768];
static char long_headers[128 * 1024];
static char many_interims[128 * 1024];

static void repeat_text(char *text, size_t bytes, const char *piece, size_t count)
{
    size_t used = strlen(text);
    for (size_t i = 0; i < count && used + strlen(piece) < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s", piece);
}

static void the_answers_headers_are_bounded(void **state)
{
    (void)state;
    static char piece[1024] = "X: ";
    repeat_text(piece, sizeof(piece) - 2, "v", 1000);
    repeat_text(piece, sizeof(piece), "\r\n", 1);
    repeat_text(many_headers, sizeof(many_headers), "HTTP/1.1 200 OK\r\n", 1);
    repeat_text(many_headers, sizeof(many_headers), "X: 1\r\n", 300);
    repeat_text(long_headers, sizeof(long_headers), "HTTP/1.1 200 OK\r\n", 1);
    repeat_text(long_headers, sizeof(long_headers), piece, 80);
    repeat_text(many_interims, sizeof(many_interims), "HTTP/1.1 103 Early\r\n\r\n", 4000);
    static char *const texts[] = {many_headers, long_headers, many_interims};
    for (size_t i = 0; i < 3; i++) {
        const struct scripted_step script[] = {{SCRIPTED_EXPECT, NULL, 0},
                                               {SCRIPTED_SEND, texts[i], 0},
                                               {SCRIPTED_STALL, NULL, 0},
                                               {0}};
        struct scene scene = {.script = script, .request = {.timeout_ms = 20000}};
        scene_run(&scene);
        assert_code(&scene.outcomes[0], ERROR_OUTCOME_UNKNOWN);
        assert_non_null(strstr(scene.outcomes[0].err.message, "headers are larger"));
        scene_done(&scene);
    }
}

static void broken_headers_do_not_shift_the_others(void **state)
{
    (void)state;
    static const char text[] = "HTTP/1.1 200 OK\r\nA: 1\r\n folded: x\r\n"
                               ": nameless\r\nContent-Length: 2\r\nB:\r\n\r\nok";
    static const struct scripted_step script[] = {
        {SCRIPTED_EXPECT, NULL, 0}, {SCRIPTED_SEND, text, 0}, {0}};
    struct scene scene = {.script = script};
    scene_run(&scene);
    const struct http_response *response = &scene.outcomes[0].response;
    assert_ok(&scene.outcomes[0], "ok");
    assert_string_equal(http_response_header(response, "content-length"), "2");
    assert_string_equal(http_response_header(response, "b"), "");
    assert_null(http_response_header(response, "folded"));
    scene_done(&scene);
}

/* ---- time and cancel ---- */

static const struct scripted_step begin_and_stall[] = {
    {SCRIPTED_EXPECT, NULL, 0}, {SCRIPTED_SEND, BEGIN, 0}, {SCRIPTED_STALL, NULL, 0}, {0}};

static void perform_until_late(struct scene *scene)
{
    scene->request.timeout_ms = 100;
    (void)perform(scene);
    await_count(scene, scripted_server_hangups, 1);
    struct deadline deadline;
    deadline_enter(&deadline, 100);
    scene->request.timeout_ms = 60000;
    (void)perform(scene);
    (void)perform(scene); /* late already: nothing is begun */
    deadline_leave(&deadline);
    await_count(scene, scripted_server_hangups, 2);
}

static void a_deadline_after_the_request_was_sent_leaves_the_outcome_unknown(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_when_released, .act = perform_until_late};
    scene_run(&scene);
    assert_code(&scene.outcomes[0], ERROR_OUTCOME_UNKNOWN);
    assert_code(&scene.outcomes[1], ERROR_OUTCOME_UNKNOWN);
    assert_code(&scene.outcomes[2], ERROR_TIMEOUT);
    assert_int_equal(scripted_server_requests(scene.server), 2);
    assert_int_equal(scripted_server_hangups(scene.server), 2);
    scene_done(&scene);
}

/* A listener whose queue is full answers no connection at all. */
static void perform_where_nobody_accepts(struct scene *scene)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fillers[4];
    if (bind(listener, (const struct sockaddr *)&address, bytes) != 0 ||
        listen(listener, 0) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &bytes) != 0)
        return;
    for (size_t i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (const struct sockaddr *)&address, bytes);
    }
    (void)snprintf(scene->url, sizeof(scene->url), "http://127.0.0.1:%d/",
                   ntohs(address.sin_port));
    scene->request.timeout_ms = 100;
    (void)perform(scene);
    scene->request.timeout_ms = 60000;
    scene->request.connect_timeout_ms = 100;
    (void)perform(scene);
    for (size_t i = 0; i < 4; i++)
        (void)close(fillers[i]);
    (void)close(listener);
}

static void time_up_before_a_connection_cannot_have_run(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_ever, .act = perform_where_nobody_accepts};
    scene_run(&scene);
    assert_code(&scene.outcomes[0], ERROR_TIMEOUT);
    assert_code(&scene.outcomes[1], ERROR_PROVIDER_UNAVAILABLE);
    assert_true(scene.outcomes[1].err.retryable);
    scene_done(&scene);
}

static void cancel_when_data_came(void *arg)
{
    struct scene *scene = arg;
    while (scene->received_bytes == 0)
        (void)task_sleep(1);
    task_cancel(scene->task);
}

static void perform_until_cancelled(struct scene *scene)
{
    (void)task_start(task_loop(task_self()), "canceller", cancel_when_data_came, scene);
    perform_with_on_data(scene);
    perform_with_on_data(scene); /* cancelled already: nothing is begun */
    struct deadline shield;
    deadline_enter_shielded(&shield, 20000);
    await_count(scene, scripted_server_hangups, 1);
    deadline_leave(&shield);
}

static void a_cancel_in_mid_body_breaks_the_transfer_off(void **state)
{
    (void)state;
    struct scene scene = {.script = begin_and_stall, .act = perform_until_cancelled};
    scene_run(&scene);
    assert_code(&scene.outcomes[0], ERROR_CANCELLED);
    assert_code(&scene.outcomes[1], ERROR_CANCELLED);
    assert_string_equal(scene.received, "half");
    assert_int_equal(scripted_server_requests(scene.server), 1);
    assert_int_equal(scripted_server_hangups(scene.server), 1);
    scene_done(&scene);
}

static uint64_t monotonic_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void perform_with_a_slow_lookup(struct scene *scene)
{
    int before = support_open_descriptors();
    (void)perform(scene); /* so that the pool is there */
    int with_pool = support_open_descriptors();
    scene->request.url = "http://slow.test/";
    scene->request.timeout_ms = 50;
    uint64_t begun_at = monotonic_ms();
    (void)perform(scene);
    scene->numbers[0] = (size_t)(monotonic_ms() - begun_at);
    (void)sem_post(&lookup_may_end);
    /* The lookup's thread closes its end of the pair itself. */
    for (int i = 0; i < 10000 && support_open_descriptors() > with_pool; i++)
        (void)task_sleep(1);
    scene->numbers[1] = (size_t)(with_pool - before);
    scene->numbers[2] = (size_t)(support_open_descriptors() - before);
}

static void cu_13_a_name_lookup_that_hangs_holds_nothing_up(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_ever, .act = perform_with_a_slow_lookup};
    scene_run(&scene);
    assert_ok(&scene.outcomes[0], "ok");
    assert_code(&scene.outcomes[1], ERROR_TIMEOUT);
    assert_true(scene.numbers[0] < 10000);
    assert_int_equal(scene.numbers[1], scene.numbers[2]);
    assert_int_equal(sem_trywait(&lookup_begun), 0);
    scene_done(&scene);
}

/* ---- descriptors and signals ---- */

static void perform_and_list_a_childs_descriptors(struct scene *scene)
{
    perform_twice(scene);
    FILE *child =
        popen("ls -l /proc/self/fd | sed -n 's/.* \\([0-9]* -> .*\\)/\\1/p'", "re");
    if (!child)
        return;
    while (fgets(scene->received + scene->received_bytes,
                 (int)(RECEIVED_BYTES - scene->received_bytes), child))
        scene->received_bytes = strlen(scene->received);
    (void)pclose(child);
}

static void cu_08_a_child_inherits_no_descriptor_of_libcurl(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_ever,
                          .act = perform_and_list_a_childs_descriptors};
    scene_run(&scene);
    assert_ok(&scene.outcomes[1], "ok");
    assert_non_null(strstr(scene.received, "1 -> "));
    for (char *line = strtok(scene.received, "\n"); line; line = strtok(NULL, "\n")) {
        if (strtol(line, NULL, 10) > 2)
            assert_non_null(strstr(line, "/proc/")); /* ls reads the folder by this one */
    }
    scene_done(&scene);
}

/* The end of the connection that is in this program's hands as a client. */
static int find_client_socket(int port)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t bytes = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 &&
            peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
            return fd;
    }
    return -1;
}

static void perform_and_read_options(struct scene *scene)
{
    (void)perform(scene);
    int fd = find_client_socket(scripted_server_port(scene->server));
    int value = 0;
    socklen_t bytes = sizeof(value);
    if (getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &bytes) == 0)
        scene->numbers[0] = (size_t)value;
    if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &bytes) == 0)
        scene->numbers[1] = (size_t)value;
    scene->numbers[2] = fcntl(fd, F_GETFD) == FD_CLOEXEC;
}

static void cu_09_a_connection_that_the_network_swallowed_is_given_up(void **state)
{
    (void)state;
    struct scene scene = {.script = answer_ever, .act = perform_and_read_options};
    scene_run(&scene);
    assert_ok(&scene.outcomes[0], "ok");
    assert_in_range(scene.numbers[0], 1, 60000);
    assert_int_equal(scene.numbers[1], 1);
    assert_int_equal(scene.numbers[2], 1);
    scene_done(&scene);
}

static void on_broken_pipe(int signal)
{
    (void)signal;
}

static void (*handler_of(int signal))(int)
{
    struct sigaction action = {0};
    (void)sigaction(signal, NULL, &action);
    return action.sa_handler;
}

/* Inside of libcurl, where it would have put a handler of its own in place. */
static int look_at_handlers(void *arg, const void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
    struct scene *scene = arg;
    scene->numbers[0] += handler_of(SIGPIPE) == on_broken_pipe;
    scene->numbers[1] += handler_of(SIGALRM) == SIG_DFL;
    return 0;
}

static void perform_while_watching_signals(struct scene *scene)
{
    struct itimerval timer = {0};
    scene->request.on_data = look_at_handlers;
    scene->request.on_data_arg = scene;
    for (int i = 0; i < 1000; i++) {
        scene->outcome_count = 0;
        scene->good += perform(scene)->result == 0;
    }
    scene->request.url = "http://nowhere.test/"; /* a lookup and its time limit */
    scene->request.connect_timeout_ms = 5000;
    (void)perform(scene);
    scene->numbers[2] = handler_of(SIGALRM) == SIG_DFL &&
                        getitimer(ITIMER_REAL, &timer) == 0 && timer.it_value.tv_sec == 0;
}

static void cu_11_cu_12_libcurl_leaves_the_signals_alone(void **state)
{
    (void)state;
    static const struct scripted_step answer_twice[] = {
        {SCRIPTED_EXPECT, NULL, 0}, {SCRIPTED_SEND, OK_2, 0},  {SCRIPTED_EXPECT, NULL, 0},
        {SCRIPTED_SEND, OK_2, 0},   {SCRIPTED_CLOSE, NULL, 0}, {0}};
    struct scene scene = {.script = answer_twice, .act = perform_while_watching_signals};
    (void)signal(SIGPIPE, on_broken_pipe);
    scene_run(&scene);
    assert_true(handler_of(SIGPIPE) == on_broken_pipe);
    (void)signal(SIGPIPE, SIG_IGN);
    assert_true(scene.good > 0);
    assert_int_equal(scene.numbers[0], scene.good);
    assert_int_equal(scene.numbers[1], scene.good);
    assert_int_equal(scene.numbers[2], 1);
    scene_done(&scene);
}

/* ---- TLS ---- */

struct certificate {
    char folder[64];
    char cert[96];
    char key[96];
};

static void certificate_make(struct certificate *certificate)
{
    char command[512];
    (void)snprintf(certificate->folder, sizeof(certificate->folder),
                   "/tmp/test_http.XXXXXX");
    assert_non_null(mkdtemp(certificate->folder));
    (void)snprintf(certificate->cert, sizeof(certificate->cert), "%s/cert.pem",
                   certificate->folder);
    (void)snprintf(certificate->key, sizeof(certificate->key), "%s/key.pem",
                   certificate->folder);
    (void)snprintf(command, sizeof(command),
                   "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
                   "-nodes -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1 "
                   "-keyout %s -out %s 2>/dev/null",
                   certificate->key, certificate->cert);
    assert_int_equal(system(command), 0);
}

static void certificate_remove(const struct certificate *certificate)
{
    assert_int_equal(unlink(certificate->cert), 0);
    assert_int_equal(unlink(certificate->key), 0);
    assert_int_equal(rmdir(certificate->folder), 0);
}

static void perform_with_and_without_ca_file(struct scene *scene)
{
    perform_twice(scene);
    scene->request.ca_file = NULL;
    (void)perform(scene);
    scene->request.ca_file = "/nonexistent/ca.pem";
    (void)perform(scene);
}

static void a_self_signed_certificate_counts_only_with_its_ca_file(void **state)
{
    (void)state;
    struct certificate certificate;
    certificate_make(&certificate);
    const char *const headers[] = {"Authorization: secret-token", NULL};
    struct scene scene = {
        .script = answer_ever,
        .act = perform_with_and_without_ca_file,
        .options = {.cert_file = certificate.cert, .key_file = certificate.key},
        .url_scheme = "https",
        .path = "/secret-path?secret-query",
        .request = {.method = "POST", .headers = headers, .ca_file = certificate.cert}};
    scene_run(&scene);
    certificate_remove(&certificate);
    assert_ok(&scene.outcomes[0], "ok");
    assert_ok(&scene.outcomes[1], "ok");
    assert_true(scene.outcomes[1].response.connection_reused);
    for (size_t i = 2; i < 4; i++) {
        assert_code(&scene.outcomes[i], ERROR_PROVIDER_UNAVAILABLE);
        assert_true(scene.outcomes[i].err.retryable);
        assert_non_null(strstr(scene.outcomes[i].err.message, "TLS"));
        assert_non_null(strstr(scene.outcomes[i].err.message, "127.0.0.1:"));
        assert_null(strstr(scene.outcomes[i].err.message, "secret"));
    }
    assert_int_equal(scripted_server_requests(scene.server), 2);
    scene_done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequential_requests_share_one_connection),
        cmocka_unit_test(sixty_four_requests_are_under_way_at_once),
        cmocka_unit_test(a_closed_connection_leaves_no_watch_on_its_descriptor),
        cmocka_unit_test(six_hundred_transfers_are_spread_over_shards),
        cmocka_unit_test(a_thousand_requests_leave_no_descriptor_and_no_memory),
        cmocka_unit_test(a_kept_connection_that_was_closed_meanwhile_is_not_used),
        cmocka_unit_test(a_request_is_not_sent_again_when_a_kept_connection_breaks),
        cmocka_unit_test(a_refused_connection_cannot_have_run),
        cmocka_unit_test(a_name_that_does_not_exist_cannot_have_run),
        cmocka_unit_test(a_reset_before_the_request_is_read_may_have_run_if_bytes_left),
        cmocka_unit_test(an_answer_that_is_not_whole_may_have_run),
        cmocka_unit_test(on_data_gets_the_body),
        cmocka_unit_test(the_body_of_a_refusal_is_collected_even_with_on_data),
        cmocka_unit_test(on_data_can_end_the_transfer),
        cmocka_unit_test(an_answer_over_the_limit_is_an_error_and_not_cut),
        cmocka_unit_test(an_answer_without_room_in_the_arena_has_run),
        cmocka_unit_test(an_answer_is_the_same_when_split_at_every_byte),
        cmocka_unit_test(a_unix_socket_serves_in_place_of_the_host),
        cmocka_unit_test(chunks_are_joined_and_trailers_are_no_headers),
        cmocka_unit_test(head_and_204_have_no_body),
        cmocka_unit_test(a_request_says_what_it_was_told_and_nothing_of_libcurls),
        cmocka_unit_test(a_large_body_is_sent_without_asking_first),
        cmocka_unit_test(a_request_that_could_smuggle_is_refused_before_anything_is_sent),
        cmocka_unit_test(redirects_and_the_environments_proxies_are_not_followed),
        cmocka_unit_test(cleartext_http2_is_spoken_only_when_asked_for),
        cmocka_unit_test(retry_after_is_read_as_seconds_or_as_a_date),
        cmocka_unit_test(the_answers_headers_are_bounded),
        cmocka_unit_test(broken_headers_do_not_shift_the_others),
        cmocka_unit_test(a_deadline_after_the_request_was_sent_leaves_the_outcome_unknown),
        cmocka_unit_test(time_up_before_a_connection_cannot_have_run),
        cmocka_unit_test(a_cancel_in_mid_body_breaks_the_transfer_off),
        cmocka_unit_test(cu_13_a_name_lookup_that_hangs_holds_nothing_up),
        cmocka_unit_test(cu_08_a_child_inherits_no_descriptor_of_libcurl),
        cmocka_unit_test(cu_09_a_connection_that_the_network_swallowed_is_given_up),
        cmocka_unit_test(cu_11_cu_12_libcurl_leaves_the_signals_alone),
        cmocka_unit_test(a_self_signed_certificate_counts_only_with_its_ca_file),
    };
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || sem_init(&lookup_may_end, 0, 0) != 0 ||
        sem_init(&lookup_begun, 0, 0) != 0)
        return 1;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
