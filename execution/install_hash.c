/* Keeping the files that count, and hashing them in their order. */
#include "execution/install_hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "execution/artifact_temp.h"

/* The order is the contract's. package.json goes without its name. */
static const char *const files[INSTALL_HASH_FILES] = {
    "package.json",   "package-lock.json", "npm-shrinkwrap.json",
    "pnpm-lock.yaml", "yarn.lock",         "bun.lock"};

void install_hash_init(struct install_hash *hash, const char *temp_dir)
{
    *hash = (struct install_hash){.temp_dir = temp_dir, .fd = -1};
}

void install_hash_done(struct install_hash *hash)
{
    if (hash->fd >= 0)
        (void)close(hash->fd);
    hash->fd = -1;
}

int install_hash_index(const char *name)
{
    for (int i = 0; i < INSTALL_HASH_FILES; i++) {
        if (strcmp(name, files[i]) == 0)
            return i;
    }
    return -1;
}

int install_hash_begin(struct install_hash *hash, int index, struct error *err)
{
    if (hash->fd < 0) {
        hash->fd = artifact_temp_open(hash->temp_dir);
        if (hash->fd < 0)
            return artifact_temp_fail(err, hash->fd);
    }
    hash->present[index] = true;
    hash->bytes[index] = 0;
    return 0;
}

/* Each file has a stretch of its own in the temporary file. */
static uint64_t place_of(int index)
{
    return (uint64_t)index * INSTALL_HASH_FILE_MAX;
}

int install_hash_write(struct install_hash *hash, int index, const void *data, size_t bytes,
                       struct error *err)
{
    int failed =
        artifact_temp_write(hash->fd, place_of(index) + hash->bytes[index], data, bytes);
    if (failed)
        return artifact_temp_fail(err, failed);
    hash->bytes[index] += bytes;
    return 0;
}

static int hash_file(const struct install_hash *hash, int index, EVP_MD_CTX *digest)
{
    unsigned char piece[2048];
    for (uint64_t at = 0; at < hash->bytes[index];) {
        uint64_t left = hash->bytes[index] - at;
        size_t bytes = left < sizeof(piece) ? (size_t)left : sizeof(piece);
        int failed = artifact_temp_read(hash->fd, place_of(index) + at, piece, bytes);
        if (failed)
            return failed;
        if (EVP_DigestUpdate(digest, piece, bytes) != 1)
            return -ENOMEM;
        at += bytes;
    }
    return 0;
}

static int hash_all(const struct install_hash *hash, const char *command,
                    EVP_MD_CTX *digest)
{
    if (EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1)
        return -ENOMEM;
    for (int i = 0; i < INSTALL_HASH_FILES; i++) {
        if (!hash->present[i])
            continue;
        if (i > 0 && EVP_DigestUpdate(digest, files[i], strlen(files[i])) != 1)
            return -ENOMEM;
        int failed = hash_file(hash, i, digest);
        if (failed)
            return failed;
    }
    return EVP_DigestUpdate(digest, command, strlen(command)) == 1 ? 0 : -ENOMEM;
}

int install_hash_finish(const struct install_hash *hash, const char *command,
                        char ret_text[INSTALL_HASH_LENGTH + 1], struct error *err)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    if (!hash->present[0]) {
        ret_text[0] = '\0';
        return 0;
    }
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    int failed = digest ? hash_all(hash, command, digest) : -ENOMEM;
    if (!failed && EVP_DigestFinal_ex(digest, sum, NULL) != 1)
        failed = -ENOMEM;
    EVP_MD_CTX_free(digest);
    if (failed)
        return artifact_temp_fail(err, failed);
    for (int i = 0; i < INSTALL_HASH_LENGTH / 2; i++)
        (void)snprintf(ret_text + (size_t)i * 2, 3, "%02x", sum[i]);
    return 0;
}
