/* A set of paths with a few flags each, and the rules for a name. */
#include "execution/artifact_tree.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/utf8.h"

/* What a path has been so far, in the low bits of its slot; a slot is 0 when it is free. */
enum {
    PATH_OCCUPIED = 1,
    PATH_FILE = 2,
    PATH_SYMLINK = 4,
    PATH_DIRECTORY = 8, /* said to be one, or something lies below it */
    PATH_FLAGS = 15
};

struct artifact_tree {
    uint64_t *slots;
    size_t slot_count; /* a power of two */
    size_t path_count;
    uint64_t max_paths;
    EVP_MD_CTX *digest;
    unsigned char key[16];
    char name[ARTIFACT_PATH_MAX + 1];   /* the entry at hand */
    char target[ARTIFACT_PATH_MAX + 1]; /* of a hard link */
    char parent[ARTIFACT_PATH_MAX + 1]; /* the directory of the entry before, known good */
};

int artifact_refuse(struct error *err, const char *name, const char *what)
{
    char shown[ARTIFACT_SHOWN_MAX + 4];
    size_t bytes = strlen(name);
    size_t used = 0;
    size_t at = 0;
    while (at < bytes && used + 4 < ARTIFACT_SHOWN_MAX) {
        size_t step = utf8_step(name + at, bytes - at);
        bool is_plain = step > 1 || (step == 1 && name[at] >= ' ' && name[at] != 0x7f);
        if (is_plain)
            memcpy(shown + used, name + at, step);
        else
            shown[used] = '?';
        used += is_plain ? step : 1;
        at += step ? step : 1;
    }
    (void)snprintf(shown + used, sizeof(shown) - used, "%s", at < bytes ? "..." : "");
    return error_set_field(err, "artifact", "the artifact's entry \"%s\" %s", shown, what);
}

struct artifact_tree *artifact_tree_new(uint64_t max_paths)
{
    struct artifact_tree *tree = calloc(1, sizeof(*tree));
    if (!tree)
        return NULL;
    tree->max_paths = max_paths;
    tree->slot_count = 1024;
    tree->slots = calloc(tree->slot_count, sizeof(*tree->slots));
    tree->digest = EVP_MD_CTX_new();
    if (!tree->slots || !tree->digest ||
        EVP_DigestInit_ex(tree->digest, EVP_sha256(), NULL) != 1) {
        artifact_tree_free(tree);
        return NULL;
    }
    random_bytes(tree->key, sizeof(tree->key));
    return tree;
}

void artifact_tree_free(struct artifact_tree *tree)
{
    if (!tree)
        return;
    free(tree->slots);
    EVP_MD_CTX_free(tree->digest);
    free(tree);
}

/* ---- the set ---- */

static bool hash_path(struct artifact_tree *tree, const char *path, size_t bytes,
                      uint64_t *ret_hash)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (EVP_DigestInit_ex(tree->digest, NULL, NULL) != 1 ||
        EVP_DigestUpdate(tree->digest, tree->key, sizeof(tree->key)) != 1 ||
        EVP_DigestUpdate(tree->digest, path, bytes) != 1 ||
        EVP_DigestFinal_ex(tree->digest, digest, NULL) != 1)
        return false;
    memcpy(ret_hash, digest, sizeof(*ret_hash));
    *ret_hash &= ~(uint64_t)PATH_FLAGS;
    return true;
}

/* The slot with that hash, or the free one where it belongs. */
static uint64_t *probe(uint64_t *slots, size_t count, uint64_t hash)
{
    size_t at = (hash >> 4) & (count - 1);
    while (slots[at] && (slots[at] & ~(uint64_t)PATH_FLAGS) != hash)
        at = (at + 1) & (count - 1);
    return &slots[at];
}

static int grow(struct artifact_tree *tree)
{
    size_t count = tree->slot_count * 2;
    uint64_t *slots = calloc(count, sizeof(*slots));
    if (!slots)
        return -1;
    for (size_t i = 0; i < tree->slot_count; i++) {
        uint64_t slot = tree->slots[i];
        if (slot)
            *probe(slots, count, slot & ~(uint64_t)PATH_FLAGS) = slot;
    }
    free(tree->slots);
    tree->slots = slots;
    tree->slot_count = count;
    return 0;
}

/* The slot of the first `bytes` of a path, made where there was none. NULL: err says why.
 */
static uint64_t *find(struct artifact_tree *tree, const char *path, size_t bytes,
                      struct error *err)
{
    uint64_t hash = 0;
    if (!hash_path(tree, path, bytes, &hash) ||
        (tree->path_count * 2 >= tree->slot_count && grow(tree) != 0)) {
        (void)error_set_memory(err, "the artifact's names");
        return NULL;
    }
    uint64_t *slot = probe(tree->slots, tree->slot_count, hash);
    if (*slot)
        return slot;
    if (tree->path_count >= tree->max_paths) {
        (void)error_set_field(err, "artifact",
                              "the artifact has more than %llu files and directories",
                              (unsigned long long)tree->max_paths);
        return NULL;
    }
    tree->path_count++;
    *slot = hash | PATH_OCCUPIED;
    return slot;
}

/* ---- the rules ---- */

/* Puts a name without "." and empty parts into `clean`. NULL, or what is wrong. */
static const char *clean_name(const char *name, char *clean)
{
    size_t used = 0;
    if (!*name)
        return "has no name";
    if (*name == '/')
        return "is an absolute path";
    if (strlen(name) > ARTIFACT_PATH_MAX)
        return "has a name that is too long";
    while (*name) {
        size_t bytes = strcspn(name, "/");
        if (bytes == 2 && memcmp(name, "..", 2) == 0)
            return "leads out of the artifact by \"..\"";
        if (bytes > 0 && !(bytes == 1 && name[0] == '.')) {
            if (used > 0)
                clean[used++] = '/';
            memcpy(clean + used, name, bytes);
            used += bytes;
        }
        name += bytes;
        name += strspn(name, "/");
    }
    clean[used] = '\0';
    return NULL;
}

static bool begins_with(const char *text, size_t bytes, const char *start)
{
    return bytes >= strlen(start) && memcmp(text, start, strlen(start)) == 0;
}

/* What the deployment itself keeps in the directory: an artifact that brings it could pass
 * for a finished install, or stand in for an execution (docs/compatibility.md, W23). */
static bool is_reserved(const char *clean)
{
    static const char lock_end[] = "-lock";
    size_t bytes = strcspn(clean, "/");
    size_t end = sizeof(lock_end) - 1;
    if (bytes == 7 && memcmp(clean, ".mastra", 7) == 0)
        return true;
    if (begins_with(clean, bytes, ".mastra-install-hash") ||
        begins_with(clean, bytes, ".mastra-worker.tar.gz"))
        return true;
    return begins_with(clean, bytes, ".mastra-") && bytes >= end &&
           memcmp(clean + bytes - end, lock_end, end) == 0;
}

/* A link may begin with as many ".." as it lies deep; after that, names only. */
static const char *check_target(const char *clean, const char *target)
{
    size_t depth = 0;
    bool has_named = false;
    if (!*target)
        return "is a link to nothing";
    if (*target == '/')
        return "is a link to an absolute path";
    for (const char *slash = strchr(clean, '/'); slash; slash = strchr(slash + 1, '/'))
        depth++;
    while (*target) {
        size_t bytes = strcspn(target, "/");
        bool is_up = bytes == 2 && memcmp(target, "..", 2) == 0;
        if (is_up && has_named)
            return "is a link with \"..\" after a name, which may lead out of the artifact";
        if (is_up && depth-- == 0)
            return "is a link that leads out of the artifact";
        if (!is_up && !(bytes == 1 && target[0] == '.'))
            has_named = true;
        target += bytes;
        target += strspn(target, "/");
    }
    return NULL;
}

/* Marks every directory on the way to the name; none of them may be a link. Those that the
 * entry before lies in are known. */
static int take_parents(struct artifact_tree *tree, const char *shown, struct error *err)
{
    const char *name = tree->name;
    const char *last = strrchr(name, '/');
    size_t bytes = last ? (size_t)(last - name) : 0;
    if (strlen(tree->parent) == bytes && memcmp(tree->parent, name, bytes) == 0)
        return 0;
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        uint64_t *slot = find(tree, name, (size_t)(slash - name), err);
        if (!slot)
            return -1;
        if (*slot & PATH_SYMLINK)
            return artifact_refuse(err, shown, "lies below a symbolic link");
        *slot |= PATH_DIRECTORY;
    }
    memcpy(tree->parent, name, bytes);
    tree->parent[bytes] = '\0';
    return 0;
}

static int check_hard_link(struct artifact_tree *tree, const struct artifact_entry *entry,
                           struct error *err)
{
    if (clean_name(entry->link, tree->target) != NULL)
        return artifact_refuse(err, entry->name,
                               "is a hard link that leads out of the artifact");
    if (is_reserved(tree->target))
        return artifact_refuse(err, entry->name,
                               "is a hard link to a name that the deployment itself uses");
    if (entry->is_overridden)
        return 0;
    uint64_t *slot = find(tree, tree->target, strlen(tree->target), err);
    if (!slot)
        return -1;
    if (!(*slot & PATH_FILE) || (*slot & PATH_SYMLINK))
        return artifact_refuse(err, entry->name, "is a hard link to no file before it");
    return 0;
}

/* A tar that meets a link in the place of what it unpacks may follow it. */
static int mark(struct artifact_tree *tree, const struct artifact_entry *entry,
                struct error *err)
{
    uint64_t *slot = find(tree, tree->name, strlen(tree->name), err);
    if (!slot)
        return -1;
    bool is_link = entry->kind == TAR_SYMLINK;
    if (is_link && (*slot & PATH_DIRECTORY))
        return artifact_refuse(err, entry->name,
                               "is a symbolic link in the place of a directory");
    if (!is_link && (*slot & PATH_SYMLINK))
        return artifact_refuse(err, entry->name, "stands in the place of a symbolic link");
    if (is_link)
        *slot |= PATH_SYMLINK;
    else
        *slot |= entry->kind == TAR_DIRECTORY ? PATH_DIRECTORY : PATH_FILE;
    return 0;
}

int artifact_tree_add(struct artifact_tree *tree, const struct artifact_entry *entry,
                      const char **ret_name, struct error *err)
{
    const char *wrong = clean_name(entry->name, tree->name);
    bool is_root = !wrong && tree->name[0] == '\0';
    if (is_root && entry->kind != TAR_DIRECTORY)
        wrong = "has no name";
    if (!wrong && is_reserved(tree->name))
        wrong = "has a name that the deployment itself uses";
    if (!wrong && entry->kind == TAR_SYMLINK)
        wrong = check_target(tree->name, entry->link);
    if (wrong)
        return artifact_refuse(err, entry->name, wrong);
    if (!is_root &&
        (take_parents(tree, entry->name, err) != 0 ||
         (entry->kind == TAR_HARDLINK && check_hard_link(tree, entry, err) != 0) ||
         mark(tree, entry, err) != 0))
        return -1;
    *ret_name = tree->name;
    return 0;
}
