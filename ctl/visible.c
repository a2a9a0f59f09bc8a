/* One pass; runs of plain characters are copied as they are. */
#include "ctl/visible.h"

#include <stdint.h>
#include <string.h>

#include "runtime/utf8.h"

/* The code point of a well-formed sequence of `bytes` bytes. */
static uint32_t code_point(const char *data, size_t bytes)
{
    static const unsigned char lead_masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)data[0] & lead_masks[bytes];
    for (size_t i = 1; i < bytes; i++)
        code = code << 6 | ((unsigned char)data[i] & 0x3f);
    return code;
}

/* https://www.unicode.org/reports/tr9/ for the directions: they can make a line read
 * otherwise than it is. */
static bool steers(uint32_t code)
{
    return (code >= 0x80 && code <= 0x9f) || code == 0x061c ||
           (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

static bool is_control(unsigned char byte, bool keep_lines)
{
    if (keep_lines && (byte == '\n' || byte == '\t'))
        return false;
    return byte < 0x20 || byte == 0x7f;
}

/* Whether bytes could follow that make a character of it. */
static bool is_begun(const char *data, size_t size)
{
    /* Behind some leads only a part of 0x80 to 0xbf may follow; one of these always may. */
    static const char followers[][3] = {{"\x80\x80\x80"}, {"\xa0\x80\x80"}};
    for (size_t i = 0; i < sizeof(followers) / sizeof(followers[0]); i++) {
        char whole[4];
        memcpy(whole, data, size);
        memcpy(whole + size, followers[i], sizeof(whole) - size);
        if (utf8_step(whole, sizeof(whole)) > size)
            return true;
    }
    return false;
}

size_t visible_whole(const char *data, size_t size)
{
    for (size_t tail = 1; tail <= 3 && tail <= size; tail++) {
        if (is_begun(data + size - tail, tail))
            return size - tail;
    }
    return size;
}

int visible_append(struct buffer *out, const char *data, size_t size, bool keep_lines)
{
    size_t plain = 0; /* where the run began that is still to be copied */
    size_t at = 0;
    int failed = 0;
    while (at < size && !failed) {
        size_t step = utf8_step(data + at, size - at);
        uint32_t code = step ? code_point(data + at, step) : (unsigned char)data[at];
        bool as_byte =
            step == 0 || (step == 1 && is_control((unsigned char)code, keep_lines));
        if (!as_byte && !steers(code)) {
            at += step;
            continue;
        }
        failed = buffer_append(out, data + plain, at - plain);
        if (!failed)
            failed = buffer_append_format(out, as_byte ? "\\x%02x" : "\\u%04x", code);
        at += step ? step : 1;
        plain = at;
    }
    return failed ? failed : buffer_append(out, data + plain, at - plain);
}
