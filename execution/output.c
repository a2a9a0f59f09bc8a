/* Pieces of output: what may be asked for, how it travels, what it says about the end. */
#include "execution/output.h"

#include <openssl/evp.h>
#include <string.h>

#include "execution/status.h"

const char *output_stream_name(enum output_stream stream)
{
    return stream == OUTPUT_STDOUT ? "stdout" : "stderr";
}

int output_check(const struct output_request *request, struct error *err)
{
    if (!request->wanted)
        return 0;
    if (request->max_bytes >= 1 && request->max_bytes <= OUTPUT_LARGEST_MAX_BYTES)
        return 0;
    return error_set_field(err, "max_bytes", "max_bytes must be from 1 to %d",
                           OUTPUT_LARGEST_MAX_BYTES);
}

size_t output_encoded_bytes(uint64_t max_bytes, bool base64)
{
    if (!base64)
        return (size_t)max_bytes;
    /* Four letters for three bytes; a line end, with a CR perhaps, after 76 letters, or
     * after fewer with some tools. */
    size_t letters = (size_t)(max_bytes + 2) / 3 * 4;
    return letters + letters / 19 + 64;
}

/* Copies all but white space and gives the size of the copy. */
static size_t squeeze(const char *text, size_t size, char *copy)
{
    size_t kept = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            copy[kept++] = c;
    }
    return kept;
}

int output_decode(const char *text, size_t size, struct arena *arena, char **ret_data,
                  size_t *ret_size)
{
    /* OpenSSL counts in int. */
    if (size > INT32_MAX)
        return -1;
    char *data = arena_alloc(arena, size + 1);
    if (!data)
        return -2;
    size_t letters = squeeze(text, size, data);
    size_t padding = 0;
    while (padding < 2 && padding < letters && data[letters - 1 - padding] == '=')
        padding++;
    /* The decoder takes padding anywhere and counts it as bytes. */
    if (letters % 4 != 0 || memchr(data, '=', letters - padding))
        return -1;
    /* It writes behind what it has read, so one buffer serves both. */
    unsigned char *bytes = (unsigned char *)data;
    int decoded = EVP_DecodeBlock(bytes, bytes, (int)letters);
    if (decoded < 0)
        return -1;
    *ret_data = data;
    *ret_size = (size_t)decoded - padding;
    return 0;
}

void output_judge(const struct status *status, uint64_t offset, uint64_t total_bytes,
                  const char *data, size_t size, struct output_piece *piece)
{
    piece->data = data;
    piece->size = size;
    piece->offset = offset;
    piece->next_offset = offset + size;
    piece->total_bytes = total_bytes;
    piece->eof = status_is_terminal(status) && piece->next_offset >= total_bytes;
    piece->truncated = piece->next_offset < total_bytes;
    piece->interrupted =
        status->state == STATUS_UNKNOWN || status->state == STATUS_PROVIDER_UNAVAILABLE;
}
