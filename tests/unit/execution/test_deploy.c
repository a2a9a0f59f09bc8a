/* Whole deploys by each shell: what there is afterwards, and in how many round trips. */
#include "deploy_scene.h"
#include "launch_scene.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char HASH[] =
    "00000000000000000000000000000000000000000000000000000000000000aa";

static void expect_text(struct deploy_scene *scene, const struct output_piece *piece,
                        const char *wanted)
{
    if (piece->size != strlen(wanted) || memcmp(piece->data, wanted, piece->size) != 0)
        fail_msg("%s: \"%.*s\"", scene->place->shell->name, (int)piece->size, piece->data);
}

static off_t size_below(struct place *place, const char *name)
{
    char path[192];
    struct stat info;
    (void)snprintf(path, sizeof(path), "%s/%s", place->remote_dir, name);
    return stat(path, &info) == 0 ? info.st_size : -1;
}

/* By bytes that do not pack, so that what arrives is what was sent. */
static void expect_unpacked(struct place *place, size_t noise_bytes)
{
    assert_int_equal(size_below(place, "noise"), noise_bytes);
    assert_int_equal(size_below(place, "package.json"), 2);
    assert_int_equal(size_below(place, "run.sh"), strlen("#!/bin/sh\nexec sleep 600\n"));
}

static void end_execution(struct deploy_scene *scene, const char *execution_id)
{
    struct status status;
    deploy_scene_cancel(scene, execution_id, &status);
    assert_int_equal(scene->calls, 1);
    if (status.state != STATUS_CANCELLED)
        fail_msg("%s: %s", scene->place->shell->name, status_state_name(status.state));
    deploy_scene_end(scene);
}

static void deploy_small(struct place *place, bool takes_files)
{
    struct deploy_scene scene;
    struct attach_result seen;
    deploy_scene_init(&scene, place);
    scene.takes_files = takes_files;
    deploy_scene_pack(&scene, 3000);
    deploy_scene_input(&scene, "line\n");
    deploy_scene_install(&scene, HASH, "echo ran >>installs");
    deploy_scene_program(&scene, "cat; echo err >&2; exec sleep 600");
    deploy_scene_run(&scene);
    expect_running(&scene);
    assert_in_range(scene.calls, 1, takes_files ? 4 : 6);
    assert_int_equal(scene.files, takes_files);
    assert_string_equal(scene.result.remote_dir, place->remote_dir);
    expect_clean(&scene);
    expect_unpacked(place, 3000);
    assert_int_equal(size_below(place, "installs"), 4);
    expect_file(place, "status", "running|a1\n");
    expect_file(place, "stdin", "line\n");
    await_file(place, "stdout", "line\n");
    await_file(place, "stderr", "err\n");
    deploy_scene_look(&scene, "a1", &seen);
    assert_int_equal(scene.calls, 1);
    assert_int_equal(seen.status.state, STATUS_RUNNING);
    expect_text(&scene, &seen.stdout_piece, "line\n");
    expect_text(&scene, &seen.stderr_piece, "err\n");
    end_execution(&scene, "a1");
    expect_clean(&scene);
}

static void deploy_with_files(struct place *place)
{
    deploy_small(place, true);
}

static void a_small_deploy_takes_four_round_trips_at_most(void **state)
{
    (void)state;
    in_each_shell(deploy_with_files);
}

static void deploy_with_commands(struct place *place)
{
    deploy_small(place, false);
}

static void a_small_deploy_without_write_file_takes_six_at_most(void **state)
{
    (void)state;
    in_each_shell(deploy_with_commands);
}

/* As small as the programs let it be, so that the upload comes in many pieces. */
static void deploy_in_pieces(struct place *place)
{
    struct deploy_scene scene;
    deploy_scene_init(&scene, place);
    scene.takes_files = false;
    scene.max_script_bytes = 20 * 1024;
    deploy_scene_pack(&scene, 50 * 1000);
    deploy_scene_run(&scene);
    expect_running(&scene);
    assert_in_range(scene.commands, 6, 10);
    assert_in_range(scene.longest_script, 19 * 1024, 20 * 1024);
    expect_unpacked(place, 50 * 1000);
    expect_clean(&scene);
    end_execution(&scene, "a1");
}

static void an_upload_is_cut_to_what_the_provider_takes(void **state)
{
    (void)state;
    in_each_shell(deploy_in_pieces);
}

static void deploy_in_parts(struct place *place)
{
    struct deploy_scene scene;
    deploy_scene_init(&scene, place);
    scene.max_file_bytes = 7001;
    deploy_scene_pack(&scene, 30 * 1000);
    deploy_scene_input(&scene, "");
    deploy_scene_program(&scene, "wc -c; exec sleep 600");
    deploy_scene_run(&scene);
    expect_running(&scene);
    assert_in_range(scene.files, 5, 8);
    expect_unpacked(place, 30 * 1000);
    expect_clean(&scene);
    expect_file(place, "stdin", "");
    end_execution(&scene, "a1");
}

static void an_upload_of_several_files_is_put_together(void **state)
{
    (void)state;
    in_each_shell(deploy_in_parts);
}

static void relaunch(struct place *place)
{
    struct deploy_scene scene;
    struct attach_result seen;
    deploy_scene_init(&scene, place);
    deploy_scene_input(&scene, "one\n");
    deploy_scene_program(&scene, "cat; echo in $(pwd); exec sleep 600");
    deploy_scene_run(&scene);
    expect_running(&scene);
    end_execution(&scene, "a1");
    for (int takes_files = 0; takes_files < 2; takes_files++) {
        const char *id = takes_files ? "a3" : "a2";
        scene.takes_files = takes_files;
        deploy_scene_again(&scene, "a1", id);
        scene.request.input = (struct deploy_input){0};
        if (takes_files)
            deploy_scene_input(&scene, "three\n");
        deploy_scene_run(&scene);
        expect_running(&scene);
        assert_in_range(scene.calls, 1, takes_files ? 3 : 2);
        expect_clean(&scene);
        const char *wanted = arena_printf(place->arena, "%sin %s\n",
                                          takes_files ? "three\n" : "", place->remote_dir);
        do
            deploy_scene_look(&scene, id, &seen);
        while (seen.stdout_piece.size < strlen(wanted));
        expect_text(&scene, &seen.stdout_piece, wanted);
        assert_int_equal(scene.calls, 1);
        end_execution(&scene, id);
    }
    deploy_scene_again(&scene, "a9", "a4");
    deploy_scene_run(&scene);
    expect_refused(&scene, ERROR_INVALID_ARGUMENT, "has no recorded launch of ours");
    assert_int_equal(scene.calls, 1);
    expect_clean(&scene);
}

static void a_recorded_launch_runs_again_under_another_id(void **state)
{
    (void)state;
    in_each_shell(relaunch);
}

static void deploy_unseen(struct place *place)
{
    struct deploy_scene scene;
    struct attach_result seen;
    deploy_scene_init(&scene, place);
    scene.hides_proc = true;
    scene.takes_files = false;
    deploy_scene_pack(&scene, 1000);
    deploy_scene_install(&scene, HASH, "true");
    deploy_scene_run(&scene);
    expect_running(&scene);
    expect_clean(&scene);
    await_file(place, "stdout", "out\n");
    deploy_scene_look(&scene, "a1", &seen);
    assert_int_equal(seen.status.state, STATUS_RUNNING);
    scene.hides_proc = false;
    end_execution(&scene, "a1");
}

static void without_proc_a_deploy_works_all_the_same(void **state)
{
    (void)state;
    in_each_shell(deploy_unseen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_small_deploy_takes_four_round_trips_at_most,
                                  end_children),
        cmocka_unit_test_teardown(a_small_deploy_without_write_file_takes_six_at_most,
                                  end_children),
        cmocka_unit_test_teardown(an_upload_is_cut_to_what_the_provider_takes,
                                  end_children),
        cmocka_unit_test_teardown(an_upload_of_several_files_is_put_together, end_children),
        cmocka_unit_test_teardown(a_recorded_launch_runs_again_under_another_id,
                                  end_children),
        cmocka_unit_test_teardown(without_proc_a_deploy_works_all_the_same, end_children),
    };
    return cmocka_run_group_tests(tests, deploy_scene_setup, NULL);
}
