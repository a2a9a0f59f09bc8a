/* Well-formed UTF-8, as Unicode defines it: no overlong forms, no surrogates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The length of the well-formed sequence that data begins with, 1 to 4; 0: none. */
size_t utf8_step(const char *data, size_t bytes);

bool utf8_is_valid(const char *data, size_t bytes);
