/* A piece of an execution's standard output or error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
