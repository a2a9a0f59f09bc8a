/* One artifact taken in a task, and what came of it. */
#pragma once

#include "archive_builder.h"

#include "execution/artifact.h"

enum { SCENE_ARENA_BYTES = 1024 * 1024 };

struct artifact_scene {
    /* Before: bytes, or a function that gets them otherwise. */
    const void *data;
    size_t bytes;
    const char *install_command;
    struct artifact_limits limits;
    int (*get)(struct artifact_scene *scene, struct arena *arena,
               struct artifact **ret_artifact, struct error *err);
    void *arg;

    /* After. */
    int returned;
    struct error err;
    char install_hash[INSTALL_HASH_LENGTH + 1];
    uint64_t unpacked_bytes;
    unsigned char *kept; /* the source's bytes, to be freed */
    size_t kept_bytes;
    bool untouched;
};

static inline void scene_keep(struct artifact_scene *scene, const struct artifact *artifact)
{
    memcpy(scene->install_hash, artifact->install_hash, sizeof(scene->install_hash));
    scene->unpacked_bytes = artifact->unpacked_bytes;
    scene->kept_bytes = (size_t)artifact->source.bytes;
    scene->kept = malloc(scene->kept_bytes + 1);
    /* In two pieces, the later one first. */
    size_t half = scene->kept_bytes / 2;
    if (!scene->kept ||
        artifact->source.read(artifact->source.arg, half, scene->kept + half,
                              scene->kept_bytes - half) != 0 ||
        artifact->source.read(artifact->source.arg, 0, scene->kept, half) != 0)
        scene->returned = -77;
}

static inline void scene_play(void *arg)
{
    struct artifact_scene *scene = arg;
    struct arena *arena = arena_new(SCENE_ARENA_BYTES);
    struct artifact *artifact = NULL;
    if (scene->get)
        scene->returned = scene->get(scene, arena, &artifact, &scene->err);
    else
        scene->returned =
            artifact_from_data(scene->data, scene->bytes, &scene->limits,
                               scene->install_command, arena, &artifact, &scene->err);
    scene->untouched = artifact == NULL;
    if (scene->returned == 0)
        scene_keep(scene, artifact);
    artifact_done(artifact);
    arena_free(arena);
}

/* Fills what the test has left open, and runs. */
static inline void scene_run(struct artifact_scene *scene)
{
    if (!scene->limits.max_bytes)
        scene->limits.max_bytes = 64UL << 20;
    if (!scene->limits.unpacked_max_bytes)
        scene->limits.unpacked_max_bytes = 256UL << 20;
    if (!scene->install_command)
        scene->install_command = "true";
    free(scene->kept);
    scene->kept = NULL;
    scene->err = (struct error){0};
    support_run_task(scene_play, scene);
}

static inline void scene_done(struct artifact_scene *scene)
{
    free(scene->kept);
    scene->kept = NULL;
}

/* Ends, packs and takes the archive, which is emptied. */
static inline void scene_take(struct artifact_scene *scene, struct archive *archive)
{
    size_t bytes = 0;
    archive_end(archive);
    unsigned char *packed = archive_gzip(archive, &bytes);
    scene->data = packed;
    scene->bytes = bytes;
    scene_run(scene);
    free(packed);
    archive_done(archive);
}

static inline void assert_taken(const struct artifact_scene *scene)
{
    if (scene->returned != 0)
        fail_msg("refused: %s", scene->err.message);
}

/* Refused for the producer to read: the field is `artifact`, the message holds `said`. */
static inline void assert_refused(const struct artifact_scene *scene, const char *said)
{
    if (scene->returned == 0)
        fail_msg("taken, although: %s", said);
    assert_int_equal(scene->returned, -1);
    assert_true(scene->untouched);
    assert_int_equal(scene->err.code, ERROR_INVALID_ARGUMENT);
    assert_string_equal(scene->err.field, "artifact");
    if (!strstr(scene->err.message, said))
        fail_msg("\"%s\" does not say \"%s\"", scene->err.message, said);
}
