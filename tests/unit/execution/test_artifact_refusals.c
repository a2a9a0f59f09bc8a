/* Artifacts that most tars would unpack without a word, and that are refused all the same:
 * each stands for a check that nothing else would notice the loss of. */
#include "artifact_scene.h"

enum { LARGE_BYTES = 300 * 1000 };

static void take(struct artifact_scene *scene, const struct archive *archive)
{
    size_t bytes = 0;
    unsigned char *packed = archive_gzip(archive, &bytes);
    scene->data = packed;
    scene->bytes = bytes;
    scene_run(scene);
    free(packed);
}

/* A link may be on the way: what looks as if it stayed inside need not. */
static void two_dots_after_a_name_in_a_link_are_refused_wherever_they_lead(void **state)
{
    (void)state;
    static const char *const links[][2] = {
        {"l", "x/.."},      {"l", "x/../y"},        {"a/b/l", "x/.."},
        {"a/l", "../x/.."}, {"a/b/l", "../x/../y"}, {"l", "./x/./../y"},
    };
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        archive_entry(&archive, '2', links[i][0], links[i][1], NULL);
        scene_take(&scene, &archive);
        assert_refused(&scene, "\"..\" after a name");
    }
}

static void a_name_with_two_dots_is_refused_even_where_it_stays_inside(void **state)
{
    (void)state;
    static const char *const names[] = {"a/..", "a/../b", "a/b/../c", "./a/.././b"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        archive_entry(&archive, '0', names[i], NULL, NULL);
        scene_take(&scene, &archive);
        assert_refused(&scene, "leads out of the artifact by \"..\"");
    }
}

/* Whoever reads to the first empty block, to the second, or over all of them: nobody finds
 * anything behind. */
static void nothing_may_stand_anywhere_behind_the_end_mark(void **state)
{
    (void)state;
    static const size_t zeros[] = {511, 512, 1023, 1024, 10240 - 1, LARGE_BYTES};
    static const unsigned char nothing[LARGE_BYTES];
    for (size_t i = 0; i < sizeof(zeros) / sizeof(zeros[0]); i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        archive_entry(&archive, '0', "a", NULL, "text");
        archive_append(&archive, nothing, 512);
        archive_append(&archive, nothing, zeros[i]);
        take(&scene, &archive);
        assert_taken(&scene);
        scene_done(&scene);
        archive_append(&archive, "x", 1);
        take(&scene, &archive);
        assert_refused(&scene, "goes on after the end of its tar archive");
        archive_append(&archive, nothing, 1000);
        take(&scene, &archive);
        assert_refused(&scene, "goes on after the end of its tar archive");
        archive_done(&archive);
    }
}

static void a_large_archive_without_an_end_mark_is_truncated(void **state)
{
    (void)state;
    static char data[LARGE_BYTES];
    struct archive archive = {0};
    struct artifact_scene scene = {0};
    memset(data, 'x', sizeof(data));
    for (int i = 0; i < 4; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "f%d", i);
        archive_bytes(&archive, '0', name, data, sizeof(data));
    }
    take(&scene, &archive);
    assert_refused(&scene, "truncated: its tar archive has no end");
    /* Half a mark is none. */
    archive_append(&archive, (char[511]){0}, 511);
    take(&scene, &archive);
    assert_refused(&scene, "truncated: its tar archive has no end");
    archive_append(&archive, "", 1);
    take(&scene, &archive);
    assert_taken(&scene);
    scene_done(&scene);
    archive_done(&archive);
}

/* Its bytes go into the hash, so they must be there to be read. */
static void each_file_of_the_install_hash_must_be_regular(void **state)
{
    (void)state;
    static const char *const names[] = {"package.json",        "package-lock.json",
                                        "npm-shrinkwrap.json", "pnpm-lock.yaml",
                                        "yarn.lock",           "bun.lock"};
    static const char kinds[] = {'1', '2', '5'};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) * sizeof(kinds); i++) {
        char kind = kinds[i % sizeof(kinds)];
        const char *name = names[i / sizeof(kinds)];
        char said[96];
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        archive_entry(&archive, '0', "real", NULL, "{}");
        archive_entry(&archive, kind, name, kind == '5' ? NULL : "real", NULL);
        scene_take(&scene, &archive);
        (void)snprintf(said, sizeof(said), "entry \"%s\" must be a regular file", name);
        assert_refused(&scene, said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_dots_after_a_name_in_a_link_are_refused_wherever_they_lead),
        cmocka_unit_test(a_name_with_two_dots_is_refused_even_where_it_stays_inside),
        cmocka_unit_test(nothing_may_stand_anywhere_behind_the_end_mark),
        cmocka_unit_test(a_large_archive_without_an_end_mark_is_truncated),
        cmocka_unit_test(each_file_of_the_install_hash_must_be_regular),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
