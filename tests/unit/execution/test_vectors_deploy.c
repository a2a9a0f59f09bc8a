/* What Mastra's own code answered (tests/fixtures/vectors.jsonl) where it deploys: what it
 * refuses, in how many commands it uploads and does the rest, how long it waits. */
#include "deploy_scene.h"
#include "fake_sandbox.h"
#include "launch_scene.h"
#include "vectors.h"

#include <math.h>
#include <stdlib.h>

#include "execution/upload.h"

enum { MOST_WORDS = 8 };

static const struct vector_difference differences[] = {
    {243, "W19", "{\"waitMs\": 600000}"},
    {244, "W19", "{\"waitMs\": 1}"},
    {245, "W19", "{\"waitMs\": 1000}"},
    {246, "W19", "{\"waitMs\": 1500}"},
    {247, "W19", "{\"waitMs\": 600000}"},
    {248, "W22", "{\"error\": \"installTimeoutMs must be greater than zero.\"}"},
    {251, "W34", "{\"commands\": 1}"},
    {252, "W36", "{\"commands\": 1}"},
    {253, "W36", "{\"commands\": 1}"},
    {254, "W36", "{\"commands\": 1}"},
    {255, "W36", "{\"commands\": 1}"},
    {256, "W36", "{\"commands\": 14}"},
    {270, "W36",
     "{\"deploy\": 2, \"writeFilesCalls\": 1, \"status\": 1, \"readOutput\": 1, "
     "\"cancel\": 1, \"relaunch\": 2}"},
    {271, "W36",
     "{\"deploy\": 3, \"writeFilesCalls\": 0, \"status\": 1, \"readOutput\": 1, "
     "\"cancel\": 1, \"relaunch\": 3}"},
    {272, "W36", "{\"attach\": 1, \"firstStatus\": 0, \"nextStatus\": 1}"},
};

/* ---- what is refused ---- */

/* The request of a row, which names only what it is about. */
struct asked {
    struct deploy_request request;
    struct span args[MOST_WORDS];
    struct deploy_variable env[MOST_WORDS];
    struct limits_entry limits[MOST_WORDS];
    char execution_id[64];
};

static struct span span_of(const json_t *text)
{
    return (struct span){json_string_value(text), json_string_length(text)};
}

/* "Infinity" and "NaN" are texts, since JSON has no such numbers. */
static double number_of(const json_t *value)
{
    return json_is_string(value) ? strtod(json_string_value(value), NULL)
                                 : json_number_value(value);
}

/* As a job names it. */
static const char *limit_name(const char *name)
{
    static const char *const names[][2] = {{"cpuTimeSeconds", "cpu_time_seconds"},
                                           {"openFiles", "open_files"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i][0], name) == 0)
            return names[i][1];
    }
    return name;
}

static void ask_lists(struct asked *asked, const json_t *input)
{
    const json_t *args = json_object_get(input, "args");
    const json_t *value;
    const char *name;
    size_t i;
    asked->request.arg_count = json_array_size(args);
    json_array_foreach(args, i, value) asked->args[i] = span_of(value);
    json_object_foreach(json_object_get(input, "env"), name, value)
        asked->env[asked->request.env_count++] =
        (struct deploy_variable){{name, strlen(name)}, span_of(value)};
    json_object_foreach(json_object_get(input, "resourceLimits"), name, value)
        asked->limits[asked->request.limit_count++] = (struct limits_entry){
        limit_name(name), json_is_number(value), json_number_value(value)};
}

static void take_number(const json_t *input, const char *key, double *number)
{
    const json_t *value = json_object_get(input, key);
    if (value)
        *number = number_of(value);
}

static void ask_numbers(struct deploy_request *request, const json_t *input)
{
    const char *install_ms = vector_text(input, "installTimeoutMs");
    request->has_execution_timeout = json_object_get(input, "executionTimeoutMs") != NULL;
    take_number(input, "inputLimitBytes", &request->input_limit_bytes);
    take_number(input, "startupTimeoutMs", &request->startup_timeout_ms);
    take_number(input, "executionTimeoutMs", &request->execution_timeout_ms);
    take_number(input, "terminationGraceMs", &request->termination_grace_ms);
    if (install_ms && strcmp(install_ms, "default") != 0)
        request->install_timeout_ms = strtod(install_ms, NULL);
}

static void ask(struct asked *asked, const json_t *input)
{
    const json_t *command = json_object_get(input, "command");
    const json_t *directory = json_object_get(input, "workingDirectory");
    const json_t *given = json_object_get(input, "input");
    const char *id = vector_text(input, "executionId");
    struct deploy_request *request = &asked->request;
    (void)snprintf(asked->execution_id, sizeof(asked->execution_id), "%s",
                   id ? id : "attempt-1");
    *request = (struct deploy_request){
        .job_id = "job-1",
        .execution_id = asked->execution_id,
        .remote_dir = "/app",
        .command = command ? span_of(command) : (struct span){"node", 4},
        .args = asked->args,
        .env = asked->env,
        .limits = asked->limits,
        .working_directory = directory ? span_of(directory) : (struct span){".", 1},
        .input_limit_bytes = 16 * 1024 * 1024,
        .startup_timeout_ms = 10000,
        .termination_grace_ms = 5000,
        .install_timeout_ms = 600000};
    if (given)
        request->input = (struct deploy_input){
            .given = true,
            .is_file = strcmp(vector_text(given, "type"), "file") == 0,
            .path = span_of(json_object_get(given, "path")),
            .data = span_of(json_object_get(given, "data"))};
    ask_lists(asked, input);
    ask_numbers(request, input);
}

/* NULL where it is good, and then the plan. */
static json_t *check(const json_t *input, bool can_execute, struct deploy_plan *ret_plan)
{
    struct asked asked = {0};
    struct fake_sandbox fake;
    struct error err = {0};
    json_t *result = NULL;
    arena_scoped struct arena *arena = arena_new(FAKE_ARENA_MAX);
    ask(&asked, input);
    fake_init(&fake);
    fake.sandbox.traits |= TRAIT_BACKGROUND;
    if (!can_execute)
        fake.provider.exec = NULL;
    if (deploy_check(&fake.sandbox, &asked.request, arena, ret_plan, &err) != 0)
        result = vector_error(err.message);
    assert_int_equal(fake.execs + fake.probes, 0);
    return result;
}

static json_t *run_deploy_validation(const json_t *input, const json_t *expected)
{
    struct deploy_plan plan;
    (void)expected;
    json_t *refused = check(input, json_is_object(input), &plan);
    return refused ? refused : json_string("ok");
}

/* ---- how long locks are waited for ---- */

static json_t *run_lock(const json_t *input, const json_t *expected)
{
    struct deploy_plan plan;
    (void)expected;
    json_t *refused = check(input, true, &plan);
    return refused ? refused
                   : json_pack("{s:f}", "waitMs", (double)plan.install_timeout_ms);
}

/* ---- uploads by commands ---- */

struct sending {
    struct fake_sandbox fake;
    struct file_source source;
    struct error err;
    int returned;
    uint32_t parts;
};

static int read_zeros(void *arg, uint64_t offset, void *data, size_t bytes)
{
    (void)arg;
    (void)offset;
    memset(data, 0, bytes);
    return 0;
}

static void send_in_task(void *arg)
{
    struct sending *this = arg;
    const struct upload upload = {.source = &this->source, .path = "/app/bundle"};
    this->returned = upload_send(&this->fake.sandbox, &upload, &this->parts, &this->err);
}

static json_t *run_upload(const json_t *input, const json_t *expected)
{
    struct sending this = {0};
    (void)expected;
    fake_init(&this.fake);
    this.fake.provider.limits.max_script_bytes = (size_t)96 * 1024;
    this.source = (struct file_source){
        .bytes = (uint64_t)json_number_value(json_object_get(input, "bytes")),
        .read = read_zeros};
    support_run_task(send_in_task, &this);
    assert_int_equal(this.returned, 0);
    return json_pack("{s:f}", "commands", (double)this.fake.execs);
}

/* ---- round trips ---- */

static const struct shell dash = {"dash", {"dash"}};

/* The handle has the status of the moment when it was made. */
static json_t *attach_twice(void)
{
    struct fake_sandbox fake;
    struct fake_call call = {.fake = &fake};
    fake_init(&fake);
    call.arena = arena_new(FAKE_ARENA_MAX);
    call.request = (struct attach_request){.execution_id = "a1", .remote_dir = "/app"};
    fake_look(&call);
    assert_int_equal(call.returned, 0);
    int attach = fake.execs;
    bool has_status = call.result.status.state == STATUS_RUNNING;
    fake_look(&call);
    arena_free(call.arena);
    return json_pack("{s:f, s:f, s:f}", "attach", (double)attach, "firstStatus",
                     has_status ? 0.0 : 1.0, "nextStatus", (double)(fake.execs - attach));
}

static json_t *run_round_trips(const json_t *input, const json_t *expected)
{
    struct place place;
    struct deploy_scene scene;
    struct attach_result seen;
    struct status status;
    (void)expected;
    if (json_is_string(input))
        return attach_twice();
    place_init(&place, &dash);
    deploy_scene_init(&scene, &place);
    scene.takes_files = json_is_true(json_object_get(input, "writeFiles"));
    deploy_scene_pack(&scene, 1000);
    deploy_scene_input(&scene, "line\n");
    deploy_scene_run(&scene);
    expect_running(&scene);
    json_t *result = json_pack("{s:f, s:f}", "deploy", (double)scene.commands,
                               "writeFilesCalls", (double)scene.files);
    deploy_scene_look(&scene, "a1", &seen);
    vector_set_number(result, "status", scene.calls);
    vector_set_number(result, "readOutput", scene.calls); /* the same look has it */
    deploy_scene_cancel(&scene, "a1", &status);
    vector_set_number(result, "cancel", scene.calls);
    deploy_scene_end(&scene);
    deploy_scene_again(&scene, "a1", "a2");
    deploy_scene_run(&scene);
    expect_running(&scene);
    vector_set_number(result, "relaunch", scene.commands);
    deploy_scene_cancel(&scene, "a2", &status);
    deploy_scene_end(&scene);
    place_done(&place);
    return result;
}

static const struct vector_group groups[] = {
    {"deploy_validation", run_deploy_validation, 33},
    {"lock", run_lock, 6},
    {"upload", run_upload, 6},
    {"round_trips", run_round_trips, 3},
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
    return cmocka_run_group_tests(tests, deploy_scene_setup, NULL);
}
