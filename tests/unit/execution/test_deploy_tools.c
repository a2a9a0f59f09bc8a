/* Deploys where programs are missing: what a deploy needs is named before anything is
 * written, and nothing else is needed. */
#include "deploy_scene.h"
#include "launch_scene.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char HASH[] =
    "00000000000000000000000000000000000000000000000000000000000000aa";

/* What every deploy needs, and what only some do. */
static const char *const always[] = {"mkdir", "rmdir", "rm", "mv", "setsid",
                                     "sleep", "chmod", "tr", "cat"};
static const char *const with_upload[] = {"wc", "head", "tail"};
static const char *const with_archive[] = {"tar", "gzip"};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static bool is_among(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, list[i]) == 0)
            return true;
    }
    return false;
}

static void init_whole(struct deploy_scene *scene, struct place *place, bool takes_files)
{
    deploy_scene_init(scene, place);
    scene->takes_files = takes_files;
    deploy_scene_pack(scene, 1000);
    deploy_scene_input(scene, "line\n");
    deploy_scene_install(scene, HASH, "true");
}

/* Named by the first command, and nothing written. */
static void expect_named(struct deploy_scene *scene, const char *tool)
{
    deploy_scene_forget_tool(scene, tool);
    deploy_scene_run(scene);
    expect_refused(scene, ERROR_CAPABILITY_UNAVAILABLE, tool);
    if (strcmp(scene->err.capability, tool) != 0)
        fail_msg("%s: %s instead of %s", scene->place->shell->name, scene->err.capability,
                 tool);
    assert_int_equal(scene->calls, 1);
    assert_non_null(scene->err.remedy);
    assert_int_not_equal(access(scene->place->remote_dir, F_OK), 0);
    deploy_scene_restore_tool(scene, tool);
}

static void name_each(struct place *place)
{
    struct deploy_scene scene;
    init_whole(&scene, place, false);
    for (size_t i = 0; i < COUNT(always); i++)
        expect_named(&scene, always[i]);
    for (size_t i = 0; i < COUNT(with_upload); i++)
        expect_named(&scene, with_upload[i]);
    for (size_t i = 0; i < COUNT(with_archive); i++)
        expect_named(&scene, with_archive[i]);
    expect_named(&scene, "base64");
}

static void a_missing_tool_is_named_before_anything_is_written(void **state)
{
    (void)state;
    in_each_shell(name_each);
}

static void forget_all_but(struct deploy_scene *scene, bool uploads, bool unpacks,
                           bool decodes)
{
    for (size_t i = 0; deploy_scene_tools[i]; i++) {
        const char *tool = deploy_scene_tools[i];
        if (is_among(tool, always, COUNT(always)) ||
            (uploads && is_among(tool, with_upload, COUNT(with_upload))) ||
            (unpacks && is_among(tool, with_archive, COUNT(with_archive))) ||
            (decodes && strcmp(tool, "base64") == 0))
            continue;
        deploy_scene_forget_tool(scene, tool);
    }
}

static void end_execution(struct deploy_scene *scene, const char *execution_id)
{
    struct status status;
    deploy_scene_cancel(scene, execution_id, &status);
    assert_int_equal(status.state, STATUS_CANCELLED);
    deploy_scene_end(scene);
}

static void need_no_more(struct place *place)
{
    struct deploy_scene scene;
    init_whole(&scene, place, false);
    forget_all_but(&scene, true, true, true);
    deploy_scene_run(&scene);
    expect_running(&scene);
    expect_clean(&scene);
    end_execution(&scene, "a1");
    deploy_scene_forget_tool(&scene, "base64");
    scene.takes_files = true;
    scene.max_file_bytes = 4000;
    scene.request.execution_id = "a2";
    deploy_scene_run(&scene);
    expect_running(&scene);
    expect_clean(&scene);
    end_execution(&scene, "a2");
}

static void nothing_but_the_tools_that_are_asked_for_is_needed(void **state)
{
    (void)state;
    in_each_shell(need_no_more);
}

static void relaunch_with_few(struct place *place)
{
    struct deploy_scene scene;
    deploy_scene_init(&scene, place);
    deploy_scene_run(&scene);
    expect_running(&scene);
    end_execution(&scene, "a1");
    deploy_scene_again(&scene, "a1", "a2");
    forget_all_but(&scene, false, false, false);
    deploy_scene_run(&scene);
    expect_refused(&scene, ERROR_CAPABILITY_UNAVAILABLE, "\"cp\"");
    assert_int_equal(scene.calls, 1);
    deploy_scene_restore_tool(&scene, "cp");
    deploy_scene_run(&scene);
    expect_running(&scene);
    expect_clean(&scene);
    end_execution(&scene, "a2");
    deploy_scene_again(&scene, "a1", "a3");
    deploy_scene_input(&scene, "line\n");
    deploy_scene_run(&scene);
    expect_refused(&scene, ERROR_CAPABILITY_UNAVAILABLE, "\"wc\"");
    assert_int_equal(scene.calls, 1);
}

static void a_relaunch_needs_no_tool_of_an_upload(void **state)
{
    (void)state;
    in_each_shell(relaunch_with_few);
}

/* Limits are asked for at once too, as the original names them. */
static void limit_unseen(struct place *place)
{
    static const struct limits_entry limit = {"cpu_time_seconds", true, 5};
    struct deploy_scene scene;
    init_whole(&scene, place, true);
    scene.hides_proc = true;
    scene.request.limits = &limit;
    scene.request.limit_count = 1;
    deploy_scene_run(&scene);
    expect_refused(&scene, ERROR_CAPABILITY_UNAVAILABLE, "linux_proc");
    assert_string_equal(scene.err.capability, "linux_proc");
    assert_int_equal(scene.calls, 1);
    assert_int_not_equal(access(place->remote_dir, F_OK), 0);
    scene.hides_proc = false;
    deploy_scene_forget_tool(&scene, "setsid");
    deploy_scene_run(&scene);
    expect_refused(&scene, ERROR_CAPABILITY_UNAVAILABLE, "process_groups");
    assert_int_not_equal(access(place->remote_dir, F_OK), 0);
}

static void limits_that_cannot_be_held_are_refused_before_anything_is_written(void **state)
{
    (void)state;
    in_each_shell(limit_unseen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_missing_tool_is_named_before_anything_is_written,
                                  end_children),
        cmocka_unit_test_teardown(nothing_but_the_tools_that_are_asked_for_is_needed,
                                  end_children),
        cmocka_unit_test_teardown(a_relaunch_needs_no_tool_of_an_upload, end_children),
        cmocka_unit_test_teardown(
            limits_that_cannot_be_held_are_refused_before_anything_is_written,
            end_children),
    };
    return cmocka_run_group_tests(tests, deploy_scene_setup, NULL);
}
