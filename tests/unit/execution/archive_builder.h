/* Tar archives made by hand, so that they can be as wrong as they like, and gzip around
 * them. Everything grows on the heap and is freed by archive_done. */
#pragma once

#include "support.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct archive {
    unsigned char *data;
    size_t bytes;
    size_t capacity;
};

static inline void archive_append(struct archive *archive, const void *data, size_t bytes)
{
    if (archive->bytes + bytes > archive->capacity) {
        archive->capacity = (archive->bytes + bytes) * 2;
        archive->data = realloc(archive->data, archive->capacity);
        assert_non_null(archive->data);
    }
    if (bytes > 0)
        memcpy(archive->data + archive->bytes, data, bytes);
    archive->bytes += bytes;
}

static inline void archive_pad(struct archive *archive)
{
    static const unsigned char zeros[512];
    archive_append(archive, zeros, -archive->bytes % 512);
}

/* A ustar header; NULL and 0 leave fields empty. */
struct header {
    const char *name;
    const char *prefix;
    const char *link;
    char type; /* 0: '0' */
    unsigned mode;
    unsigned long size;
    const char *magic; /* NULL: "ustar" NUL "00"; else 8 bytes */
    bool bad_sum;
    bool v7_type; /* type NUL */
};

static inline void put_field(unsigned char *field, const char *text, size_t size)
{
    size_t length = text ? strlen(text) : 0;
    assert_true(length <= size);
    if (length)
        memcpy(field, text, length);
}

static inline void archive_header(struct archive *archive, const struct header *header)
{
    unsigned char block[512] = {0};
    char number[16];
    unsigned sum = 0;
    put_field(block, header->name, 100);
    (void)snprintf(number, sizeof(number), "%07o", header->mode ? header->mode : 0644U);
    put_field(block + 100, number, 8);
    put_field(block + 108, "0000000", 8);
    put_field(block + 116, "0000000", 8);
    (void)snprintf(number, sizeof(number), "%011lo", header->size);
    put_field(block + 124, number, 12);
    put_field(block + 136, "00000000000", 12);
    block[156] = header->v7_type ? 0 : (unsigned char)(header->type ? header->type : '0');
    put_field(block + 157, header->link, 100);
    memcpy(block + 257, header->magic ? header->magic : "ustar\00000", 8);
    put_field(block + 345, header->prefix, 155);
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < sizeof(block); i++)
        sum += block[i];
    (void)snprintf(number, sizeof(number), "%06o", sum + header->bad_sum);
    memcpy(block + 148, number, 7);
    archive_append(archive, block, sizeof(block));
}

static inline void archive_entry(struct archive *archive, char type, const char *name,
                                 const char *link, const char *data)
{
    size_t bytes = data ? strlen(data) : 0;
    archive_header(
        archive, &(struct header){.name = name, .type = type, .link = link, .size = bytes});
    archive_append(archive, data, bytes);
    archive_pad(archive);
}

/* Data of any size and NULs. */
static inline void archive_bytes(struct archive *archive, char type, const char *name,
                                 const void *data, size_t bytes)
{
    archive_header(archive, &(struct header){.name = name, .type = type, .size = bytes});
    archive_append(archive, data, bytes);
    archive_pad(archive);
}

/* One pax record, of up to 990 bytes, for what follows ('x') or for all ('g'). */
static inline void archive_pax(struct archive *archive, char type, const char *name,
                               const char *value)
{
    char record[1024];
    int length = (int)(strlen(name) + strlen(value)) + 3;
    length += length + 1 > 9 ? (length + 2 > 99 ? 3 : 2) : 1;
    int written = snprintf(record, sizeof(record), "%d %s=%s\n", length, name, value);
    assert_int_equal(written, length);
    archive_bytes(archive, type, "pax", record, (size_t)length);
}

static inline void archive_end(struct archive *archive)
{
    static const unsigned char zeros[1024];
    archive_append(archive, zeros, sizeof(zeros));
}

/* gzip around it; the caller's to free. */
static inline unsigned char *archive_gzip(const struct archive *archive, size_t *ret_bytes)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    size_t room = deflateBound(&stream, archive->bytes) + 64;
    unsigned char *packed = malloc(room);
    assert_non_null(packed);
    stream.next_in = archive->data;
    stream.avail_in = (uInt)archive->bytes;
    stream.next_out = packed;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *ret_bytes = stream.total_out;
    (void)deflateEnd(&stream);
    return packed;
}

static inline void archive_done(struct archive *archive)
{
    free(archive->data);
    *archive = (struct archive){0};
}
