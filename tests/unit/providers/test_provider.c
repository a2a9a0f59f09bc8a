/* The dispatcher, with providers that only note that they were called. */
#include "support.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "providers/profile.h"
#include "providers/provider.h"
#include "providers/registry.h"

struct noted {
    struct sandbox sandbox;
    unsigned execs;
    unsigned writes;
    unsigned closes;
    unsigned wakes;
};

static int noted_open(const struct descriptor *descriptor, const struct profile *profile,
                      struct arena *arena, struct sandbox **ret_sandbox, struct error *err)
{
    if (strcmp(descriptor->sandbox_id, "bad") == 0)
        return error_set_field(err, "sandbox.id", "no such id");
    struct noted *noted = arena_calloc(arena, 1, sizeof(*noted));
    if (!noted)
        return error_set_memory(err, "a handle");
    noted->sandbox.traits = profile->provider->traits;
    *ret_sandbox = &noted->sandbox;
    return 0;
}

static void noted_close(struct sandbox *sandbox)
{
    ((struct noted *)sandbox)->closes++;
}

static int noted_exec(struct sandbox *sandbox, const struct exec_request *request,
                      struct arena *arena, struct exec_result *ret_result,
                      struct error *err)
{
    (void)arena;
    ((struct noted *)sandbox)->execs++;
    if (strcmp(request->script, "fail") == 0)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE, "it is away");
    *ret_result = (struct exec_result){.end = EXEC_EXITED, .exit_code = 3};
    return 0;
}

static int noted_write_file(struct sandbox *sandbox, const char *path, unsigned mode,
                            const struct file_source *source, struct error *err)
{
    (void)path;
    (void)mode;
    (void)source;
    (void)err;
    ((struct noted *)sandbox)->writes++;
    return 0;
}

static int noted_wake(struct sandbox *sandbox, struct error *err)
{
    (void)err;
    ((struct noted *)sandbox)->wakes++;
    return 0;
}

static int noted_check(struct sandbox *sandbox, const char *path, struct error *err)
{
    (void)sandbox;
    return error_set_field(err, "remote_dir", "%s lies outside", path);
}

static const char *const noted_keys[] = {"region", "zone", NULL};

static const struct provider full = {
    .name = "full",
    .traits = TRAIT_BACKGROUND,
    .limits = {.max_script_bytes = 10, .max_file_bytes = 1024},
    .descriptor_keys = noted_keys,
    .open = noted_open,
    .close = noted_close,
    .exec = noted_exec,
    .write_file = noted_write_file,
    .wake = noted_wake,
    .check_directory = noted_check};
static const struct provider bare = {
    .name = "bare", .open = noted_open, .close = noted_close};

static const struct profile full_profile = {.name = "mine", .provider = &full};
static const struct profile bare_profile = {.name = "its", .provider = &bare};

static struct sandbox *open_one(const struct profile *profile, struct arena *arena)
{
    const struct descriptor descriptor = {.provider = "mine", .sandbox_id = "s-1"};
    struct sandbox *sandbox = NULL;
    assert_int_equal(sandbox_open(&descriptor, profile, arena, &sandbox, NULL), 0);
    return sandbox;
}

static void a_handle_knows_where_it_came_from(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    struct sandbox *sandbox = open_one(&full_profile, arena);
    assert_ptr_equal(sandbox->provider, &full);
    assert_ptr_equal(sandbox->profile, &full_profile);
    assert_string_equal(sandbox->provider_name, "mine");
    assert_string_equal(sandbox->id, "s-1");
    assert_int_equal(sandbox->exec_count, 0);
    sandbox_close(sandbox);
    assert_int_equal(((struct noted *)sandbox)->closes, 1);
    sandbox_close(NULL);
}

static void a_provider_that_refuses_leaves_the_handle_unset(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    const struct descriptor descriptor = {.provider = "mine", .sandbox_id = "bad"};
    struct sandbox *sandbox = NULL;
    struct error err = {0};
    assert_int_equal(sandbox_open(&descriptor, &full_profile, arena, &sandbox, &err), -1);
    assert_null(sandbox);
    assert_string_equal(err.field, "sandbox.id");
}

static void a_descriptor_key_that_the_provider_does_not_know_is_refused(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    struct descriptor_key keys[] = {{"region", "eu"}, {"host", "evil.example"}};
    struct descriptor descriptor = {
        .provider = "mine", .sandbox_id = "s-1", .keys = keys, .key_count = 2};
    struct sandbox *sandbox = NULL;
    struct error err = {0};
    assert_int_equal(sandbox_open(&descriptor, &full_profile, arena, &sandbox, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_ARGUMENT);
    assert_string_equal(err.field, "sandbox.host");
    assert_null(sandbox);
    keys[1].name = "zone";
    assert_int_equal(sandbox_open(&descriptor, &full_profile, arena, &sandbox, &err), 0);
    assert_int_equal(sandbox_open(&descriptor, &bare_profile, arena, &sandbox, &err), -1);
    assert_string_equal(err.field, "sandbox.region");
}

struct call {
    struct sandbox *sandbox;
    const char *script;
    struct exec_result result;
    struct error err;
    int returned;
};

static void exec_in_task(void *arg)
{
    struct call *call = arg;
    const struct exec_request request = {.script = call->script};
    call->returned = sandbox_exec(call->sandbox, &request, NULL, &call->result, &call->err);
}

static void without_exec_the_capability_error_is_word_for_word(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    struct call call = {.sandbox = open_one(&bare_profile, arena), .script = "x"};
    support_run_task(exec_in_task, &call);
    assert_int_equal(call.returned, -1);
    assert_int_equal(call.err.code, ERROR_CAPABILITY_UNAVAILABLE);
    assert_string_equal(
        call.err.message,
        "Sandbox provider \"bare\" does not support executeCommand, which is "
        "required for worker deploys.");
    assert_string_equal(call.err.capability, "execute_command");
    assert_non_null(call.err.remedy);
    assert_false(call.err.retryable);
    assert_int_equal(call.sandbox->exec_count, 0);
}

static void cua_fleet_is_registered_for_that_error(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    const struct profile profile = {.name = "fleet",
                                    .provider = registry_find("cua-fleet")};
    assert_non_null(profile.provider);
    struct call call = {.sandbox = open_one(&profile, arena), .script = "x"};
    support_run_task(exec_in_task, &call);
    assert_string_equal(call.err.message,
                        "Sandbox provider \"cua-fleet\" does not support executeCommand, "
                        "which is required for worker deploys.");
}

static void every_missing_member_is_a_capability_error_of_its_own(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    struct sandbox *sandbox = open_one(&bare_profile, arena);
    for (int i = 0; i < CAPABILITY_COUNT; i++) {
        enum capability capability = (enum capability)i;
        struct error err = {0};
        assert_false(sandbox_can(sandbox, capability));
        assert_false(provider_can(&bare, capability));
        assert_int_equal(sandbox_require(sandbox, capability, &err), -1);
        assert_int_equal(err.code, ERROR_CAPABILITY_UNAVAILABLE);
        assert_string_equal(err.capability, capability_name(capability));
        assert_non_null(strstr(err.message, "\"bare\" does not support "));
        assert_non_null(err.remedy);
    }
    struct error err = {0};
    (void)sandbox_require(sandbox, CAPABILITY_WRITE_FILE, &err);
    assert_string_equal(err.message,
                        "Sandbox provider \"bare\" does not support writeFiles.");
}

static void background_processes_need_the_trait_beside_exec(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    struct sandbox *sandbox = open_one(&full_profile, arena);
    assert_true(sandbox_can(sandbox, CAPABILITY_BACKGROUND_PROCESSES));
    assert_true(provider_can(&full, CAPABILITY_BACKGROUND_PROCESSES));
    sandbox->traits = 0; /* as an open that narrows them */
    assert_false(sandbox_can(sandbox, CAPABILITY_BACKGROUND_PROCESSES));
    assert_true(sandbox_can(sandbox, CAPABILITY_EXECUTE_COMMAND));
}

static void commands_are_counted_where_they_are_sent(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    struct call call = {.sandbox = open_one(&full_profile, arena), .script = "ok"};
    const struct noted *noted = (const struct noted *)call.sandbox;
    support_run_task(exec_in_task, &call);
    assert_int_equal(call.returned, 0);
    assert_int_equal(call.result.exit_code, 3);
    call.script = "fail"; /* it may have run */
    support_run_task(exec_in_task, &call);
    assert_int_equal(call.returned, -1);
    assert_int_equal(call.sandbox->exec_count, 2);
    call.script = "longer than ten bytes";
    support_run_task(exec_in_task, &call);
    assert_int_equal(call.returned, -1);
    assert_int_equal(call.sandbox->exec_count, 2);
    assert_int_equal(noted->execs, 2);
}

static void write_and_wake(void *arg)
{
    struct call *call = arg;
    const struct span bytes = {"x", 1};
    const struct file_source source = file_source_of(&bytes);
    call->returned = sandbox_write_file(call->sandbox, "x", 0644, &source, &call->err) +
                     sandbox_wake(call->sandbox, &call->err);
}

static void other_members_are_passed_through(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    struct call call = {.sandbox = open_one(&full_profile, arena)};
    const struct noted *noted = (const struct noted *)call.sandbox;
    support_run_task(write_and_wake, &call);
    assert_int_equal(call.returned, 0);
    assert_int_equal(noted->writes, 1);
    assert_int_equal(noted->wakes, 1);
    assert_int_equal(sandbox_check_directory(call.sandbox, "/etc", &call.err), -1);
    assert_string_equal(call.err.message, "/etc lies outside");
    assert_int_equal(sandbox_check_directory(open_one(&bare_profile, arena), "/etc", NULL),
                     0);
}

static void every_registered_provider_has_what_is_mandatory(void **state)
{
    (void)state;
    size_t count = 0;
    const struct provider *const *all = registry_all(&count);
    assert_true(count >= 2);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(all[i]->open);
        assert_non_null(all[i]->close);
        assert_non_null(all[i]->summary);
        assert_ptr_equal(registry_find(all[i]->name), all[i]);
        if (all[i]->exec)
            assert_true(all[i]->limits.max_script_bytes > 0);
    }
    assert_null(registry_find("no-such-provider"));
}

static void states_and_capabilities_have_names(void **state)
{
    (void)state;
    assert_string_equal(capability_name(CAPABILITY_BACKGROUND_PROCESSES),
                        "background_processes");
    assert_string_equal(sandbox_state_name(SANDBOX_RUNNING), "running");
    assert_string_equal(sandbox_state_name(SANDBOX_FAILED), "error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_knows_where_it_came_from),
        cmocka_unit_test(a_provider_that_refuses_leaves_the_handle_unset),
        cmocka_unit_test(a_descriptor_key_that_the_provider_does_not_know_is_refused),
        cmocka_unit_test(without_exec_the_capability_error_is_word_for_word),
        cmocka_unit_test(cua_fleet_is_registered_for_that_error),
        cmocka_unit_test(every_missing_member_is_a_capability_error_of_its_own),
        cmocka_unit_test(background_processes_need_the_trait_beside_exec),
        cmocka_unit_test(commands_are_counted_where_they_are_sent),
        cmocka_unit_test(other_members_are_passed_through),
        cmocka_unit_test(every_registered_provider_has_what_is_mandatory),
        cmocka_unit_test(states_and_capabilities_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
