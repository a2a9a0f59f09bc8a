/* What Mastra's own code answered (tests/fixtures/vectors.jsonl) where it looks at an
 * execution, reads, cancels, stops and destroys. */
#include "fake_sandbox.h"
#include "vectors.h"

#include <math.h>
#include <stdlib.h>

#include "execution/cancel.h"
#include "execution/layout.h"
#include "execution/lifecycle.h"
#include "execution/output.h"
#include "execution/status.h"
#include "providers/shell.h"
#include "runtime/buffer.h"

#define NOT_FOUND(state)                                                                   \
    "{\"error\": \"sandbox fake-sandbox-1 is " state " and will not come back\"}"
#define UNREADABLE "{\"state\": \"unknown\", \"executionId\": \"attempt-1\"}"
#define REFUSED    VECTOR_REFUSED

static const struct vector_difference differences[] = {
    {21, "W7", UNREADABLE},
    {22, "W7", UNREADABLE},
    {23, "W8",
     "{\"state\": \"exited\", \"executionId\": \"attempt-1\", \"exitCode\": 143, "
     "\"signal\": "
     "\"SIGTERM\"}"},
    {26, "W8",
     "{\"state\": \"exited\", \"executionId\": \"attempt-1\", \"exitCode\": 200}"},
    {27, "W7", UNREADABLE},
    {28, "W7", UNREADABLE},
    {31, "W7", UNREADABLE},
    {32, "W7", UNREADABLE},
    {34, "W7", UNREADABLE},
    {35, "W8",
     "{\"state\": \"exited\", \"executionId\": \"attempt-1\", \"exitCode\": 7, \"signal\": "
     "\"SIGKILL\"}"},
    {45, "W7", UNREADABLE},
    {61, "W25", "{\"error\": \"looking at the execution failed with exit code 1\"}"},
    {62, "W30",
     "{\"error\": \"The sandbox has no shell (sh), which running commands in it needs.\"}"},
    {79, "W6", NOT_FOUND("destroying")},
    {80, "W6", NOT_FOUND("destroying")},
    {81, "W6", NOT_FOUND("destroyed")},
    {82, "W6", NOT_FOUND("destroyed")},
    {103, "W7", REFUSED},
    {112, "W36",
     "{\"sandboxId\": \"fake-sandbox-1\", \"expiresAt\": null, \"commands\": 1}"},
    {188, "W31", "{\"error\": \"remote_dir must be an absolute path\"}"},
    {189, "W32",
     "{\"error\": \"Sandbox provider \\\"fake\\\" does not support executeCommand, which "
     "is "
     "required for worker deploys.\"}"},
    {207, "W25",
     "{\"error\": \"The sandbox has no program \\\"base64\\\", which this operation "
     "needs.\"}"},
    {208, "W25", "{\"error\": \"quota\"}"},
    {209, "W26", REFUSED},
    {211, "W26", REFUSED},
    {219, "W22", REFUSED},
    {224, "W5",
     "{\"result\": {\"state\": \"starting\", \"executionId\": \"attempt-1\"}, "
     "\"commands\": 1}"},
    {231, "W29", "{\"waitSeconds\": 5, \"commandTimeoutMs\": 15000}"},
    {232, "W29", "{\"waitSeconds\": 0.01, \"commandTimeoutMs\": 10001}"},
    {233, "W29", "{\"waitSeconds\": 1, \"commandTimeoutMs\": 10999}"},
    {234, "W29", "{\"waitSeconds\": 1, \"commandTimeoutMs\": 11000}"},
    {235, "W29", "{\"waitSeconds\": 1.01, \"commandTimeoutMs\": 11001}"},
    {236, "W29", "{\"waitSeconds\": 5, \"commandTimeoutMs\": 15000}"},
    {237, "W29", "{\"waitSeconds\": 30, \"commandTimeoutMs\": 40000}"},
};

static json_t *status_to_json(const struct status *status)
{
    json_t *object = json_pack("{s:s, s:s}", "state", status_state_name(status->state),
                               "executionId", "attempt-1");
    if (status->has_exit_code)
        vector_set_number(object, "exitCode", status->exit_code);
    vector_set_text(object, "signal", status->signal);
    vector_set_text(object, "resource", status->resource);
    if (status->limit)
        vector_set_number(object, "limit", (double)status->limit);
    vector_set_text(object, "phase", status->phase);
    vector_set_text(object, "message", status->message);
    vector_set_text(object, "providerState", status->provider_state);
    return object;
}

/* ---- a row's own sandbox ---- */

struct scene {
    struct fake_sandbox fake;
    struct fake_call call;
    char body[1024];
};

static void scene_init(struct scene *scene)
{
    fake_init(&scene->fake);
    scene->call = (struct fake_call){.fake = &scene->fake};
    scene->call.arena = arena_new(FAKE_ARENA_MAX);
    scene->call.request =
        (struct attach_request){.execution_id = "attempt-1", .remote_dir = "/app"};
}

static void scene_done(struct scene *scene)
{
    arena_free(scene->call.arena);
}

/* The files and processes from which the original's inspection would say `line`. */
static void set_status(struct scene *scene, const char *line, const char *more)
{
    bool is_running = strncmp(line, "running|", 8) == 0;
    bool is_starting = strncmp(line, "starting|", 9) == 0;
    (void)snprintf(scene->body, sizeof(scene->body),
                   "directory directory\nproc yes\nstatus file\nstatus-line %s\n%s"
                   "token missing\n%s%s%s",
                   line, is_running ? "pid file\npid-line 77\n" : "pid missing\n",
                   is_running ? "process S 5 5\nsignalable yes\n" : "",
                   is_starting ? "launcher yes\n" : "", more);
    fake_set_body(&scene->fake, scene->body);
}

/* ------------------------------------------------------------------------------ groups */

static json_t *run_parse(const json_t *input, const json_t *expected)
{
    (void)expected;
    struct scene scene;
    struct status status;
    json_t *result;
    scene_init(&scene);
    if (json_object_get(input, "exitCode")) {
        scene.fake.verbatim = vector_text(input, "stdout");
        scene.fake.error_text = vector_text(input, "stderr");
        scene.fake.exit_code = (int)json_number_value(json_object_get(input, "exitCode"));
        fake_look(&scene.call);
        result = scene.call.returned ? vector_error(scene.call.err.message)
                                     : status_to_json(&scene.call.result.status);
    } else {
        assert_int_equal(status_parse(vector_text(input, "stdout"), "attempt-1",
                                      scene.call.arena, &status),
                         0);
        result = status_to_json(&status);
    }
    scene_done(&scene);
    return result;
}

static enum sandbox_state provider_state(const char *name)
{
    static const struct {
        const char *name;
        enum sandbox_state state;
    } states[] = {
        {"pending", SANDBOX_STARTING},    {"initializing", SANDBOX_STARTING},
        {"ready", SANDBOX_RUNNING},       {"starting", SANDBOX_STARTING},
        {"running", SANDBOX_RUNNING},     {"stopping", SANDBOX_STOPPING},
        {"stopped", SANDBOX_STOPPED},     {"destroying", SANDBOX_DESTROYING},
        {"destroyed", SANDBOX_DESTROYED}, {"error", SANDBOX_FAILED},
    };
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (strcmp(states[i].name, name) == 0)
            return states[i].state;
    }
    fail_msg("no provider state %s", name);
    return SANDBOX_UNKNOWN;
}

static json_t *run_provider_state(const json_t *input, const json_t *expected)
{
    struct scene scene;
    json_t *result;
    scene_init(&scene);
    set_status(&scene, "running|attempt-1", "");
    scene.fake.state = provider_state(vector_text(input, "providerStatus"));
    scene.call.request.wake = json_is_true(json_object_get(input, "wake"));
    if (json_object_get(input, "start"))
        scene.fake.wake_error = ERROR_PROVIDER_UNAVAILABLE; /* with the message quota */
    fake_look(&scene.call);
    if (scene.call.returned) {
        result = vector_error(scene.call.err.message);
    } else {
        result = json_pack("{s:o}", "status", status_to_json(&scene.call.result.status));
        if (json_object_get(expected, "started"))
            vector_set_number(result, "started", scene.fake.wakes);
        if (json_object_get(expected, "commands"))
            vector_set_number(result, "commands", scene.fake.execs);
    }
    scene_done(&scene);
    return result;
}

static json_t *run_execution_id(const json_t *input, const json_t *expected)
{
    (void)expected;
    const json_t *value = json_object_get(input, "executionId");
    const char *text = json_string_value(value);
    char repeated[256] = "";
    if (strlen(text) != json_string_length(value)) /* a NUL: no text of the protocol */
        return vector_error("refused when the job is decoded");
    static const char repeat[] = "\"a\" x ";
    if (strncmp(text, repeat, strlen(repeat)) == 0) {
        memset(repeated, 'a', strtoul(text + strlen(repeat), NULL, 10));
        text = repeated;
    }
    struct error err = {0};
    if (layout_check_execution_id(text, &err) != 0)
        return vector_error(err.message);
    return json_string("ok");
}

static json_t *run_grace(const char *text)
{
    struct error err = {0};
    if (layout_check_above_zero("termination_grace_ms", "terminationGraceMs",
                                strtod(text, NULL), &err) == 0)
        return json_string("ok");
    assert_string_equal(err.field, "termination_grace_ms");
    return vector_error(err.message);
}

static json_t *run_attach(const json_t *input, const json_t *expected)
{
    (void)expected;
    if (json_is_object(input))
        return run_grace(vector_text(input, "terminationGraceMs"));
    struct scene scene;
    json_t *result;
    scene_init(&scene);
    if (strcmp(json_string_value(input), "getInfo rejects") == 0) {
        scene.fake.probe_error = ERROR_PROVIDER_UNAVAILABLE;
    } else {
        scene.fake.provider.exec = NULL;
        scene.call.request.execution_id = "../x"; /* its check comes second */
    }
    fake_look(&scene.call);
    if (scene.call.returned) {
        result = vector_error(scene.call.err.message);
    } else {
        assert_true(scene.call.result.expires_at_ms == -1);
        result = json_pack("{s:s, s:n, s:f}", "sandboxId", scene.fake.sandbox.id,
                           "expiresAt", "commands", (double)scene.fake.execs);
    }
    scene_done(&scene);
    return result;
}

static json_t *run_shell_quote(const json_t *input, const json_t *expected)
{
    (void)expected;
    buffer_scoped struct buffer buffer;
    buffer_init(&buffer, 1024);
    assert_int_equal(shell_append_quoted(&buffer, json_string_value(input)), 0);
    return json_string(buffer.data);
}

static json_t *run_remote_dir(const json_t *input, const json_t *expected)
{
    (void)expected;
    struct scene scene;
    const char *dir = NULL;
    scene_init(&scene);
    int failed;
    if (vector_text(input, "stdout")) {
        failed = layout_remote_dir(vector_text(input, "stdout"), scene.call.arena, &dir,
                                   &scene.call.err);
    } else {
        if (json_is_string(input))
            scene.fake.provider.exec = NULL;
        scene.call.request.remote_dir = vector_text(input, "remoteDir");
        fake_look(&scene.call);
        failed = scene.call.returned;
        dir = scene.call.result.remote_dir;
    }
    json_t *result = failed ? vector_error(scene.call.err.message) : json_string(dir);
    scene_done(&scene);
    return result;
}

/* Bytes as the text that has these code points. */
static json_t *bytes_to_json(const char *data, size_t size)
{
    char text[512];
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)data[i];
        if (byte >= 0x80) {
            text[length++] = (char)(0xC0 | (byte >> 6));
            byte = 0x80 | (byte & 0x3F);
        }
        text[length++] = (char)byte;
    }
    return json_stringn(text, length);
}

static json_t *piece_to_json(const struct fake_sandbox *fake,
                             const struct output_piece *piece)
{
    char offset[32] = "";
    char max_bytes[32] = "";
    char commands[128];
    assert_int_equal(sscanf(strstr(fake->script, "'base64' "),
                            "'base64' '%31[0-9]' '%31[0-9]'", offset, max_bytes),
                     2);
    /* The program asks for this, less what is not there. */
    (void)snprintf(commands, sizeof(commands), "tail -c +%ld head -c %s",
                   strtol(offset, NULL, 10) + 1, max_bytes);
    json_t *object = json_pack(
        "{s:s, s:o, s:b, s:b, s:b, s:s}", "stream", output_stream_name(piece->stream),
        "data", bytes_to_json(piece->data, piece->size), "eof", piece->eof, "truncated",
        piece->truncated, "interrupted", piece->interrupted, "tail_head", commands);
    vector_set_number(object, "offset", (double)piece->offset);
    vector_set_number(object, "nextOffset", (double)piece->next_offset);
    vector_set_number(object, "totalBytes", (double)piece->total_bytes);
    return object;
}

/* What our program would have printed where the original's printed this. */
static void set_transport(struct scene *scene, const json_t *transport, const char *status)
{
    char more[512];
    if (json_is_string(transport)) {
        scene->fake.exec_error = ERROR_PROVIDER_UNAVAILABLE;
        return;
    }
    if (json_object_get(transport, "exitCode")) {
        set_status(scene, status, "missing-tool base64\n");
        return;
    }
    const char *text = vector_text(transport, "stdout");
    const char *base64 = strchr(text, '\n');
    base64 = base64 ? base64 + 1 : "";
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(output_decode(base64, strlen(base64), scene->call.arena, &data, &size),
                     0);
    (void)snprintf(more, sizeof(more), "output stdout %ld %zu\n%s\noutput-end\n",
                   strtol(text, NULL, 10), size, base64);
    set_status(scene, status, more);
}

/* Whether a number of the vectors is one that a job can hold. */
static bool read_count(const json_t *options, const char *key, uint64_t *value)
{
    const json_t *number = json_object_get(options, key);
    if (!number)
        return true;
    if (!json_is_number(number) || json_number_value(number) < 0)
        return false;
    *value = (uint64_t)json_number_value(number);
    return true;
}

static json_t *run_read_output(const json_t *input, const json_t *expected)
{
    (void)expected;
    const json_t *options = json_object_get(input, "options");
    struct scene scene;
    scene_init(&scene);
    scene.fake.sandbox.traits = 0;
    struct output_request *request = &scene.call.request.stdout_request;
    *request = (struct output_request){true, 0, OUTPUT_DEFAULT_MAX_BYTES};
    json_t *result;
    if (!read_count(options, "offset", &request->offset) ||
        !read_count(options, "maxBytes", &request->max_bytes)) {
        result = vector_error("refused when the job is decoded");
    } else {
        set_transport(&scene, json_object_get(input, "transport"),
                      vector_text(input, "status"));
        fake_look(&scene.call);
        result = scene.call.returned
                     ? vector_error(scene.call.err.message)
                     : piece_to_json(&scene.fake, &scene.call.result.stdout_piece);
    }
    scene_done(&scene);
    return result;
}

struct cancelling {
    struct scene scene;
    double grace_ms;
    struct status status;
    int returned;
};

static void run_cancelling(void *arg)
{
    struct cancelling *this = arg;
    const struct cancel_request request = {
        .execution_id = "attempt-1", .remote_dir = "/app", .grace_ms = this->grace_ms};
    this->returned = cancel_execution(&this->scene.fake.sandbox, &request,
                                      this->scene.call.arena, &this->status, NULL);
}

static json_t *run_cancel(const json_t *input, const json_t *expected)
{
    (void)expected;
    const json_t *grace = json_object_get(input, "terminationGraceMs");
    const char *line = vector_text(input, "status");
    struct cancelling this = {.grace_ms =
                                  json_is_number(grace) ? json_number_value(grace) : 5000};
    scene_init(&this.scene);
    set_status(&this.scene, line ? line : "running|attempt-1", "");
    support_run_task(run_cancelling, &this);
    assert_int_equal(this.returned, 0);
    json_t *result = json_object();
    if (line) {
        assert_int_equal(
            json_object_set_new(result, "result", status_to_json(&this.status)), 0);
        vector_set_number(result, "commands", this.scene.fake.execs);
    } else {
        const char *ticks = strstr(this.scene.fake.script, "'attempt-1' '");
        assert_non_null(ticks);
        ticks += strlen("'attempt-1' '");
        vector_set_number(result, "waitSeconds", strtod(ticks, NULL) / 100);
        vector_set_number(result, "commandTimeoutMs", (double)this.scene.fake.timeout_ms);
    }
    scene_done(&this.scene);
    return result;
}
/* ---- stop and destroy ---- */

struct lifecycle_call {
    struct fake_sandbox fake;
    struct destroy_request request;
    struct arena *arena;
    struct destroy_result result;
    struct error err;
    int returned;
};

static void stop_in_task(void *arg)
{
    struct lifecycle_call *call = arg;
    call->returned = lifecycle_stop(&call->fake.sandbox, &call->err);
}

static void destroy_in_task(void *arg)
{
    struct lifecycle_call *call = arg;
    call->returned = lifecycle_destroy(&call->fake.sandbox, &call->request, call->arena,
                                       &call->result, &call->err);
}

static json_t *run_stop(const json_t *input, const json_t *expected)
{
    (void)expected;
    struct lifecycle_call call = {0};
    fake_init(&call.fake);
    if (strcmp(json_string_value(input), "no stop member") == 0)
        call.fake.provider.stop = NULL;
    support_run_task(stop_in_task, &call);
    if (call.returned != 0)
        return json_pack("{s:s}", "error", call.err.message);
    return json_pack("{s:f, s:s}", "stopped", (double)call.fake.stops, "status",
                     sandbox_state_name(call.fake.state));
}

static json_t *destroy_refused(struct lifecycle_call *call, const json_t *input)
{
    const json_t *options = json_object_get(input, "options");
    const json_t *attempts = json_object_get(options, "attempts");
    const json_t *delay_ms = json_object_get(options, "delayMs");
    call->request.attempts = attempts ? json_number_value(attempts) : 3;
    call->request.delay_ms = delay_ms ? (uint64_t)json_number_value(delay_ms) : 1;
    call->fake.failing_destroys =
        (int)json_number_value(json_object_get(input, "failures"));
    return json_is_string(attempts) ? json_loads(REFUSED, VECTOR_LOAD_FLAGS, NULL) : NULL;
}

static json_t *run_destroy(const json_t *input, const json_t *expected)
{
    (void)expected;
    struct lifecycle_call call = {.request = {3, 1}, .arena = arena_new(FAKE_ARENA_MAX)};
    fake_init(&call.fake);
    if (json_is_string(input))
        call.fake.provider.destroy = NULL;
    json_t *result = destroy_refused(&call, input);
    if (!result) {
        support_run_task(destroy_in_task, &call);
        assert_int_equal(call.returned, 0);
        result = json_pack("{s:s, s:f}", "state", destroy_state_name(call.result.state),
                           "attempts", (double)call.result.attempts);
        if (call.result.message)
            (void)json_object_set_new(result, "error", json_string(call.result.message));
        if (call.fake.destroys > 0)
            vector_set_number(result, "calls", call.fake.destroys);
    }
    arena_free(call.arena);
    return result;
}
static const struct vector_group groups[] = {
    {"parse", run_parse, 48},
    {"provider_state", run_provider_state, 16},
    {"execution_id", run_execution_id, 14},
    {"attach", run_attach, 8},
    {"shell_quote", run_shell_quote, 8},
    {"remote_dir", run_remote_dir, 8},
    {"read_output", run_read_output, 18},
    {"cancel", run_cancel, 12},
    {"stop", run_stop, 2},
    {"destroy", run_destroy, 6},
};

static void every_vector_matches_or_differs_on_purpose(void **state)
{
    (void)state;
    vectors_replay(groups, sizeof(groups) / sizeof(groups[0]), differences,
                   sizeof(differences) / sizeof(differences[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_matches_or_differs_on_purpose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
