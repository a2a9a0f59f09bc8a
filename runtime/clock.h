/* The clocks that are not the loop's (loop_now_ms). */
#pragma once

#include <stdint.h>

/* Milliseconds since 1970, as other machines see them. */
int64_t clock_unix_ms(void);

/* Milliseconds since boot, those asleep included: a lease runs on while the machine is
 * suspended. */
uint64_t clock_boot_ms(void);
