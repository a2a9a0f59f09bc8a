/* cua-fleet: computer-use desktops. Its machines take no commands and its ids do not lead
 * back to a machine, so it is registered for one purpose: to answer with the right error.
 */
#include "providers/provider.h"

static int cua_fleet_open(const struct descriptor *descriptor,
                          const struct profile *profile, struct arena *arena,
                          struct sandbox **ret_sandbox, struct error *err)
{
    (void)descriptor;
    (void)profile;
    struct sandbox *sandbox = arena_calloc(arena, 1, sizeof(*sandbox));
    if (!sandbox)
        return error_set_memory(err, "a sandbox handle");
    *ret_sandbox = sandbox;
    return 0;
}

static void cua_fleet_close(struct sandbox *sandbox)
{
    (void)sandbox;
}

extern const struct provider provider_cua_fleet;
const struct provider provider_cua_fleet = {
    .name = "cua-fleet",
    .summary = "computer-use desktops; no command execution",
    .open = cua_fleet_open,
    .close = cua_fleet_close,
};
