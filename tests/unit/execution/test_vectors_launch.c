/* What Mastra's own code answered (tests/fixtures/vectors.jsonl) where it tries limits and
 * launches: asked of the functions of our programs, in a shell. */
#include "place.h"
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execution/limits.h"
#include "providers/shell.h"
#include "runtime/buffer.h"

extern const char remote_begin_sh[];
extern const char remote_launch_sh[];

static const struct vector_difference differences[] = {
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
    {238, "W29", "{\"watchdogSleep\": 0.001, \"graceLoops\": 0.001}"},
    {239, "W29", "{\"watchdogSleep\": 0.025, \"graceLoops\": 5}"},
    {241, "W29", "{\"watchdogSleep\": 1.001, \"graceLoops\": 1.001}"},
    {242, "W29", "{\"watchdogSleep\": 90, \"graceLoops\": 2.5}"},
    {268, "W27", /* the original's own record was not seen */
     "{\"thrown\": \"Worker launch failed: xxxxxxxxxxxxxxxxxx... (622 chars)\", "
     "\"status_line\": \"failed|attempt-1|launch|xxxxxxxxxxxxxxxx... (524 chars)\"}"},
};

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
    struct error err = {0};
    arena_scoped struct arena *arena = arena_new(64 * 1024);
    const struct exec_result exec = {
        .end = EXEC_EXITED,
        .exit_code = (int)json_number_value(json_object_get(input, "exitCode")),
        .out = {vector_text(input, "stdout"), strlen(vector_text(input, "stdout")), 0},
        .err = {vector_text(input, "stderr"), strlen(vector_text(input, "stderr")), 0}};
    json_t *result = json_string("ok");
    if (limits_judge(&exec, arena, &err) != 0) {
        assert_int_equal(err.code, ERROR_CAPABILITY_UNAVAILABLE);
        json_decref(result);
        result = json_pack("{s:s, s:s, s:s, s:s, s:s}", "error", err.message, "name",
                           "SandboxWorkerCapabilityError", "code",
                           "SANDBOX_WORKER_CAPABILITY_UNAVAILABLE", "capability",
                           err.capability, "cause", err.detail);
    }
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
            vector_set_number(object, flag, soft);
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
    vector_set_number(result, "watchdogSleep",
                      signal_delay(&place, json_number_value(json_object_get(
                                               input, "executionTimeoutMs"))));
    vector_set_number(result, "graceLoops",
                      signal_delay(&place, json_number_value(json_object_get(
                                               input, "terminationGraceMs"))));
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
    const char *text = vector_text(input, "launchError");
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
static const struct vector_group groups[] = {
    {"preflight", run_preflight, 6},
    {"limits", run_limits, 7},
    {"launch", run_launch, 5},
    {"failed_status", run_failed_status, 4},
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
