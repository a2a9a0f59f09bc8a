/* getrandom, in full. */
#include "runtime/random.h"

#include <sys/random.h>
#include <sys/types.h>

void random_bytes(void *data, size_t bytes)
{
    unsigned char *rest = data;
    while (bytes > 0) {
        ssize_t got = getrandom(rest, bytes, 0);
        if (got < 0)
            continue; /* EINTR: nothing else is possible without GRND_NONBLOCK */
        rest += got;
        bytes -= (size_t)got;
    }
}

void random_hex(char *text, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char *random = (unsigned char *)text + bytes;
    random_bytes(random, bytes); /* in the second half, which the digits reach last */
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = random[i];
        text[2 * i] = digits[byte >> 4];
        text[2 * i + 1] = digits[byte & 15];
    }
    text[2 * bytes] = '\0';
}

uint64_t random_spread_ms(uint64_t ms)
{
    uint32_t random = 0;
    random_bytes(&random, sizeof(random));
    return ms - ms / 4 + random % (ms / 2 + 1);
}
