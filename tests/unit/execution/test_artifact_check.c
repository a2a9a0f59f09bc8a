/* What an artifact may hold and what is refused: archives made by hand, as wrong as each
 * case wants them. */
#include "artifact_scene.h"

/* ---- single entries ---- */

static const struct {
    const char *name;
    char type;
    const char *link;
    unsigned mode;
    const char *said;
} bad_entries[] = {
    {"/etc/passwd", '0', NULL, 0, "entry \"/etc/passwd\" is an absolute path"},
    {"../x", '0', NULL, 0, "entry \"../x\" leads out of the artifact"},
    {"a/../../x", '0', NULL, 0, "leads out of the artifact"},
    {"a/..", '5', NULL, 0, "leads out of the artifact"},
    {"./..", '5', NULL, 0, "leads out of the artifact"},
    {"", '0', NULL, 0, "entry \"\" has no name"},
    {".", '0', NULL, 0, "has no name"},
    {".", '2', "x", 0, "has no name"},
    {"dev", '3', NULL, 0, "entry \"dev\" is a device"},
    {"dev", '4', NULL, 0, "is a device"},
    {"pipe", '6', NULL, 0, "is a FIFO"},
    {"sparse", 'S', NULL, 0, "sparse"},
    {"more", 'M', NULL, 0, "is of a kind that not every tar knows"},
    {"dump", 'D', NULL, 0, "is of a kind that not every tar knows"},
    {"sock", 's', NULL, 0, "is of a kind that not every tar knows"},
    {"suid", '0', NULL, 04755, "set-user-id"},
    {"sgid", '0', NULL, 02755, "set-group-id"},
    {"sgid/", '5', NULL, 02755, "set-group-id"},
    {".mastra", '0', NULL, 0, "the deployment itself uses"},
    {".mastra/", '5', NULL, 0, "the deployment itself uses"},
    {"./.mastra/executions/a/status", '0', NULL, 0, "the deployment itself uses"},
    {".//.mastra//x", '0', NULL, 0, "the deployment itself uses"},
    {".mastra-install-hash", '0', NULL, 0, "the deployment itself uses"},
    {"./.mastra-install-hash.tmp", '0', NULL, 0, "the deployment itself uses"},
    {".mastra-install-lock", '5', NULL, 0, "the deployment itself uses"},
    {".mastra-artifact-lock/owner", '0', NULL, 0, "the deployment itself uses"},
    {".mastra-any-lock/", '5', NULL, 0, "the deployment itself uses"},
    {".mastra-worker.tar.gz", '0', NULL, 0, "the deployment itself uses"},
    {".mastra-worker.tar.gz.b64", '0', NULL, 0, "the deployment itself uses"},
    {"l", '2', "/etc", 0, "is a link to an absolute path"},
    {"l", '2', "..", 0, "is a link that leads out of the artifact"},
    {"a/l", '2', "../..", 0, "is a link that leads out of the artifact"},
    {"a/l", '2', "../../x", 0, "is a link that leads out of the artifact"},
    {"a//./l", '2', "../../x", 0, "is a link that leads out of the artifact"},
    {"a/b/l", '2', "x/../../..", 0, "\"..\" after a name"},
    {"l", '2', "", 0, "is a link to nothing"},
    {"h", '1', "/etc/passwd", 0, "is a hard link that leads out of the artifact"},
    {"a/h", '1', "../x", 0, "is a hard link that leads out of the artifact"},
    {"h", '1', "", 0, "is a hard link that leads out of the artifact"},
    {"h", '1', "missing", 0, "is a hard link to no file before it"},
    {"h", '1', ".mastra-install-hash", 0, "is a hard link to a name that the deployment"},
    {"h", '1', "x/../.mastra/x", 0, "is a hard link that leads out of the artifact"},
    {"bad\nname\x1b[31m\xff/..", '0', NULL, 0, "entry \"bad?name?[31m?/..\" leads"},
    {"package.json", '2', "x", 0, "must be a regular file"},
    {"./yarn.lock/", '5', NULL, 0, "must be a regular file"},
};

static void an_entry_that_would_do_harm_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_entries) / sizeof(bad_entries[0]); i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        archive_header(&archive, &(struct header){.name = bad_entries[i].name,
                                                  .type = bad_entries[i].type,
                                                  .link = bad_entries[i].link,
                                                  .mode = bad_entries[i].mode});
        scene_take(&scene, &archive);
        assert_refused(&scene, bad_entries[i].said);
    }
}

static const struct {
    const char *name;
    char type;
    const char *link;
    const char *data;
} good_entries[] = {
    {"./", '5', NULL, NULL},
    {"./a/", '5', NULL, NULL},
    {"./a/b", '0', NULL, "text"},
    {"a/b", '0', NULL, "again: the last one counts"},
    {"a/deep/x/..y", '0', NULL, "dots in a name"},
    {"..data/z", '0', NULL, ""},
    {"a/link", '2', "../a/b", NULL},
    {"link", '2', "./a", NULL},
    {"dangling", '2', "nowhere/at/all", NULL},
    {"a/deep/x/up", '2', "../../..", NULL},
    {"hard", '1', "./a/b", NULL},
    {"sub/.mastra/output", '0', NULL, "only at the root is it the deployment's"},
    {".mastra-notes", '0', NULL, ""},
    {".mastraX", '0', NULL, ""},
    {"contiguous", '7', NULL, "a file"},
    {"v7-directory/", '0', NULL, NULL},
    {"sub/package.json", '2', "../package.json", NULL},
};

static void what_does_no_harm_is_taken(void **state)
{
    (void)state;
    struct archive archive = {0};
    struct artifact_scene scene = {0};
    archive_pax(&archive, 'g', "comment", "a commit's name, from git archive");
    for (size_t i = 0; i < sizeof(good_entries) / sizeof(good_entries[0]); i++)
        archive_entry(&archive, good_entries[i].type, good_entries[i].name,
                      good_entries[i].link, good_entries[i].data);
    scene_take(&scene, &archive);
    assert_taken(&scene);
    assert_string_equal(scene.install_hash, "");
    scene_done(&scene);
}

/* ---- entries together ---- */

struct made {
    char type;
    const char *name;
    const char *link;
};

static const struct {
    const char *said;
    struct made made[4];
} bad_groups[] = {
    {"entry \"l/x\" lies below a symbolic link", {{'2', "l", "a"}, {'0', "l/x", NULL}}},
    {"lies below a symbolic link", {{'2', "l", "a"}, {'0', "./l//b/c", NULL}}},
    /* Through a link through a link. */
    {"entry \"b/x\" lies below a symbolic link",
     {{'2', "a", "d"}, {'2', "b", "a"}, {'0', "b/x", NULL}}},
    {"lies below a symbolic link", {{'2', "d/l", "."}, {'2', "d/l/m", "../.."}}},
    {"lies below a symbolic link", {{'2', "l", "."}, {'0', "l/.mastra/x", NULL}}},
    {"lies below a symbolic link",
     {{'2', "l", "a"}, {'5', "l/", NULL}, {'0', "l/x", NULL}}},
    /* What was a directory becomes a link. */
    {"is a symbolic link in the place of a directory",
     {{'5', "d/", NULL}, {'2', "d", "x"}}},
    {"is a symbolic link in the place of a directory",
     {{'0', "d/e/f", NULL}, {'2', "d", "x"}}},
    {"is a symbolic link in the place of a directory",
     {{'0', "d/e/f", NULL}, {'2', "d/e", "x"}}},
    {"stands in the place of a symbolic link", {{'2', "l", "x"}, {'0', "l", NULL}}},
    /* A hard link would take a link to another depth. */
    {"is a hard link to no file before it",
     {{'2', "a/b/l", "../../x"}, {'1', "h", "a/b/l"}}},
    {"is a hard link to no file before it",
     {{'0', "a/l", NULL}, {'2', "a/l", "../x"}, {'1', "h", "a/l"}}},
    {"is a hard link to no file before it", {{'5', "d/", NULL}, {'1', "h", "d"}}},
    {"is a hard link to no file before it", {{'1', "h", "later"}, {'0', "later", NULL}}},
    {"must be a regular file", {{'0', "x.json", NULL}, {'1', "package.json", "x.json"}}},
};

static void no_order_of_entries_leads_through_a_link(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_groups) / sizeof(bad_groups[0]); i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        for (const struct made *made = bad_groups[i].made; made->name; made++)
            archive_entry(&archive, made->type, made->name, made->link, NULL);
        scene_take(&scene, &archive);
        /* "l/" over "l" is refused already where it stands. */
        bool early = i == 5;
        assert_refused(&scene, early ? "stands in the place of a symbolic link"
                                     : bad_groups[i].said);
    }
}

/* ---- long names ---- */

static char long_text[6000];

static const char *long_name(const char *start, size_t bytes)
{
    size_t used = strlen(start);
    memcpy(long_text, start, used);
    for (size_t i = used; i < bytes; i++)
        long_text[i] = i % 50 == 49 ? '/' : 'n';
    long_text[bytes] = '\0';
    return long_text;
}

static void gnu_long_names_count(void **state)
{
    (void)state;
    static const struct {
        const char *start;
        size_t bytes;
        char type;
        const char *said;
    } cases[] = {
        {"good/", 300, 'L', NULL},
        {"good/", 4094, 'L', NULL},
        {"../", 300, 'L', "leads out"},
        {"/", 300, 'L', "absolute"},
        {".mastra/", 300, 'L', "the deployment itself uses"},
        {"good/", 5000, 'L', "too many bytes"},
        {"target/", 300, 'K', NULL},
        {"/target/", 300, 'K', "is a link to an absolute path"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        const char *name = long_name(cases[i].start, cases[i].bytes);
        archive_bytes(&archive, cases[i].type, "././@LongLink", name, cases[i].bytes + 1);
        archive_entry(&archive, cases[i].type == 'K' ? '2' : '0', "cut", "short", NULL);
        scene_take(&scene, &archive);
        if (cases[i].said)
            assert_refused(&scene, cases[i].said);
        else
            assert_taken(&scene);
        scene_done(&scene);
    }
}

static void pax_names_count_and_so_do_those_they_override(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        const char *value;
        struct made made;
        const char *said;
    } cases[] = {
        {"path", "good", {'0', "also-good", NULL}, NULL},
        {"path", "../bad", {'0', "good", NULL}, "leads out"},
        {"path", ".mastra/x", {'0', "good", NULL}, "the deployment itself uses"},
        {"path", "good", {'0', "../bad", NULL}, "entry \"../bad\" leads out"},
        {"path", "good", {'0', ".mastra/x", NULL}, "the deployment itself uses"},
        {"path", "", {'0', "good", NULL}, "has no name"},
        {"linkpath", "../bad", {'2', "l", "good"}, "leads out of the artifact"},
        {"linkpath", "good", {'2', "l", "../bad"}, "leads out of the artifact"},
        {"linkpath", "good", {'1', "l", "../bad"}, "leads out of the artifact"},
        {"size", "0", {'0', "good", NULL}, NULL},
        {"size", "512", {'0', "good", NULL}, "has two sizes"},
        {"size", "x", {'0', "good", NULL}, "has a damaged pax header"},
        {"GNU.sparse.major", "1", {'0', "good", NULL}, "sparse"},
        {"mtime", "1.5", {'0', "good", NULL}, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        archive_pax(&archive, 'x', cases[i].key, cases[i].value);
        archive_entry(&archive, cases[i].made.type, cases[i].made.name, cases[i].made.link,
                      NULL);
        scene_take(&scene, &archive);
        if (cases[i].said)
            assert_refused(&scene, cases[i].said);
        else
            assert_taken(&scene);
        scene_done(&scene);
    }
}

static void a_tar_without_pax_is_not_led_through_a_link_either(void **state)
{
    (void)state;
    struct archive archive = {0};
    struct artifact_scene scene = {0};
    archive_pax(&archive, 'x', "path", "one");
    archive_entry(&archive, '2', "l", ".", NULL);
    archive_pax(&archive, 'x', "path", "two");
    archive_entry(&archive, '0', "l/.mastra/x", NULL, NULL);
    scene_take(&scene, &archive);
    assert_refused(&scene, "lies below a symbolic link");
}

static void a_long_pax_path_is_taken(void **state)
{
    (void)state;
    struct archive archive = {0};
    struct artifact_scene scene = {0};
    archive_pax(&archive, 'x', "path", long_name("good/", 890));
    archive_entry(&archive, '0', "cut", NULL, "x");
    archive_header(&archive, &(struct header){.name = "x", .prefix = "p/q"});
    scene_take(&scene, &archive);
    assert_taken(&scene);
    scene_done(&scene);
}

/* What tars read in different ways. */

typedef void make_fn(struct archive *archive);

static void make_nul_in_name(struct archive *archive)
{
    archive_bytes(archive, 'L', "././@LongLink", "good\0/../bad", 13);
    archive_entry(archive, '0', "good", NULL, NULL);
}

static void make_nul_in_pax(struct archive *archive)
{
    archive_bytes(archive, 'x', "pax", "15 path=ab\0/..\n", 15);
    archive_entry(archive, '0', "good", NULL, NULL);
}

static void make_pax_cut(struct archive *archive)
{
    archive_bytes(archive, 'x', "pax", "99 path=good\n", 13);
    archive_entry(archive, '0', "good", NULL, NULL);
}

static void make_pax_without_length(struct archive *archive)
{
    archive_bytes(archive, 'x', "pax", "path=good\n", 10);
    archive_entry(archive, '0', "good", NULL, NULL);
}

static void make_two_names(struct archive *archive)
{
    archive_bytes(archive, 'L', "././@LongLink", "one", 4);
    archive_pax(archive, 'x', "path", "two");
    archive_entry(archive, '0', "three", NULL, NULL);
}

static void make_name_after_name(struct archive *archive)
{
    archive_bytes(archive, 'L', "././@LongLink", "one", 4);
    archive_bytes(archive, 'L', "././@LongLink", "two", 4);
    archive_entry(archive, '0', "three", NULL, NULL);
}

static void make_name_of_nothing(struct archive *archive)
{
    archive_entry(archive, '0', "good", NULL, NULL);
    archive_bytes(archive, 'L', "././@LongLink", "one", 4);
}

static void make_global_path(struct archive *archive)
{
    archive_pax(archive, 'g', "path", "all-of-them");
    archive_entry(archive, '0', "good", NULL, NULL);
}

static void make_link_with_data(struct archive *archive)
{
    archive_entry(archive, '2', "l", "good", "data");
}

static void make_directory_with_data(struct archive *archive)
{
    archive_entry(archive, '0', "d/", NULL, "data");
}

static void make_gnu_with_prefix(struct archive *archive)
{
    archive_header(archive,
                   &(struct header){.name = "x", .prefix = "..", .magic = "ustar  "});
}

static void make_bad_sum(struct archive *archive)
{
    archive_entry(archive, '0', "good", NULL, NULL);
    archive_header(archive, &(struct header){.name = "bad", .bad_sum = true});
}

static void make_entry_after_the_end(struct archive *archive)
{
    static const unsigned char zeros[512];
    archive_append(archive, zeros, sizeof(zeros));
    archive_entry(archive, '0', "hidden", NULL, NULL);
}

static void make_suid_behind_long_name(struct archive *archive)
{
    archive_bytes(archive, 'L', "././@LongLink", "long", 5);
    archive_header(archive, &(struct header){.name = "x", .mode = 04755});
}

static void what_tars_read_in_different_ways_is_refused(void **state)
{
    (void)state;
    static const struct {
        make_fn *make;
        const char *said;
    } cases[] = {
        {make_nul_in_name, "has a name with a NUL byte"},
        {make_nul_in_pax, "has a name with a NUL byte"},
        {make_pax_cut, "has a damaged pax header"},
        {make_pax_without_length, "has a damaged pax header"},
        {make_two_names, "has two names"},
        {make_name_after_name, "stands where its file should"},
        {make_name_of_nothing, "is followed by no file"},
        {make_global_path, "names all files at once"},
        {make_link_with_data, "is no file and has data"},
        {make_directory_with_data, "is a directory with data"},
        {make_gnu_with_prefix, "not every tar reads alike"},
        {make_bad_sum, "holds a damaged tar archive"},
        {make_entry_after_the_end, "goes on after the end of its tar archive"},
        {make_suid_behind_long_name, "entry \"long\" has its set-user-id"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        cases[i].make(&archive);
        scene_take(&scene, &archive);
        assert_refused(&scene, cases[i].said);
    }
}

static void old_headers_are_taken(void **state)
{
    (void)state;
    struct archive archive = {0};
    struct artifact_scene scene = {0};
    archive_header(&archive, &(struct header){.name = "gnu", .magic = "ustar  "});
    archive_header(&archive, &(struct header){
                                 .name = "v7", .v7_type = true, .magic = "\0\0\0\0\0\0\0"});
    scene_take(&scene, &archive);
    assert_taken(&scene);
    scene_done(&scene);
}

/* ---- the file around it ---- */

struct packed {
    unsigned char *data;
    size_t bytes;
};

static struct packed make_good(void)
{
    struct archive archive = {0};
    struct packed packed;
    archive_entry(&archive, '0', "a", NULL, "some text that is worth packing");
    archive_end(&archive);
    packed.data = archive_gzip(&archive, &packed.bytes);
    archive_done(&archive);
    return packed;
}

static void take_bytes(struct artifact_scene *scene, const void *data, size_t bytes)
{
    scene->data = data;
    scene->bytes = bytes;
    scene_run(scene);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct packed packed = make_good();
    for (size_t bytes = 0; bytes < packed.bytes; bytes++) {
        struct artifact_scene scene = {0};
        unsigned char *exact = malloc(bytes ? bytes : 1); /* ASan sees a byte too far */
        assert_non_null(exact);
        memcpy(exact, packed.data, bytes);
        take_bytes(&scene, exact, bytes);
        assert_refused(&scene, "truncated");
        free(exact);
    }
    free(packed.data);
}

/* Some bits mean nothing: the last ones before the checksum, a distance within zeros. */
static bool unpacks_alike(const struct packed *packed, const unsigned char *wanted)
{
    unsigned char got[4096] = {0};
    z_stream stream = {.next_in = packed->data,
                       .avail_in = (uInt)packed->bytes,
                       .next_out = got,
                       .avail_out = sizeof(got)};
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
    int result = inflate(&stream, Z_FINISH);
    (void)inflateEnd(&stream);
    return result == Z_STREAM_END && stream.total_out == 2048 &&
           memcmp(got, wanted, 2048) == 0;
}

static void a_byte_changed_anywhere_is_noticed(void **state)
{
    (void)state;
    struct packed packed = make_good();
    unsigned char wanted[4096];
    size_t noticed = 0;
    z_stream stream = {.next_in = packed.data,
                       .avail_in = (uInt)packed.bytes,
                       .next_out = wanted,
                       .avail_out = sizeof(wanted)};
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    (void)inflateEnd(&stream);
    for (size_t i = 10; i < packed.bytes; i++) {
        struct artifact_scene scene = {0};
        packed.data[i] ^= 0x40;
        if (!unpacks_alike(&packed, wanted)) {
            take_bytes(&scene, packed.data, packed.bytes);
            assert_refused(&scene, "the artifact");
            noticed++;
        }
        packed.data[i] ^= 0x40;
    }
    assert_true(noticed > packed.bytes - 20);
    free(packed.data);
}

static void a_bad_checksum_is_called_by_its_name(void **state)
{
    (void)state;
    struct packed packed = make_good();
    struct artifact_scene scene = {0};
    packed.data[packed.bytes - 8] ^= 1;
    take_bytes(&scene, packed.data, packed.bytes);
    assert_refused(&scene, "damaged gzip file: incorrect data check");
    free(packed.data);
}

static void what_follows_the_file_is_refused(void **state)
{
    (void)state;
    struct packed packed = make_good();
    struct archive longer = {0};
    struct artifact_scene scene = {0};
    /* Zeros are bsdtar's way to fill a block. */
    archive_append(&longer, packed.data, packed.bytes);
    archive_append(&longer, (char[100000]){0}, 100000);
    take_bytes(&scene, longer.data, longer.bytes);
    assert_taken(&scene);
    scene_done(&scene);
    archive_append(&longer, "x", 1);
    take_bytes(&scene, longer.data, longer.bytes);
    assert_refused(&scene, "goes on after the end of its gzip file");
    longer.bytes = packed.bytes;
    archive_append(&longer, "x", 1);
    take_bytes(&scene, longer.data, longer.bytes);
    assert_refused(&scene, "goes on after the end of its gzip file");
    archive_append(&longer, "yz and much more than a header has bytes", 40);
    take_bytes(&scene, longer.data, longer.bytes);
    assert_refused(&scene, "goes on after the end of its gzip file");
    archive_done(&longer);
    free(packed.data);
}

/* gzip lets files be put one after the other, and every gunzip goes on. */
static void members_together_are_one_archive(void **state)
{
    (void)state;
    struct archive parts[2] = {{0}};
    struct archive together = {0};
    struct artifact_scene scene = {0};
    archive_entry(&parts[0], '0', "a", NULL, "text");
    archive_entry(&parts[1], '0', "../bad", NULL, NULL);
    archive_end(&parts[1]);
    for (int i = 0; i < 2; i++) {
        size_t bytes = 0;
        unsigned char *packed = archive_gzip(&parts[i], &bytes);
        archive_append(&together, packed, bytes);
        free(packed);
        archive_done(&parts[i]);
    }
    take_bytes(&scene, together.data, together.bytes);
    assert_refused(&scene, "entry \"../bad\"");
    archive_done(&together);
}

static void what_is_no_archive_is_refused(void **state)
{
    (void)state;
    struct artifact_scene scene = {0};
    struct archive text = {0};
    size_t bytes = 0;
    take_bytes(&scene, NULL, 0);
    assert_refused(&scene, "truncated");
    take_bytes(&scene, "PK\3\4 a zip file", 15);
    assert_refused(&scene, "no gzip file: incorrect header check");
    for (int i = 0; i < 100; i++)
        archive_append(&text, "hello, world", 12);
    unsigned char *packed = archive_gzip(&text, &bytes);
    take_bytes(&scene, packed, bytes);
    assert_refused(&scene, "holds no tar archive");
    free(packed);
    archive_done(&text);
}

static void a_tar_without_an_end_is_truncated(void **state)
{
    (void)state;
    static const size_t cuts[] = {0, 100, 512, 700, 1024};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct archive archive = {0};
        struct artifact_scene scene = {0};
        size_t bytes = 0;
        archive_entry(&archive, '0', "a", NULL, "text");
        archive.bytes = cuts[i];
        unsigned char *packed = archive_gzip(&archive, &bytes);
        take_bytes(&scene, packed, bytes);
        assert_refused(&scene, "truncated: its tar archive has no end");
        free(packed);
        archive_done(&archive);
    }
}

/* ---- memory that runs out ---- */

static bool counts_allocations;
static size_t allocations;
static size_t failing;

static bool fails_now(void)
{
    return counts_allocations && allocations++ == failing;
}

void *__real_malloc(size_t bytes);                // NOLINT
void *__wrap_malloc(size_t bytes);                // NOLINT
void *__real_calloc(size_t count, size_t bytes);  // NOLINT
void *__wrap_calloc(size_t count, size_t bytes);  // NOLINT
void *__real_realloc(void *memory, size_t bytes); // NOLINT
void *__wrap_realloc(void *memory, size_t bytes); // NOLINT

void *__wrap_malloc(size_t bytes) // NOLINT
{
    return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) // NOLINT
{
    return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) // NOLINT
{
    return fails_now() ? NULL : __real_realloc(memory, bytes);
}

static int get_tortured(struct artifact_scene *scene, struct arena *arena,
                        struct artifact **ret_artifact, struct error *err)
{
    allocations = 0;
    counts_allocations = true;
    int returned = artifact_from_data(scene->data, scene->bytes, &scene->limits,
                                      scene->install_command, arena, ret_artifact, err);
    counts_allocations = false;
    return returned;
}

static void each_allocation_that_fails_is_an_error(void **state)
{
    (void)state;
    struct artifact_scene scene = {.get = get_tortured, .returned = -1};
    for (failing = 0; failing < 1000 && scene.returned != 0; failing++) {
        struct archive archive = {0};
        char name[32];
        archive_bytes(&archive, 'L', "././@LongLink", long_name("long/", 300), 301);
        archive_entry(&archive, '0', "cut", NULL, NULL);
        archive_pax(&archive, 'x', "path", "some/name");
        archive_entry(&archive, '0', "package.json", NULL, "{}");
        archive_entry(&archive, '0', "./package.json", NULL, "{}");
        for (int i = 0; i < 600; i++) { /* so that the table grows */
            (void)snprintf(name, sizeof(name), "file-%d", i);
            archive_entry(&archive, '0', name, NULL, NULL);
        }
        scene_take(&scene, &archive);
        if (scene.returned != 0) {
            assert_true(scene.untouched);
            assert_string_equal(error_code_name(scene.err.code), "internal");
        }
    }
    scene_done(&scene);
    assert_int_equal(scene.returned, 0);
    assert_in_range(failing, 8, 999);
}

/* ---- limits ---- */

static void an_artifact_that_is_too_large_is_not_looked_at(void **state)
{
    (void)state;
    struct artifact_scene scene = {.limits = {.max_bytes = 10}};
    take_bytes(&scene, "eleven bytes", 11);
    assert_refused(&scene, "larger than 10 bytes (artifact_max_bytes)");
}

static void an_archive_that_unpacks_to_too_much_is_refused(void **state)
{
    (void)state;
    enum { BYTES = 64 * 1024 };
    char *zeros = calloc(1, BYTES);
    struct archive archive = {0};
    struct artifact_scene scene = {.limits = {.unpacked_max_bytes = BYTES + 512 + 1024}};
    assert_non_null(zeros);
    archive_bytes(&archive, '0', "zeros", zeros, BYTES);
    scene_take(&scene, &archive);
    assert_taken(&scene);
    assert_int_equal(scene.unpacked_bytes, BYTES + 512 + 1024);
    scene_done(&scene);

    scene.limits.unpacked_max_bytes--;
    archive_bytes(&archive, '0', "zeros", zeros, BYTES);
    scene_take(&scene, &archive);
    assert_refused(&scene, "when unpacked (artifact_unpacked_max_bytes)");
    free(zeros);
}

/* Each level of a name is a directory to be remembered. */
static void an_archive_of_too_many_names_is_refused(void **state)
{
    (void)state;
    char name[4096];
    struct archive archive = {0};
    struct artifact_scene scene = {0};
    for (int i = 0; i < 600; i++) {
        int used = snprintf(name, sizeof(name), "%d/", i);
        for (; used < 4080; used += 2)
            memcpy(name + used, "d/", 3);
        archive_bytes(&archive, 'L', "././@LongLink", name, (size_t)used + 1);
        archive_entry(&archive, '5', "cut", NULL, NULL);
    }
    scene_take(&scene, &archive);
    assert_refused(&scene, "more than 1000000 files and directories");
}

static void a_file_of_the_install_hash_has_a_limit(void **state)
{
    (void)state;
    struct archive archive = {0};
    struct artifact_scene scene = {0};
    archive_header(&archive, &(struct header){.name = "package.json",
                                              .size = INSTALL_HASH_FILE_MAX + 1UL});
    scene_take(&scene, &archive);
    assert_refused(&scene, "entry \"package.json\" is larger than 16 MiB");
}

static void a_name_that_is_told_is_cut(void **state)
{
    (void)state;
    struct archive archive = {0};
    struct artifact_scene scene = {0};
    const char *name = long_name("../", 4000);
    archive_bytes(&archive, 'L', "././@LongLink", name, 4001);
    archive_entry(&archive, '0', "cut", NULL, NULL);
    scene_take(&scene, &archive);
    assert_refused(&scene, "...\" leads out");
    assert_true(strlen(scene.err.message) < 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_that_would_do_harm_is_refused_by_name),
        cmocka_unit_test(what_does_no_harm_is_taken),
        cmocka_unit_test(no_order_of_entries_leads_through_a_link),
        cmocka_unit_test(gnu_long_names_count),
        cmocka_unit_test(pax_names_count_and_so_do_those_they_override),
        cmocka_unit_test(a_tar_without_pax_is_not_led_through_a_link_either),
        cmocka_unit_test(a_long_pax_path_is_taken),
        cmocka_unit_test(what_tars_read_in_different_ways_is_refused),
        cmocka_unit_test(old_headers_are_taken),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_byte_changed_anywhere_is_noticed),
        cmocka_unit_test(a_bad_checksum_is_called_by_its_name),
        cmocka_unit_test(what_follows_the_file_is_refused),
        cmocka_unit_test(members_together_are_one_archive),
        cmocka_unit_test(what_is_no_archive_is_refused),
        cmocka_unit_test(a_tar_without_an_end_is_truncated),
        cmocka_unit_test(each_allocation_that_fails_is_an_error),
        cmocka_unit_test(an_artifact_that_is_too_large_is_not_looked_at),
        cmocka_unit_test(an_archive_that_unpacks_to_too_much_is_refused),
        cmocka_unit_test(an_archive_of_too_many_names_is_refused),
        cmocka_unit_test(a_file_of_the_install_hash_has_a_limit),
        cmocka_unit_test(a_name_that_is_told_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
