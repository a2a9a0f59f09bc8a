/* What msgpack-c reports of its writer is what the writer says itself, so it is dropped. */
#include "ctl/pack.h"

#include <string.h>

void pack_text_n(msgpack_packer *packer, const char *text, size_t size)
{
    (void)msgpack_pack_str_with_body(packer, text, size);
}

void pack_text(msgpack_packer *packer, const char *text)
{
    pack_text_n(packer, text, strlen(text));
}

void pack_bytes(msgpack_packer *packer, const void *data, size_t size)
{
    (void)msgpack_pack_bin_with_body(packer, data ? data : "", size);
}

size_t pack_key_text(msgpack_packer *packer, const char *key, const char *text)
{
    if (!text)
        return 0;
    if (packer) {
        pack_text(packer, key);
        pack_text(packer, text);
    }
    return 1;
}

size_t pack_key_number(msgpack_packer *packer, const char *key, int64_t number)
{
    if (number == 0)
        return 0;
    if (packer) {
        pack_text(packer, key);
        (void)msgpack_pack_int64(packer, number);
    }
    return 1;
}

size_t pack_key_true(msgpack_packer *packer, const char *key, bool wanted)
{
    if (!wanted)
        return 0;
    if (packer) {
        pack_text(packer, key);
        (void)msgpack_pack_true(packer);
    }
    return 1;
}
