/* Bytes with a length: text that is not checked yet, and may hold NULs. */
#pragma once

#include <stddef.h>

struct span {
    const char *data; /* lent; NULL: absent */
    size_t size;
};
