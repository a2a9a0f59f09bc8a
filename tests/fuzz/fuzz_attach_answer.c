/* Any output of the command that looks at an execution: read and judged, never out of
 * bounds, and never a piece that was not announced. The first byte chooses how output
 * travels and what was asked for. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "execution/look.h"
#include "execution/status.h"
#include "runtime/arena.h"

/* libFuzzer's own name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); // NOLINT

enum { ARENA_MAX = 4 * 1024 * 1024 };

static void use(const char *data, size_t size)
{
    volatile char sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = (char)(sum ^ data[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) // NOLINT
{
    if (size == 0)
        return 0;
    arena_scoped struct arena *arena = arena_new(ARENA_MAX);
    uint8_t flags = data[0];
    struct look_request request = {
        .nonce = "00112233445566778899aabbccddeeff",
        .remote_dir = (flags & 1) ? "/app" : NULL,
        .execution_id = "a1",
        .base64 = flags & 2,
        .stdout_request = {.wanted = flags & 4, .max_bytes = 64},
        .stderr_request = {.wanted = flags & 8, .max_bytes = 64},
    };
    struct look look;
    struct status status;
    struct error err = {0};
    if (look_parse((const char *)data + 1, size - 1, &request, arena, &look, &err) != 0) {
        assert(err.code != ERROR_NONE);
        return 0;
    }
    for (size_t i = 0; i < 2; i++) {
        assert(look.outputs[i].size <= 64);
        use(look.outputs[i].data, look.outputs[i].size);
    }
    (void)!status_judge(&look.observation, "a1", arena, &status);
    return 0;
}
