/* What Mastra's own code answered (tests/fixtures/vectors.jsonl), row by row. Rows of ours
 * that differ on purpose are listed below with the weakness they cure
 * (docs/compatibility.md); a row that differs unlisted fails, and so does a listed one that
 * matches. */
#include "fake_sandbox.h"
#include "place.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "execution/cancel.h"
#include "execution/layout.h"
#include "execution/lifecycle.h"
#include "execution/limits.h"
#include "execution/output.h"
#include "execution/status.h"
#include "providers/shell.h"
#include "runtime/buffer.h"

#define NOT_FOUND(state)                                                                   \
    "{\"error\": \"sandbox fake-sandbox-1 is " state " and will not come back\"}"
#define UNREADABLE "{\"state\": \"unknown\", \"executionId\": \"attempt-1\"}"
#define REFUSED    "{\"error\": \"refused when the job is decoded\"}"

enum { LOAD_FLAGS = JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL | JSON_DECODE_ANY };

extern const char remote_begin_sh[];
extern const char remote_launch_sh[];

static const struct difference {
    int n;
    const char *why;
    const char *ours;
} differences[] = {
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
    {163, "W28",
     "{\"ulimit_soft_and_hard\": {\"t\": [3, 9]}, \"preflight_checks\": [\"cpu_time\", "
     "\"cpu_signal\"]}"},
    {165, "W28",
     "{\"ulimit_soft_and_hard\": {\"v\": 0}, \"preflight_checks\": [\"address_space "
     "refused\"]}"},
    {167, "W28",
     "{\"ulimit_soft_and_hard\": {\"f\": 0}, \"preflight_checks\": [\"file_size "
     "refused\"]}"},
    {169, "W28",
     "{\"ulimit_soft_and_hard\": {\"t\": [3, 9], \"v\": 8, \"f\": 4, \"n\": 32}, "
     "\"preflight_checks\": [\"cpu_time\", \"address_space\", \"file_size\", "
     "\"open_files\", \"cpu_signal\", \"file_size_signal\"]}"},
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
    {238, "W29", "{\"watchdogSleep\": 0.001, \"graceLoops\": 0.001}"},
    {239, "W29", "{\"watchdogSleep\": 0.025, \"graceLoops\": 5}"},
    {241, "W29", "{\"watchdogSleep\": 1.001, \"graceLoops\": 1.001}"},
    {242, "W29", "{\"watchdogSleep\": 90, \"graceLoops\": 2.5}"},
    {268, "W27", /* the original's own record was not seen */
     "{\"thrown\": \"Worker launch failed: xxxxxxxxxxxxxxxxxx... (622 chars)\", "
     "\"status_line\": \"failed|attempt-1|launch|xxxxxxxxxxxxxxxx... (524 chars)\"}"},
};

static json_t *error_of(const char *message)
{
    return json_pack("{s:s}", "error", message);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void set_text(json_t *object, const char *key, const char *text)
{
    if (text)
        assert_int_equal(json_object_set_new(object, key, json_string(text)), 0);
}

/* Numbers are reals on both sides, since JavaScript's are. */
static void set_number(json_t *object, const char *key, double value)
{
    assert_int_equal(json_object_set_new(object, key, json_real(value)), 0);
}

static json_t *status_to_json(const struct status *status)
{
    json_t *object = json_pack("{s:s, s:s}", "state", status_state_name(status->state),
                               "executionId", "attempt-1");
    if (status->has_exit_code)
        set_number(object, "exitCode", status->exit_code);
    set_text(object, "signal", status->signal);
    set_text(object, "resource", status->resource);
    if (status->limit)
        set_number(object, "limit", (double)status->limit);
    set_text(object, "phase", status->phase);
    set_text(object, "message", status->message);
    set_text(object, "providerState", status->provider_state);
    return object;
}

/* ----------------------------------------------------------------- a row's own sandbox */

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
        scene.fake.verbatim = text_of(input, "stdout");
        scene.fake.error_text = text_of(input, "stderr");
        scene.fake.exit_code = (int)json_number_value(json_object_get(input, "exitCode"));
        fake_look(&scene.call);
        result = scene.call.returned ? error_of(scene.call.err.message)
                                     : status_to_json(&scene.call.result.status);
    } else {
        assert_int_equal(
            status_parse(text_of(input, "stdout"), "attempt-1", scene.call.arena, &status),
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
    scene.fake.state = provider_state(text_of(input, "providerStatus"));
    scene.call.request.wake = json_is_true(json_object_get(input, "wake"));
    if (json_object_get(input, "start"))
        scene.fake.wake_error = ERROR_PROVIDER_UNAVAILABLE; /* with the message quota */
    fake_look(&scene.call);
    if (scene.call.returned) {
        result = error_of(scene.call.err.message);
    } else {
        result = json_pack("{s:o}", "status", status_to_json(&scene.call.result.status));
        if (json_object_get(expected, "started"))
            set_number(result, "started", scene.fake.wakes);
        if (json_object_get(expected, "commands"))
            set_number(result, "commands", scene.fake.execs);
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
        return error_of("refused when the job is decoded");
    static const char repeat[] = "\"a\" x ";
    if (strncmp(text, repeat, strlen(repeat)) == 0) {
        memset(repeated, 'a', strtoul(text + strlen(repeat), NULL, 10));
        text = repeated;
    }
    struct error err = {0};
    if (layout_check_execution_id(text, &err) != 0)
        return error_of(err.message);
    return json_string("ok");
}

static json_t *run_grace(const char *text)
{
    struct error err = {0};
    if (layout_check_above_zero("termination_grace_ms", "terminationGraceMs",
                                strtod(text, NULL), &err) == 0)
        return json_string("ok");
    assert_string_equal(err.field, "termination_grace_ms");
    return error_of(err.message);
}

static json_t *run_attach(const json_t *input, const json_t *expected)
{
    (void)expected;
    if (json_is_object(input))
        return run_grace(text_of(input, "terminationGraceMs"));
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
        result = error_of(scene.call.err.message);
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
    if (text_of(input, "stdout")) {
        failed = layout_remote_dir(text_of(input, "stdout"), scene.call.arena, &dir,
                                   &scene.call.err);
    } else {
        if (json_is_string(input))
            scene.fake.provider.exec = NULL;
        scene.call.request.remote_dir = text_of(input, "remoteDir");
        fake_look(&scene.call);
        failed = scene.call.returned;
        dir = scene.call.result.remote_dir;
    }
    json_t *result = failed ? error_of(scene.call.err.message) : json_string(dir);
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
    set_number(object, "offset", (double)piece->offset);
    set_number(object, "nextOffset", (double)piece->next_offset);
    set_number(object, "totalBytes", (double)piece->total_bytes);
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
    const char *text = text_of(transport, "stdout");
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
        result = error_of("refused when the job is decoded");
    } else {
        set_transport(&scene, json_object_get(input, "transport"),
                      text_of(input, "status"));
        fake_look(&scene.call);
        result = scene.call.returned
                     ? error_of(scene.call.err.message)
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
    const char *line = text_of(input, "status");
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
        set_number(result, "commands", this.scene.fake.execs);
    } else {
        const char *ticks = strstr(this.scene.fake.script, "'attempt-1' '");
        assert_non_null(ticks);
        ticks += strlen("'attempt-1' '");
        set_number(result, "waitSeconds", strtod(ticks, NULL) / 100);
        set_number(result, "commandTimeoutMs", (double)this.scene.fake.timeout_ms);
    }
    scene_done(&this.scene);
    return result;
}

/* ------------------------------------------------------------------ what runs in a shell
 */

static const struct shell dash = {"dash", {"dash"}};

/* What dash prints for `call` after the functions of a program: all of it up to `mark`. */
static const char *call_function(struct place *place, const char *program, const char *mark,
                                 const char *call)
{
    const char *end = strstr(program, mark);
    assert_non_null(end);
    const char *script =
        arena_printf(place->arena, "%.*s\n%s\n", (int)(end - program), program, call);
    assert_non_null(script);
    buffer_scoped struct buffer answer;
    buffer_init(&answer, PLACE_ANSWER_MAX);
    run_script(place, script, &answer);
    const char *copy =
        arena_text_n(place->arena, answer.data ? answer.data : "", answer.size);
    assert_non_null(copy);
    return copy;
}

#define LAUNCH_MODES "\ncase ${1-} in\nstart)"
#define BEGIN_BODY   "\nnonce=$1 remote_dir=$2"

static json_t *run_preflight(const json_t *input, const json_t *expected)
{
    (void)expected;
    struct scene scene;
    scene_init(&scene);
    const struct exec_result exec = {
        .end = EXEC_EXITED,
        .exit_code = (int)json_number_value(json_object_get(input, "exitCode")),
        .out = {text_of(input, "stdout"), strlen(text_of(input, "stdout")), 0},
        .err = {text_of(input, "stderr"), strlen(text_of(input, "stderr")), 0}};
    json_t *result = json_string("ok");
    if (limits_judge(&exec, scene.call.arena, &scene.call.err) != 0) {
        assert_int_equal(scene.call.err.code, ERROR_CAPABILITY_UNAVAILABLE);
        json_decref(result);
        result = json_pack("{s:s, s:s, s:s, s:s, s:s}", "error", scene.call.err.message,
                           "name", "SandboxWorkerCapabilityError", "code",
                           "SANDBOX_WORKER_CAPABILITY_UNAVAILABLE", "capability",
                           scene.call.err.capability, "cause", scene.call.err.detail);
    }
    scene_done(&scene);
    return result;
}

/* The soft and the hard limit that the program's shell sets: one number where they agree.
 */
static json_t *limits_set(const char *printed)
{
    json_t *object = json_object();
    for (const char *at = strstr(printed, "-S -"); at; at = strstr(at + 1, "-S -")) {
        char flag[2] = {at[4], '\0'};
        char hard_words[8];
        (void)snprintf(hard_words, sizeof(hard_words), "-H -%s ", flag);
        const char *hard_text = strstr(at, hard_words);
        assert_non_null(hard_text);
        double soft = strtod(at + 6, NULL);
        double hard = strtod(hard_text + 6, NULL);
        if (soft < hard)
            assert_int_equal(
                json_object_set_new(object, flag, json_pack("[f, f]", soft, hard)), 0);
        else
            set_number(object, flag, soft);
    }
    return object;
}

static json_t *lines_to_json(const char *text)
{
    json_t *array = json_array();
    while (*text) {
        size_t length = strcspn(text, "\n");
        assert_int_equal(json_array_append_new(array, json_stringn(text, length)), 0);
        text += length + (text[length] == '\n');
    }
    return array;
}

static const char *number_text(struct place *place, const json_t *input, const char *key)
{
    const json_t *number = json_object_get(input, key);
    return number ? arena_printf(place->arena, "%.0f", json_number_value(number)) : "";
}

static json_t *run_limits(const json_t *input, const json_t *expected)
{
    (void)expected;
    struct place place;
    place_init(&place, &dash);
    const char *cpu = number_text(&place, input, "cpuTimeSeconds");
    const char *address = number_text(&place, input, "addressSpaceBytes");
    const char *size = number_text(&place, input, "fileSizeBytes");
    const char *files = number_text(&place, input, "openFiles");
    const char *become =
        arena_printf(place.arena,
                     "cpu_seconds='%s' address_bytes='%s' file_bytes='%s' open_files='%s' "
                     "grace_ms=5000\n"
                     "put() { :; }\nfind_claim() { owner=$PPID; }\nworkload() { :; }\n"
                     "ulimit() { echo \"$1 $2 $3\"; }\nbecome",
                     cpu, address, size, files);
    const char *asked = arena_printf(
        place.arena,
        "lacks() { echo \"$1 refused\"; }\n"
        "can_limit() { case $1 in t) echo cpu_time ;; v) echo address_space ;; "
        "f) echo file_size ;; n) echo open_files ;; esac; }\n"
        "can_tell() { case $1 in XCPU) echo cpu_signal ;; *) echo file_size_signal ;; "
        "esac; }\n"
        "preflight '%s' '%s' '%s' '%s'",
        cpu, address, size, files);
    json_t *result =
        json_pack("{s:o, s:o}", "ulimit_soft_and_hard",
                  limits_set(call_function(&place, remote_launch_sh, LAUNCH_MODES, become)),
                  "preflight_checks",
                  lines_to_json(call_function(&place, remote_begin_sh, BEGIN_BODY, asked)));
    place_done(&place);
    return result;
}

/* How long launch.sh sleeps before it sends a signal. */
static double signal_delay(struct place *place, double after_ms)
{
    const char *call = arena_printf(
        place->arena, "sleep() { delay=$1; }\ntimer %.0f -0 $$\necho $delay", after_ms);
    return strtod(call_function(place, remote_launch_sh, LAUNCH_MODES, call), NULL);
}

static json_t *run_launch(const json_t *input, const json_t *expected)
{
    (void)expected;
    struct place place;
    place_init(&place, &dash);
    json_t *result = json_object();
    set_number(result, "watchdogSleep",
               signal_delay(&place, json_number_value(
                                        json_object_get(input, "executionTimeoutMs"))));
    set_number(result, "graceLoops",
               signal_delay(&place, json_number_value(
                                        json_object_get(input, "terminationGraceMs"))));
    place_done(&place);
    return result;
}

/* Long ones as the rows have them. */
static json_t *short_text(struct place *place, const char *text)
{
    size_t length = strlen(text);
    if (length <= 100)
        return json_string(text);
    return json_string(arena_printf(place->arena, "%.40s... (%zu chars)", text, length));
}

static json_t *run_failed_status(const json_t *input, const json_t *expected)
{
    const char *text = text_of(input, "launchError");
    struct place place;
    char repeated[700] = "";
    place_init(&place, &dash);
    static const char repeat[] = "\"x\" x ";
    if (strncmp(text, repeat, strlen(repeat)) == 0) {
        memset(repeated, 'x', strtoul(text + strlen(repeat), NULL, 10));
        text = repeated;
    }
    buffer_scoped struct buffer call;
    buffer_init(&call, 4096);
    assert_int_equal(buffer_append_text(&call, "put() { printf '%s' \"$2\"; }\n"
                                               "execution_id=attempt-1\nfail "),
                     0);
    assert_int_equal(shell_append_quoted(&call, text), 0);
    char *line = arena_text(
        place.arena, call_function(&place, remote_launch_sh, LAUNCH_MODES, call.data));
    assert_non_null(line);
    line[strcspn(line, "\n")] = '\0';
    /* deploy.c puts these words before what launch.sh says. */
    json_t *thrown =
        short_text(&place, arena_printf(place.arena, "Worker launch failed: %s", text));
    if (json_is_object(json_object_get(expected, "thrown")))
        thrown = json_pack("{s:o}", "error", thrown);
    json_t *result =
        json_pack("{s:o, s:o}", "thrown", thrown, "status_line", short_text(&place, line));
    place_done(&place);
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
    return json_is_string(attempts) ? json_loads(REFUSED, LOAD_FLAGS, NULL) : NULL;
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
            set_number(result, "calls", call.fake.destroys);
    }
    arena_free(call.arena);
    return result;
}

static const struct {
    const char *name;
    json_t *(*run)(const json_t *input, const json_t *expected);
    int rows; /* that there are: a file that lost some proves less */
} groups[] = {
    {"parse", run_parse, 48},
    {"provider_state", run_provider_state, 16},
    {"execution_id", run_execution_id, 14},
    {"attach", run_attach, 8},
    {"shell_quote", run_shell_quote, 8},
    {"remote_dir", run_remote_dir, 8},
    {"read_output", run_read_output, 18},
    {"cancel", run_cancel, 12},
    {"preflight", run_preflight, 6},
    {"limits", run_limits, 7},
    {"launch", run_launch, 5},
    {"failed_status", run_failed_status, 4},
    {"stop", run_stop, 2},
    {"destroy", run_destroy, 6},
};

enum {
    GROUP_COUNT = sizeof(groups) / sizeof(groups[0]),
};

static const struct difference *find_difference(int n)
{
    for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++) {
        if (differences[i].n == n)
            return &differences[i];
    }
    return NULL;
}

/* 1 where the row is as it should be, else 0 with a line for a person. */
static int check_row(int n, const json_t *result, const json_t *expected)
{
    const struct difference *difference = find_difference(n);
    json_t *ours = difference ? json_loads(difference->ours, LOAD_FLAGS, NULL) : NULL;
    bool matches = json_equal(result, expected);
    bool is_right = difference ? !matches && json_equal(result, ours) : matches;
    if (!is_right) {
        char *text = json_dumps(result, JSON_ENCODE_ANY | JSON_SORT_KEYS);
        print_message("row %d (%s): %s\n", n, difference ? difference->why : "unlisted",
                      text);
        free(text);
    }
    json_decref(ours);
    return is_right;
}

static void run_line(const char *line, size_t length, int *counts, int *failures)
{
    json_t *row = json_loadb(line, length, LOAD_FLAGS, NULL);
    assert_non_null(row);
    const char *group = text_of(row, "group");
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        if (strcmp(group, groups[i].name) != 0)
            continue;
        const json_t *expected = json_object_get(row, "expected");
        json_t *result = groups[i].run(json_object_get(row, "input"), expected);
        assert_non_null(result);
        int n = (int)json_number_value(json_object_get(row, "n"));
        *failures += !check_row(n, result, expected);
        counts[i]++;
        json_decref(result);
    }
    json_decref(row);
}

static void every_vector_matches_or_differs_on_purpose(void **state)
{
    (void)state;
    int counts[GROUP_COUNT] = {0};
    int failures = 0;
    char *text = support_read_source_file("tests/fixtures/vectors.jsonl", NULL);
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        run_line(line, length, counts, &failures);
        line += length + (line[length] == '\n');
    }
    free(text);
    assert_int_equal(failures, 0);
    for (size_t i = 0; i < GROUP_COUNT; i++)
        assert_int_equal(counts[i], groups[i].rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_matches_or_differs_on_purpose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
