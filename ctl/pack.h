/* Packing pairs of a map that may be left out.
 *
 * A map begins with its size, so what packs pairs is called twice: with a NULL packer, when
 * it only counts them, and to pack. Each function gives how many pairs it packs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <msgpack.h>

void pack_text(msgpack_packer *packer, const char *text);
void pack_text_n(msgpack_packer *packer, const char *text, size_t size);
void pack_bytes(msgpack_packer *packer, const void *data, size_t size);

/* None where text is NULL. */
size_t pack_key_text(msgpack_packer *packer, const char *key, const char *text);
/* None where the number is zero: that stands for left out, and the worker has a default. */
size_t pack_key_number(msgpack_packer *packer, const char *key, int64_t number);
/* None where the flag is not set. */
size_t pack_key_true(msgpack_packer *packer, const char *key, bool wanted);
