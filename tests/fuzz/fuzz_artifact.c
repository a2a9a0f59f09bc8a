/* Any bytes as an artifact: taken or refused, never out of bounds, never for long. The
 * first byte chooses whether gzip is read, which the fuzzer cannot checksum, or the tar
 * archive alone, and in pieces of which size. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "execution/artifact_check.h"

/* libFuzzer's own name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); // NOLINT

struct bytes {
    const uint8_t *data;
    size_t size;
};

static int read_bytes(void *arg, uint64_t offset, void *buffer, size_t count)
{
    const struct bytes *bytes = arg;
    if (offset > bytes->size || count > bytes->size - offset)
        return -EIO;
    memcpy(buffer, bytes->data + offset, count);
    return 0;
}

static int feed(struct artifact_check *check, const struct bytes *bytes, size_t piece,
                struct error *err)
{
    for (size_t at = 0; at < bytes->size; at += piece) {
        size_t left = bytes->size - at;
        if (artifact_check_feed(check, bytes->data + at, left < piece ? left : piece,
                                err) != 0)
            return -1;
    }
    return artifact_check_end(check, err);
}

static int step(struct artifact_check *check, struct error *err)
{
    int more = 1;
    while (more > 0)
        more = artifact_check_step(check, err);
    return more;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) // NOLINT
{
    if (size == 0)
        return 0;
    struct bytes bytes = {data + 1, size - 1};
    const struct file_source source = {
        .bytes = bytes.size, .read = read_bytes, .arg = &bytes};
    const struct artifact_check_options options = {
        .unpacked_max_bytes = 16 << 20, .max_entries = 10000, .temp_dir = "/tmp"};
    struct artifact_check *check = artifact_check_new(&source, &options);
    if (!check)
        return 0;
    struct error err = {0};
    char hash[INSTALL_HASH_LENGTH + 1];
    size_t piece = data[0] & 0x7F ? data[0] & 0x7F : 512;
    int failed = data[0] & 0x80 ? step(check, &err) : feed(check, &bytes, piece, &err);
    assert(failed == (err.code == ERROR_NONE ? 0 : -1));
    assert(artifact_check_unpacked_bytes(check) <= (16 << 20) + (128 << 10));
    if (!failed) {
        assert(artifact_check_install_hash(check, "true", hash, &err) == 0);
        assert(strlen(hash) == 0 || strlen(hash) == INSTALL_HASH_LENGTH);
    }
    artifact_check_free(check);
    return 0;
}
