/* The registry: one row for each kind of provider that this build knows. */
#pragma once

#include <stddef.h>

struct provider;

/* All rows, *ret_count of them. */
const struct provider *const *registry_all(size_t *ret_count);

/* The provider of that type name; NULL where there is none. */
const struct provider *registry_find(const char *type_name);
