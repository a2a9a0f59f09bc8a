/* Deploys into a small file system that is full, read-only or somebody else's, by each
 * shell and at each step: an error at once that says so, and nothing in the way of the
 * retry. */
#include "deploy_scene.h"
#include "launch_scene.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };

/* ---- the file system ---- */

static bool can_mount;

static int try_mount(void **state)
{
    char path[] = "/tmp/attachd-mount-XXXXXX";
    if (!mkdtemp(path))
        return -1;
    can_mount = mount("none", path, "tmpfs", 0, "size=64k") == 0;
    if (can_mount && umount(path) != 0)
        return -1;
    return rmdir(path) == 0 ? deploy_scene_setup(state) : -1;
}

static char mounted[128]; /* "": nothing is */

static void mount_small(struct place *place)
{
    assert_int_equal(mkdir(place->remote_dir, 0755), 0);
    assert_int_equal(
        mount("none", place->remote_dir, "tmpfs", 0, "size=1m,nr_inodes=400,mode=0755"), 0);
    (void)snprintf(mounted, sizeof(mounted), "%s", place->remote_dir);
}

static void unmount(void)
{
    if (mounted[0])
        (void)umount2(mounted, MNT_DETACH);
    mounted[0] = '\0';
}

static int end_test(void **state)
{
    unmount();
    return end_children(state);
}

static const char *ballast_of(const struct deploy_scene *scene, char path[128])
{
    (void)snprintf(path, 128, "%s/ballast", scene->place->remote_dir);
    return path;
}

/* Takes all room that there is. */
static void fill(const struct deploy_scene *scene)
{
    static const char page[4096];
    char path[128];
    int fd = open(ballast_of(scene, path), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (fd >= 0 && write(fd, page, sizeof(page)) > 0)
        continue;
    (void)close(fd);
}

static void make_room(const struct deploy_scene *scene)
{
    char path[128];
    (void)unlink(ballast_of(scene, path));
}

static void set_read_only(const struct deploy_scene *scene, bool on)
{
    (void)mount(NULL, scene->place->remote_dir, NULL, MS_REMOUNT | (on ? MS_RDONLY : 0),
                NULL);
}

/* ---- the steps ---- */

struct step {
    const char *name;
    int call;         /* it is full before this one; 0: before none */
    const char *tool; /* or this one fills it, where its words match `when` */
    const char *when;
    const char *install; /* or this command does */
    bool by_commands;
    uint64_t max_file_bytes; /* 0: the usual */
    const char *phase;
    const char *what; /* that was done, as the original words it; NULL: anything */
};

static const struct step steps[] = {
    {.name = "the claim", .call = 1, .phase = "upload"},
    {.name = "a file", .call = 2, .phase = "upload"},
    {.name = "a piece", .call = 2, .by_commands = true, .phase = "upload"},
    {.name = "the second of several files",
     .call = 3,
     .max_file_bytes = 16000,
     .phase = "upload"},
    {.name = "the lock of the execution",
     .call = 3,
     .phase = "upload",
     .what = "lock the execution"},
    {.name = "the launch program",
     .tool = "head",
     .when = "*",
     .phase = "upload",
     .what = "write launch.sh"},
    {.name = "the lock of the artifact",
     .tool = "chmod",
     .when = "700*",
     .phase = "upload",
     .what = "acquire worker artifact lock"},
    {.name = "the extraction",
     .tool = "tar",
     .when = "*",
     .phase = "upload",
     .what = "extract worker artifact"},
    {.name = "the installation",
     .install = "cat /dev/zero >ballast",
     .phase = "install",
     .what = "install worker dependencies"},
    {.name = "the mark of the installation",
     .install = "cat /dev/zero >ballast; sleep 0.3; cat /dev/zero >>ballast; true",
     .phase = "install",
     .what = "install worker dependencies"},
    {.name = "the launch", .tool = "setsid", .when = "*", .phase = "launch"},
};

static const struct step *current;

static void before_call(struct deploy_scene *scene, enum deploy_call call)
{
    (void)call;
    if (scene->commands + scene->files == current->call)
        fill(scene);
}

static void arm(struct deploy_scene *scene, const struct step *step)
{
    char command[256];
    char path[128];
    current = step;
    scene->takes_files = !step->by_commands;
    scene->before = step->call ? before_call : NULL;
    /* A hash of its own, so that nothing is installed yet. */
    deploy_scene_install(scene, step->install ? step->name : NULL,
                         step->install ? step->install : "");
    (void)snprintf(command, sizeof(command),
                   "case \"$*\" in %s) cat /dev/zero >%s 2>/dev/null ;; esac", step->when,
                   ballast_of(scene, path));
    if (step->tool)
        deploy_scene_before_tool(scene, step->tool, command);
}

static void disarm(struct deploy_scene *scene, const struct step *step)
{
    scene->before = NULL;
    if (step->tool) {
        deploy_scene_forget_tool(scene, step->tool);
        deploy_scene_restore_tool(scene, step->tool);
    }
    scene->request.install_command = "true";
    make_room(scene);
}

static void fail_step(struct deploy_scene *scene, const struct step *step, int line)
{
    arm(scene, step);
    deploy_scene_run(scene);
    if (scene->returned == 0)
        fail_msg("line %d, %s: %s: nothing failed", line, scene->place->shell->name,
                 step->name);
    if (!strstr(scene->err.message, step->what ? step->what : "") ||
        strcmp(scene->err.phase, step->phase) != 0)
        fail_msg("%s: %s: phase %s, %s", scene->place->shell->name, step->name,
                 scene->err.phase, scene->err.message);
    expect_refused_at(line, scene, ERROR_DEPLOY_FAILED, "No space left");
    expect_clean_at(line, scene);
    disarm(scene, step);
}

static void fill_at_each_step(struct place *place)
{
    struct deploy_scene scene;
    mount_small(place);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        char id[16];
        deploy_scene_init(&scene, place);
        (void)snprintf(id, sizeof(id), "e%zu", i);
        scene.request.execution_id = id;
        scene.max_file_bytes = steps[i].max_file_bytes;
        /* Larger than the one before, whose place it takes. */
        deploy_scene_pack(&scene, (i + 1) * 16 * 1000);
        deploy_scene_input(&scene, "line\n");
        fail_step(&scene, &steps[i], __LINE__);
        /* Whose retry it is does not matter. */
        scene.request.job_id = i % 2 ? "job-1" : "job-2";
        deploy_scene_run(&scene);
        expect_running(&scene);
        expect_clean(&scene);
        (void)end_children(NULL);
    }
    unmount();
}

static void a_full_disk_is_told_with_its_phase_and_the_retry_works(void **state)
{
    (void)state;
    if (!can_mount)
        skip();
    in_each_shell(fill_at_each_step);
}

static void redeliver(struct place *place)
{
    struct deploy_scene scene;
    mount_small(place);
    deploy_scene_init(&scene, place);
    deploy_scene_pack(&scene, 1000);
    deploy_scene_run(&scene);
    expect_running(&scene);
    fill(&scene);
    deploy_scene_run(&scene);
    expect_running(&scene);
    assert_int_equal(scene.calls, 1);
    scene.request.job_id = "job-2";
    deploy_scene_run(&scene);
    expect_refused(&scene, ERROR_DEPLOY_FAILED, "No space left");
    expect_clean(&scene);
    expect_file(place, "status", "running|a1\n");
    (void)end_children(NULL);
    unmount();
}

static void a_full_disk_does_not_hide_what_this_job_has_launched(void **state)
{
    (void)state;
    if (!can_mount)
        skip();
    in_each_shell(redeliver);
}

/* ---- where nothing can be written for another reason ---- */

static void before_apply(struct deploy_scene *scene, enum deploy_call call)
{
    (void)call;
    if (scene->commands + scene->files == current->call)
        set_read_only(scene, true);
}

static void be_read_only(struct place *place)
{
    static const struct step calls[] = {{.name = "the claim", .call = 1},
                                        {.name = "a piece", .call = 2, .by_commands = true},
                                        {.name = "a file", .call = 2},
                                        {.name = "the locks", .call = 3}};
    struct deploy_scene scene;
    mount_small(place);
    deploy_scene_init(&scene, place);
    deploy_scene_pack(&scene, 1000);
    scene.before = before_apply;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        current = &calls[i];
        scene.takes_files = !current->by_commands;
        deploy_scene_run(&scene);
        set_read_only(&scene, false);
        expect_refused(&scene, ERROR_DEPLOY_FAILED, "Read-only file system");
        assert_string_equal(scene.err.phase, "upload");
        /* Each is sent once, and what failed is given up: nobody waits for a lock. */
        assert_in_range(scene.calls, current->call, current->call + 1);
        scene.request.job_id = i % 2 ? "job-1" : "job-2";
        scene.request.execution_id = i % 2 ? "a3" : "a2";
    }
    scene.before = NULL;
    deploy_scene_run(&scene);
    expect_running(&scene);
    (void)end_children(NULL);
    unmount();
}

static void a_read_only_disk_is_no_contention(void **state)
{
    (void)state;
    if (!can_mount)
        skip();
    in_each_shell(be_read_only);
}

/* The directory of executions can be written, the one of the locks cannot. */
static void be_forbidden(struct place *place)
{
    struct deploy_scene scene;
    char path[192];
    deploy_scene_init(&scene, place);
    scene.is_nobody = true;
    scene.takes_files = false;
    deploy_scene_pack(&scene, 1000);
    assert_int_equal(chmod(place->root, 0755), 0);
    assert_int_equal(mkdir(place->remote_dir, 0755), 0);
    deploy_scene_run(&scene);
    expect_refused(&scene, ERROR_DEPLOY_FAILED, "Permission denied");
    assert_string_equal(scene.err.phase, "upload");
    assert_int_equal(scene.calls, 1);
    expect_clean(&scene);
    (void)snprintf(path, sizeof(path), "%s/.mastra", place->remote_dir);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    deploy_scene_run(&scene);
    expect_refused(&scene, ERROR_DEPLOY_FAILED, "Permission denied");
    if (!strstr(scene.err.message, "acquire worker artifact lock"))
        fail_msg("%s: %s", place->shell->name, scene.err.message);
    assert_string_equal(scene.err.phase, "upload");
    assert_int_equal(scene.calls, 3);
    expect_clean(&scene);
    assert_int_equal(chown(place->remote_dir, NOBODY, NOBODY), 0);
    deploy_scene_run(&scene);
    expect_running(&scene);
    (void)end_children(NULL);
}

static void a_lock_that_is_forbidden_is_no_contention(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    in_each_shell(be_forbidden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_full_disk_is_told_with_its_phase_and_the_retry_works,
                                  end_test),
        cmocka_unit_test_teardown(a_full_disk_does_not_hide_what_this_job_has_launched,
                                  end_test),
        cmocka_unit_test_teardown(a_read_only_disk_is_no_contention, end_test),
        cmocka_unit_test_teardown(a_lock_that_is_forbidden_is_no_contention, end_test),
    };
    return cmocka_run_group_tests(tests, try_mount, NULL);
}
