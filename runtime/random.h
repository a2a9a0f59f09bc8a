/* Random bytes from the kernel, and waits spread by them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Fills `data`. The kernel's generator does not fail once it is seeded, which boot does. */
void random_bytes(void *data, size_t bytes);

/* Twice `bytes` random hexadecimal digits and a NUL. */
void random_hex(char *text, size_t bytes);

/* A number of milliseconds from three quarters to five quarters of `ms`: spreads processes
 * that started together. */
uint64_t random_spread_ms(uint64_t ms);
