/* Artifacts from a directory on the worker's host. */
#include "artifact_scene.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/loop.h"
#include "runtime/task.h"

static char place[64];

static int make_place(void **state)
{
    (void)state;
    (void)snprintf(place, sizeof(place), "/tmp/attachd-pack-XXXXXX");
    return mkdtemp(place) ? 0 : -1;
}

static int try_run(const char *command)
{
    char *line = NULL;
    assert_true(asprintf(&line, "P=%s; cd $P || exit; %s", place, command) > 0);
    int status = system(line);
    free(line);
    return status;
}

static void run(const char *command)
{
    if (try_run(command) != 0)
        fail_msg("failed: %s", command);
}

static int remove_place(void **state)
{
    (void)state;
    run("cd /; rm -rf $P");
    return 0;
}

static char root[128];

static int get_dir(struct artifact_scene *scene, struct arena *arena,
                   struct artifact **ret_artifact, struct error *err)
{
    return artifact_from_dir(root, scene->arg, &scene->limits, scene->install_command,
                             arena, ret_artifact, err);
}

static void take_dir(struct artifact_scene *scene, char *name)
{
    (void)snprintf(root, sizeof(root), "%s/root", place);
    scene->get = get_dir;
    scene->arg = name;
    scene_run(scene);
}

static void write_kept(const struct artifact_scene *scene, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", place, name);
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(scene->kept, 1, scene->kept_bytes, file), scene->kept_bytes);
    (void)fclose(file);
}

static void make_app(void)
{
    run("rm -rf root && mkdir -p root/app/build/sub/node_modules/x root/app/build/empty && "
        "cd root/app/build && printf '{}' > package.json && printf y > yarn.lock && "
        "echo text > sub/file && ln -s ../sub/file sub/link && "
        "echo left out > sub/node_modules/x/y && mkdir node_modules && touch "
        "node_modules/z && "
        "N=$(printf 'n%.0s' $(seq 200)) && mkdir $N && echo long > $N/$N && "
        "chmod 755 sub/file && chmod 2755 empty && touch -d @1000000000 sub/file");
}

static void a_directory_is_packed_as_tar_would(void **state)
{
    (void)state;
    struct artifact_scene scene = {.install_command = "true"};
    make_app();
    take_dir(&scene, "app/build");
    assert_taken(&scene);
    assert_int_equal(strlen(scene.install_hash), 64);
    write_kept(&scene, "made.tgz");
    /* GNU's and busybox's tar both unpack the same tree, which is that of tar itself. */
    run("for t in 'tar' 'busybox tar'; do rm -rf out && mkdir out && "
        "$t -xzf made.tgz -C out && diff -r --exclude=node_modules root/app/build out && "
        "test ! -e out/node_modules && test ! -e out/sub/node_modules && test -d out/empty "
        "&& "
        "test $(readlink out/sub/link) = ../sub/file && test -x out/sub/file && "
        "test $(stat -c %Y out/sub/file) = 1000000000 || exit 1; done");
    run("tar -czf theirs.tgz --exclude=node_modules -C root/app/build . && "
        "tar -tzf theirs.tgz | sort > theirs && tar -tzf made.tgz > ours && "
        "sort ours | cmp - theirs && head -1 ours | grep -qx ./ && "
        "tar --numeric-owner -tvzf made.tgz | awk '$2 != \"0/0\" {exit 1}'");
    scene_done(&scene);
}

static void the_same_tree_gives_the_same_bytes(void **state)
{
    (void)state;
    struct artifact_scene first = {0};
    struct artifact_scene second = {0};
    make_app();
    take_dir(&first, "app/build");
    /* The same names made in another order. */
    run("cp -a root/app/build root/app/other && cd root/app/other && mv package.json p && "
        "mv p package.json && touch -r ../build .");
    take_dir(&second, "app/other");
    assert_taken(&first);
    assert_taken(&second);
    assert_int_equal(first.kept_bytes, second.kept_bytes);
    assert_memory_equal(first.kept, second.kept, first.kept_bytes);
    scene_done(&first);
    scene_done(&second);
}

static void assert_refused_dir(const struct artifact_scene *scene, const char *said)
{
    if (scene->returned == 0)
        fail_msg("taken, although: %s", said);
    assert_true(scene->untouched);
    assert_int_equal(scene->err.code, ERROR_INVALID_ARGUMENT);
    assert_string_equal(scene->err.field, "artifact.dir");
    if (!strstr(scene->err.message, said))
        fail_msg("\"%s\" does not say \"%s\"", scene->err.message, said);
}

static void a_name_stays_below_the_root(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *said;
    } cases[] = {
        {"", "must be one or more plain names"},
        {"/", "must be one or more plain names"},
        {"/etc", "must be one or more plain names"},
        {".", "must be one or more plain names"},
        {"..", "must be one or more plain names"},
        {"app/..", "must be one or more plain names"},
        {"app/../../outside", "must be one or more plain names"},
        {"app//build", "must be one or more plain names"},
        {"app/build/", "must be one or more plain names"},
        {"out", "leads out of the worker's artifact_root"},
        {"absolute", "leads out of the worker's artifact_root"},
        {"app/out/sub", "leads out of the worker's artifact_root"},
        {"circle", "leads out of the worker's artifact_root"},
        {"missing", "names no directory"},
        {"app/build/package.json", "names no directory"},
    };
    make_app();
    run("rm -rf outside && mkdir -p outside/sub && ln -s ../outside root/out && "
        "ln -s /etc root/absolute && ln -s ../../outside root/app/out && "
        "ln -s circle root/circle && ln -s app/build root/inside");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct artifact_scene scene = {0};
        char name[64];
        (void)snprintf(name, sizeof(name), "%s", cases[i].name);
        take_dir(&scene, name);
        assert_refused_dir(&scene, cases[i].said);
    }
    struct artifact_scene scene = {0};
    take_dir(&scene, "inside");
    assert_taken(&scene);
    scene_done(&scene);
}

static int get_without_root(struct artifact_scene *scene, struct arena *arena,
                            struct artifact **ret_artifact, struct error *err)
{
    return artifact_from_dir(scene->arg, "app", &scene->limits, scene->install_command,
                             arena, ret_artifact, err);
}

static void without_a_root_there_are_no_directories(void **state)
{
    (void)state;
    char empty[] = "";
    for (int i = 0; i < 2; i++) {
        struct artifact_scene scene = {.get = get_without_root, .arg = i ? empty : NULL};
        scene_run(&scene);
        assert_refused_dir(&scene, "the worker has no artifact_root");
        assert_non_null(strstr(scene.err.remedy, "artifact_root"));
    }
}

static void what_is_wrong_in_the_directory_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *make;
        const char *said;
    } cases[] = {
        {"ln -s /etc root/app/l", "entry \"./l\" is a link to an absolute path"},
        {"mkfifo root/app/f", "entry \"./f\" is a device, a FIFO or a socket"},
        {"touch root/app/s && chmod 4755 root/app/s", "entry \"./s\" has its set-user-id"},
        {"mkdir root/app/.mastra", "entry \"./.mastra/\" has a name that the deployment"},
        {"mkdir -p root/app/$(printf 'd/%.0s' $(seq 70))", "lies too deep"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct artifact_scene scene = {0};
        run("rm -rf root && mkdir -p root/app");
        run(cases[i].make);
        take_dir(&scene, "app");
        assert_refused(&scene, cases[i].said);
    }
}

static void the_limits_hold_while_it_is_packed(void **state)
{
    (void)state;
    run("rm -rf root && mkdir -p root/app && head -c 300000 /dev/urandom > root/app/x");
    struct artifact_scene packed = {.limits = {.max_bytes = 200000}};
    take_dir(&packed, "app");
    assert_refused_dir(&packed, "larger than 200000 bytes (artifact_max_bytes)");
    struct artifact_scene unpacked = {.limits = {.unpacked_max_bytes = 200000}};
    take_dir(&unpacked, "app");
    assert_refused_dir(&unpacked, "(artifact_unpacked_max_bytes)");
}

static void assert_upload_failed(const struct artifact_scene *scene, bool retryable,
                                 const char *said)
{
    assert_int_equal(scene->returned, -1);
    assert_true(scene->untouched);
    assert_int_equal(scene->err.code, ERROR_DEPLOY_FAILED);
    assert_string_equal(scene->err.phase, "upload");
    assert_int_equal(scene->err.retryable, retryable);
    if (!strstr(scene->err.message, said))
        fail_msg("\"%s\" does not say \"%s\"", scene->err.message, said);
}

static void a_place_that_cannot_be_written_may_pass(void **state)
{
    (void)state;
    make_app();
    struct artifact_scene scene = {.limits = {.temp_dir = "/nowhere"}};
    take_dir(&scene, "app/build");
    assert_upload_failed(&scene, true, "the worker's temporary directory");
    if (geteuid() != 0)
        return;
    /* A file system of two pages. */
    run("head -c 300000 /dev/urandom > root/app/build/x; mkdir -p full");
    if (try_run("mount -t tmpfs -o size=8k none full 2>/dev/null") != 0)
        return;
    char full[80];
    (void)snprintf(full, sizeof(full), "%s/full", place);
    struct artifact_scene no_room = {.limits = {.temp_dir = full}};
    take_dir(&no_room, "app/build");
    run("umount full");
    assert_upload_failed(&no_room, true, "No space left on device");
}

/* ---- a tree that changes ---- */

static const char *change; /* what sh does to the tree between two slices of the packing */
static bool has_packed;

static void change_once(void *arg)
{
    (void)arg;
    /* The packer's task is between two slices: it has begun, since this task was started
     * before it and waits for the file that it has opened. */
    while (!has_packed) {
        char path[64];
        char target[256];
        for (int fd = 3; fd < 64 && !has_packed; fd++) {
            (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
            ssize_t bytes = readlink(path, target, sizeof(target) - 1);
            target[bytes > 0 ? bytes : 0] = '\0';
            has_packed = strstr(target, "/root/app/large") != NULL;
        }
        if (!has_packed && task_sleep(1) != 0)
            return;
    }
    (void)!try_run(change);
}

static int get_while_changed(struct artifact_scene *scene, struct arena *arena,
                             struct artifact **ret_artifact, struct error *err)
{
    has_packed = false;
    if (task_start(task_loop(task_self()), "change", change_once, NULL) != 0)
        return -7;
    int returned = get_dir(scene, arena, ret_artifact, err);
    has_packed = true;
    return returned;
}

static void a_tree_that_changes_while_it_is_packed_is_noticed(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "echo more >> root/app/large",     /* what is being read */
        ": > root/app/large",              /* and cut */
        "echo other > root/app/a",         /* what has been read */
        "rm root/app/a",                   /* */
        "touch root/app/new",              /* what was not there */
        "rm root/app/z",                   /* what is still to come */
        "rm root/app/z; mkdir root/app/z", /* */
        "chmod 600 root/app/a",            /* */
        "rm -r root/app/sub",              /* */
        "mv root/app root/elsewhere",      /* */
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct artifact_scene scene = {0};
        run("rm -rf root && mkdir -p root/app/sub && head -c 20000000 /dev/urandom > "
            "root/app/large && echo a > root/app/a && echo z > root/app/z && "
            "echo s > root/app/sub/s");
        change = changes[i];
        (void)snprintf(root, sizeof(root), "%s/root", place);
        scene.get = get_while_changed;
        scene.arg = (char[]){"app"};
        scene_run(&scene);
        if (scene.returned == 0)
            fail_msg("not noticed: %s", changes[i]);
        assert_upload_failed(&scene, true, "changed while it was packed");
    }
}

static void cancel_packer(void *arg)
{
    task_cancel(arg);
}

static int get_cancelled(struct artifact_scene *scene, struct arena *arena,
                         struct artifact **ret_artifact, struct error *err)
{
    /* The packer yields after each slice, and this task runs then. */
    if (task_start(task_loop(task_self()), "cancel", cancel_packer, task_self()) != 0)
        return -7;
    return get_dir(scene, arena, ret_artifact, err);
}

static void a_cancel_is_seen_between_two_slices(void **state)
{
    (void)state;
    run("rm -rf root && mkdir -p root/app && head -c 20000000 /dev/urandom > root/app/x");
    struct artifact_scene scene = {.get = get_cancelled, .arg = (char[]){"app"}};
    (void)snprintf(root, sizeof(root), "%s/root", place);
    scene_run(&scene);
    assert_int_equal(scene.returned, -1);
    assert_int_equal(scene.err.code, ERROR_CANCELLED);
    assert_true(scene.untouched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_is_packed_as_tar_would),
        cmocka_unit_test(the_same_tree_gives_the_same_bytes),
        cmocka_unit_test(a_name_stays_below_the_root),
        cmocka_unit_test(without_a_root_there_are_no_directories),
        cmocka_unit_test(what_is_wrong_in_the_directory_is_named),
        cmocka_unit_test(the_limits_hold_while_it_is_packed),
        cmocka_unit_test(a_place_that_cannot_be_written_may_pass),
        cmocka_unit_test(a_tree_that_changes_while_it_is_packed_is_noticed),
        cmocka_unit_test(a_cancel_is_seen_between_two_slices),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
