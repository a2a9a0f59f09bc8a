/* zlib does the work; a gzip file is one member after the other, and then zeros perhaps:
 * bsdtar fills its last block with them when it writes to a pipe, and every gunzip knows.
 */
#include "execution/gunzip.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "execution/artifact_temp.h"

enum {
    IN_BYTES = 64 * 1024,
    OUT_BYTES = 128 * 1024,
    GZIP_ONLY = 15 + 16 /* window bits of inflateInit2 for a gzip header and trailer */
};

struct gunzip {
    const struct file_source *source;
    uint64_t offset; /* of what is read next */
    z_stream stream;
    bool between_members;
    bool in_padding; /* only zeros may follow */
    bool is_first_member;
    unsigned char in[IN_BYTES];
    unsigned char out[OUT_BYTES];
};

struct gunzip *gunzip_new(const struct file_source *source)
{
    struct gunzip *gunzip = malloc(sizeof(*gunzip));
    if (!gunzip)
        return NULL;
    memset(gunzip, 0, offsetof(struct gunzip, in));
    gunzip->source = source;
    gunzip->is_first_member = true;
    if (inflateInit2(&gunzip->stream, GZIP_ONLY) != Z_OK) {
        free(gunzip);
        return NULL;
    }
    return gunzip;
}

void gunzip_free(struct gunzip *gunzip)
{
    if (!gunzip)
        return;
    (void)inflateEnd(&gunzip->stream);
    free(gunzip);
}

static bool has_input(const struct gunzip *gunzip)
{
    return gunzip->stream.avail_in > 0 || gunzip->offset < gunzip->source->bytes;
}

static int fill(struct gunzip *gunzip, struct error *err)
{
    uint64_t left = gunzip->source->bytes - gunzip->offset;
    size_t bytes = left < IN_BYTES ? (size_t)left : IN_BYTES;
    if (gunzip->stream.avail_in > 0 || bytes == 0)
        return 0;
    int failed =
        gunzip->source->read(gunzip->source->arg, gunzip->offset, gunzip->in, bytes);
    if (failed)
        return artifact_temp_fail(err, failed);
    gunzip->offset += bytes;
    gunzip->stream.next_in = gunzip->in;
    gunzip->stream.avail_in = (uInt)bytes;
    return 0;
}

static int refuse_more(struct error *err)
{
    return error_set_field(err, "artifact",
                           "the artifact goes on after the end of its gzip file");
}

static int refuse(const struct gunzip *gunzip, int result, struct error *err)
{
    bool in_header = gunzip->stream.total_out == 0;
    if (result == Z_MEM_ERROR)
        return error_set_memory(err, "the artifact");
    if (in_header && !gunzip->is_first_member)
        return refuse_more(err);
    if (result == Z_DATA_ERROR)
        return error_set_field(err, "artifact", "the artifact is %s: %s",
                               in_header ? "no gzip file" : "a damaged gzip file",
                               gunzip->stream.msg ? gunzip->stream.msg : "bad data");
    return error_set_field(err, "artifact",
                           "the artifact is truncated: its gzip file has no end");
}

static int skip_padding(struct gunzip *gunzip, struct error *err)
{
    gunzip->in_padding = true;
    for (uInt i = 0; i < gunzip->stream.avail_in; i++) {
        if (gunzip->stream.next_in[i] != 0)
            return refuse_more(err);
    }
    gunzip->stream.avail_in = 0;
    return 1;
}

/* 1: go on; 0: nothing is left; -1. */
static int inflate_some(struct gunzip *gunzip, struct error *err)
{
    z_stream *stream = &gunzip->stream;
    if (fill(gunzip, err) != 0)
        return -1;
    if (gunzip->between_members && !has_input(gunzip))
        return 0;
    if (gunzip->between_members && (gunzip->in_padding || stream->next_in[0] == 0))
        return skip_padding(gunzip, err);
    if (gunzip->between_members) {
        (void)inflateReset(stream);
        gunzip->between_members = false;
        gunzip->is_first_member = false;
    }
    int result = inflate(stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
        gunzip->between_members = true;
        return 1;
    }
    bool is_cut = stream->avail_out > 0 && !has_input(gunzip);
    if ((result != Z_OK && result != Z_BUF_ERROR) || is_cut)
        return refuse(gunzip, result, err);
    return 1;
}

int gunzip_next(struct gunzip *gunzip, const unsigned char **ret_data, size_t *ret_bytes,
                struct error *err)
{
    int going = 1;
    gunzip->stream.next_out = gunzip->out;
    gunzip->stream.avail_out = OUT_BYTES;
    while (going == 1 && gunzip->stream.avail_out > 0)
        going = inflate_some(gunzip, err);
    size_t bytes = OUT_BYTES - gunzip->stream.avail_out;
    if (going < 0 || bytes == 0)
        return going < 0 ? -1 : 0;
    *ret_data = gunzip->out;
    *ret_bytes = bytes;
    return 1;
}
