/* The configuration file: any text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "worker/config.h"

/* libFuzzer's entry point has the name it has.
 * NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *no_environment(const char *variable)
{
    (void)variable;
    return NULL;
}

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct error err = {0};
    arena_scoped struct arena *arena = arena_new(1024 * 1024);
    char *text = malloc(size + 1);
    if (!arena || !text) {
        free(text);
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    if (config_parse(text, "fuzz.ini", no_environment, arena, &config, &err) != 0 &&
        err.message[0] == '\0')
        abort(); /* a refusal says why */
    free(text);
    return 0;
}
