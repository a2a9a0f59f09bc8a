/* Any status file, and any pid, token and process with it: the first byte chooses what was
 * seen, the rest is cut at NULs into the texts. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "execution/status.h"
#include "runtime/arena.h"

/* libFuzzer's own name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); // NOLINT

enum { ARENA_MAX = 4 * 1024 * 1024 };

/* What holds for every status. */
static void check(const struct status *status)
{
    bool has_reason = status->state == STATUS_UNKNOWN || status->state == STATUS_LOST;
    assert(has_reason == (status->reason != NULL));
    assert(status->has_exit_code == (status->state == STATUS_EXITED));
    assert(!status->has_exit_code || (status->exit_code >= 0 && status->exit_code <= 255));
}

static const char *take_text(struct arena *arena, const char **at, size_t *left)
{
    size_t length = strnlen(*at, *left);
    const char *text = arena_text_n(arena, *at, length);
    size_t step = length < *left ? length + 1 : length;
    *at += step;
    *left -= step;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) // NOLINT
{
    if (size == 0)
        return 0;
    arena_scoped struct arena *arena = arena_new(ARENA_MAX);
    const char *at = (const char *)data + 1;
    size_t left = size - 1;
    uint8_t flags = data[0];
    struct observation seen = {
        .directory_exists = true,
        .status_exists = true,
        .status_readable = !(flags & 1),
        .status_text = take_text(arena, &at, &left),
        .pid_file_exists = flags & 2,
        .pid_text = take_text(arena, &at, &left),
        .token_text = take_text(arena, &at, &left),
        .has_proc = flags & 4,
        .claimed_boot = (flags & 128) ? "b1" : NULL,
        .boot = "b2",
        .process_state = (flags & 8) ? 'S' : '\0',
        .start_time = take_text(arena, &at, &left),
        .blank_start_time = take_text(arena, &at, &left),
        .signalable = flags & 16,
        .launcher_looked_for = flags & 32,
        .launcher_alive = flags & 64,
    };
    if (!seen.status_text || !seen.pid_text || !seen.token_text || !seen.start_time ||
        !seen.blank_start_time)
        return 0;
    struct status status;
    if (status_judge(&seen, "a1", arena, &status) == 0)
        check(&status);
    return 0;
}
