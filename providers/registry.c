/* The table of providers. A new one is one file and one row here. */
#include "providers/registry.h"

#include <string.h>

#include "providers/provider.h"

extern const struct provider provider_local;
extern const struct provider provider_cua_fleet;

static const struct provider *const registry[] = {
    &provider_local,
    &provider_cua_fleet,
};

const struct provider *const *registry_all(size_t *ret_count)
{
    *ret_count = sizeof(registry) / sizeof(registry[0]);
    return registry;
}

const struct provider *registry_find(const char *type_name)
{
    for (size_t i = 0; i < sizeof(registry) / sizeof(registry[0]); i++) {
        if (strcmp(registry[i]->name, type_name) == 0)
            return registry[i];
    }
    return NULL;
}
