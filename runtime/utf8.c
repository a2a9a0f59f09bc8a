/* Stepping through text that may be anything. */
#include "runtime/utf8.h"

size_t utf8_step(const char *data, size_t bytes)
{
    const unsigned char *text = (const unsigned char *)data;
    if (bytes == 0)
        return 0;
    if (text[0] < 0x80)
        return 1;
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    size_t length = text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    unsigned char least = text[0] == 0xe0 ? 0xa0 : text[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char most = text[0] == 0xed ? 0x9f : text[0] == 0xf4 ? 0x8f : 0xbf;
    if (bytes < length || text[1] < least || text[1] > most)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    return length;
}

bool utf8_is_valid(const char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t step = utf8_step(data + at, bytes - at);
        if (step == 0)
            return false;
        at += step;
    }
    return true;
}
