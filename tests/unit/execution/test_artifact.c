/* Artifacts made by the tar of this machine: taken as they are, with the install hash that
 * the original computes, in little memory and time. */
#include "artifact_scene.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "execution/artifact_check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

static char place[64]; /* a directory of the test's own */

static int make_place(void **state)
{
    (void)state;
    (void)snprintf(place, sizeof(place), "/tmp/attachd-artifact-XXXXXX");
    return mkdtemp(place) ? 0 : -1;
}

/* Runs a command of sh with $P as that directory. */
static void run(const char *command)
{
    char *line = NULL;
    assert_true(asprintf(&line, "P=%s; cd $P || exit; %s", place, command) > 0);
    int status = system(line);
    if (status != 0)
        fail_msg("%s: %d", command, status);
    free(line);
}

static int remove_place(void **state)
{
    (void)state;
    run("cd /; rm -rf $P");
    return 0;
}

static char *read_place(const char *name, size_t *ret_bytes)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", place, name);
    FILE *file = fopen(path, "rbe");
    assert_non_null(file);
    (void)fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, file), (size_t)size);
    (void)fclose(file);
    *ret_bytes = (size_t)size;
    return data;
}

static void take_file(struct artifact_scene *scene, const char *name)
{
    char *data = read_place(name, &scene->bytes);
    scene->data = data;
    scene_run(scene);
    free(data);
    scene->data = NULL;
}

static void archives_of_this_machines_tar_are_taken(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "tar -czf a.tgz -C tree .",
        "tar -czf a.tgz -C tree one long package.json",
        "tar --format=posix -czf a.tgz -C tree .",
        "tar --format=gnu -czf a.tgz -C tree .",
        "tar --format=ustar --exclude=long -czf a.tgz -C tree .",
        "tar --format=v7 --exclude=long -czf a.tgz -C tree .",
        "busybox tar -czf a.tgz -C tree .",
        "tar -cf a.tar -C tree . && tar -rf a.tar -C tree ./one && gzip -c a.tar > a.tgz",
        ("python3 -c \"import tarfile; t = tarfile.open('a.tgz', 'w:gz'); "
         "t.add('tree', '.'); t.close()\""),
    };
    run("mkdir -p tree/one/two tree/long && cd tree && echo '{}' > package.json && "
        "echo text > one/two/file && ln -s ../two one/two/link && ln one/two/file hard && "
        "L=long/$(printf 'n%.0s' $(seq 120)) && mkdir -p $L/$L && echo x > $L/$L/file && "
        "ln -s ../$L long/link && mkdir ../tree/nothing && echo u > '\303\274 name'");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        struct artifact_scene scene = {.install_command = "npm install --omit=dev"};
        run(commands[i]);
        take_file(&scene, "a.tgz");
        if (scene.returned != 0)
            fail_msg("%s: %s", commands[i], scene.err.message);
        assert_int_equal(strlen(scene.install_hash), INSTALL_HASH_LENGTH);
        size_t bytes = 0;
        char *sent = read_place("a.tgz", &bytes);
        assert_int_equal(scene.kept_bytes, bytes);
        assert_memory_equal(scene.kept, sent, bytes);
        free(sent);
        scene_done(&scene);
    }
}

/* ---- the install hash ---- */

static void put_files(const json_t *files, bool backwards, struct archive *archive)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_t *object = json_deep_copy(files);
    const char *names[8];
    size_t count = 0;
    json_object_foreach(object, name, value) names[count++] = name;
    for (size_t i = 0; i < count; i++) {
        const char *chosen = names[backwards ? count - 1 - i : i];
        archive_entry(archive, '0', chosen, NULL, "an older one");
        archive_entry(archive, '0', chosen, NULL,
                      json_string_value(json_object_get(files, chosen)));
    }
    json_decref(object);
}

/* The rows of the group install_hash that have files. */
static void the_install_hash_is_the_originals(void **state)
{
    (void)state;
    size_t rows = 0;
    char *text = support_read_source_file("tests/fixtures/vectors.jsonl", NULL);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = json_loads(line, 0, NULL);
        const json_t *input = json_object_get(row, "input");
        const json_t *files = json_object_get(input, "files");
        const char *group = json_string_value(json_object_get(row, "group"));
        bool counts = group && strcmp(group, "install_hash") == 0 && files;
        for (int backwards = 0; counts && backwards < 2; backwards++) {
            const char *wanted = json_string_value(json_object_get(row, "expected"));
            struct archive archive = {0};
            struct artifact_scene scene = {.install_command = json_string_value(
                                               json_object_get(input, "installCommand"))};
            archive_entry(&archive, '0', "sub/package.json", NULL, "does not count");
            put_files(files, backwards, &archive);
            scene_take(&scene, &archive);
            assert_taken(&scene);
            assert_string_equal(scene.install_hash, wanted ? wanted : "");
            scene_done(&scene);
            rows++;
        }
        json_decref(row);
    }
    free(text);
    assert_int_equal(rows, 2 * 6);
}

static void an_empty_lock_file_counts_by_its_name(void **state)
{
    (void)state;
    char hashes[2][INSTALL_HASH_LENGTH + 1];
    for (int i = 0; i < 2; i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        archive_entry(&archive, '0', "./package.json", NULL, "{}");
        if (i > 0)
            archive_entry(&archive, '0', "./bun.lock", NULL, NULL);
        scene_take(&scene, &archive);
        assert_taken(&scene);
        memcpy(hashes[i], scene.install_hash, sizeof(hashes[i]));
        scene_done(&scene);
    }
    assert_string_not_equal(hashes[0], hashes[1]);
}

static void no_room_for_the_files_of_the_hash_may_pass(void **state)
{
    (void)state;
    struct archive archive = {0};
    struct artifact_scene scene = {.limits = {.temp_dir = "/nowhere"}};
    archive_entry(&archive, '0', "package.json", NULL, "{}");
    scene_take(&scene, &archive);
    assert_int_equal(scene.returned, -1);
    assert_int_equal(scene.err.code, ERROR_DEPLOY_FAILED);
    assert_string_equal(scene.err.phase, "upload");
    assert_true(scene.err.retryable);
}

/* ---- what it costs ---- */

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int read_fd(void *arg, uint64_t offset, void *buffer, size_t bytes)
{
    const int *fd = arg;
    return pread(*fd, buffer, bytes, (off_t)offset) == (ssize_t)bytes ? 0 : -EIO;
}

static long peak_rss_kib(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static int check_all(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    char hash[INSTALL_HASH_LENGTH + 1];
    struct error err = {0};
    if (fd < 0 || fstat(fd, &info) != 0)
        return -1;
    struct file_source source = {
        .bytes = (uint64_t)info.st_size, .read = read_fd, .arg = &fd};
    struct artifact_check_options options = {.unpacked_max_bytes = 1UL << 30,
                                             .max_entries = ARTIFACT_MAX_ENTRIES,
                                             .temp_dir = place};
    struct artifact_check *check = artifact_check_new(&source, &options);
    int more = 1;
    while (check && more > 0)
        more = artifact_check_step(check, &err);
    if (!check || more < 0 || artifact_check_install_hash(check, "true", hash, &err) != 0)
        return -1;
    artifact_check_free(check);
    (void)close(fd);
    return 0;
}

/* In a child of its own: what the check adds to the most that was ever resident. */
static long measure_rss(const char *path)
{
    int pipe_fds[2];
    long grown = -1;
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        long before = peak_rss_kib();
        long after = check_all(path) == 0 ? peak_rss_kib() : before - 1;
        after -= before;
        ssize_t written = write(pipe_fds[1], &after, sizeof(after));
        _exit(written == sizeof(after) ? 0 : 1);
    }
    (void)close(pipe_fds[1]);
    ssize_t got = read(pipe_fds[0], &grown, sizeof(grown));
    (void)close(pipe_fds[0]);
    (void)waitpid(child, NULL, 0);
    assert_int_equal(got, sizeof(grown));
    return grown;
}

/* About 16 MiB that pack like program text, in 2,000 files. */
static void make_large(void)
{
    run("mkdir large && python3 - <<'END'\n"
        "import random\n"
        "random.seed(7)\n"
        "words = [''.join(random.choices('abcdefghijklmnopqrstuvwxyz', k=random.randint(2, "
        "9)))"
        " for _ in range(3000)]\n"
        "for i in range(2000):\n"
        "    with open('large/file-%d.js' % i, 'w') as file:\n"
        "        file.write(' '.join(random.choices(words, k=4300)))\n"
        "END\n"
        "echo '{}' > large/package.json && tar -czf large.tgz -C large . && rm -r large");
}

static void checking_a_large_artifact_takes_little_memory_and_time(void **state)
{
    (void)state;
    char path[128];
    struct stat info;
    double best_check = 1e9;
    double best_tar = 1e9;
    make_large();
    (void)snprintf(path, sizeof(path), "%s/large.tgz", place);
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size > 15 << 20);
    long grown = measure_rss(path);
    for (int i = 0; i < 3; i++) {
        double began = now_s();
        assert_int_equal(check_all(path), 0);
        double checked = now_s();
        run("mkdir out && tar -xzf large.tgz -C out");
        double unpacked = now_s();
        run("rm -r out");
        best_check = checked - began < best_check ? checked - began : best_check;
        best_tar = unpacked - checked < best_tar ? unpacked - checked : best_tar;
    }
    print_message("%.1f MiB: checked in %.0f ms, tar -xzf takes %.0f ms; resident %ld KiB "
                  "more\n",
                  (double)info.st_size / 1048576, best_check * 1000, best_tar * 1000,
                  grown);
    assert_true(grown >= 0);
    if (!IS_SANITIZED) {
        assert_true(grown <= 2048);
        assert_true(best_check < best_tar);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(archives_of_this_machines_tar_are_taken),
        cmocka_unit_test(the_install_hash_is_the_originals),
        cmocka_unit_test(an_empty_lock_file_counts_by_its_name),
        cmocka_unit_test(no_room_for_the_files_of_the_hash_may_pass),
        cmocka_unit_test(checking_a_large_artifact_takes_little_memory_and_time),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
