/* A piece of an execution's standard output or error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/error.h"

struct status;

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR };

enum { OUTPUT_DEFAULT_MAX_BYTES = 1024 * 1024 };
/* The most that one job may ask of each stream; more is refused, not cut. */
enum { OUTPUT_LARGEST_MAX_BYTES = 16 * 1024 * 1024 };

const char *output_stream_name(enum output_stream stream);

struct output_request {
    bool wanted;
    uint64_t offset;    /* from the start of the file, in bytes */
    uint64_t max_bytes; /* 1 to OUTPUT_LARGEST_MAX_BYTES */
};

/* Data lives in the arena. */
struct output_piece {
    enum output_stream stream;
    const char *data;
    size_t size;
    uint64_t offset;
    uint64_t next_offset;
    uint64_t total_bytes;
    bool eof;       /* the execution has ended and nothing lies past next_offset */
    bool truncated; /* next_offset < total_bytes */
    bool
        interrupted; /* the state of the execution is not known: more may or may not come */
};

/* 0, or invalid_argument on field max_bytes. What is not wanted is not checked. */
int output_check(const struct output_request *request, struct error *err);

/* Bytes of an answer that holds max_bytes of output, as base64 with its line ends or raw.
 */
size_t output_encoded_bytes(uint64_t max_bytes, bool base64);

/* Decodes base64 with blanks and line ends anywhere into the arena. -1 where it is no
 * base64, -2 where memory runs out; the outputs are then untouched. */
int output_decode(const char *text, size_t size, struct arena *arena, char **ret_data,
                  size_t *ret_size);

/* Fills the members of a piece that follow from the offset asked for, the bytes got, the
 * file's size and the state seen before them. */
void output_judge(const struct status *status, uint64_t offset, uint64_t total_bytes,
                  const char *data, size_t size, struct output_piece *piece);
