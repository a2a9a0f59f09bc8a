/* Both forms walk the registry and the table of capabilities. */
#include "ctl/providers.h"

#include <assert.h>
#include <string.h>

#include "ctl/json_output.h"
#include "ctl/table.h"
#include "providers/provider.h"
#include "providers/registry.h"

/* The eight names would be wider than a terminal, so the heading breaks them at their first
 * underscore. */
static void add_heading(struct table *table)
{
    table_add_text(table, "");
    for (int i = 0; i < CAPABILITY_COUNT; i++) {
        const char *name = capability_name((enum capability)i);
        const char *rest = strchr(name, '_');
        table_add(table, name, rest ? (size_t)(rest - name) : 0);
    }
    table_add_text(table, "PROVIDER");
    for (int i = 0; i < CAPABILITY_COUNT; i++) {
        const char *name = capability_name((enum capability)i);
        const char *rest = strchr(name, '_');
        table_add_text(table, rest ? rest + 1 : name);
    }
}

int providers_append_table(struct arena *arena, struct buffer *out)
{
    static_assert(1 + CAPABILITY_COUNT <= TABLE_MAX_WIDTH, "a column a capability");
    struct table matrix;
    struct table summaries;
    size_t count = 0;
    const struct provider *const *providers = registry_all(&count);
    table_init(&matrix, 1 + CAPABILITY_COUNT, arena);
    table_init(&summaries, 2, arena);
    add_heading(&matrix);
    for (size_t i = 0; i < count; i++) {
        table_add_text(&matrix, providers[i]->name);
        for (int j = 0; j < CAPABILITY_COUNT; j++)
            table_add_text(&matrix,
                           provider_can(providers[i], (enum capability)j) ? "yes" : "-");
        table_add_text(&summaries, providers[i]->name);
        table_add_text(&summaries, providers[i]->summary);
    }
    int failed = table_append(&matrix, out);
    if (!failed)
        failed = buffer_append_text(out, "\n");
    return failed ? failed : table_append(&summaries, out);
}

/* jansson's setters refuse NULL, and json_decref takes it. */
static json_t *provider_value(const struct provider *provider)
{
    json_t *value = json_object();
    json_t *capabilities = json_object();
    json_t *keys = json_array();
    int failed = 0;
    for (int i = 0; i < CAPABILITY_COUNT && !failed; i++)
        failed =
            json_object_set_new(capabilities, capability_name((enum capability)i),
                                json_boolean(provider_can(provider, (enum capability)i)));
    for (const char *const *key = provider->descriptor_keys; key && *key && !failed; key++)
        failed = json_array_append_new(keys, json_string(*key));
    if (!failed)
        failed = json_object_set_new(value, "name", json_string(provider->name));
    if (!failed)
        failed = json_object_set_new(value, "summary", json_string(provider->summary));
    if (!failed)
        failed = json_object_set(value, "capabilities", capabilities);
    if (!failed)
        failed = json_object_set(value, "descriptor_keys", keys);
    json_decref(capabilities);
    json_decref(keys);
    if (!failed)
        return value;
    json_decref(value);
    return NULL;
}

int providers_append_json(struct buffer *out)
{
    size_t count = 0;
    const struct provider *const *providers = registry_all(&count);
    json_t *list = json_array();
    json_t *value = json_object();
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++)
        failed = json_array_append_new(list, provider_value(providers[i]));
    if (!failed)
        failed = json_object_set(value, "providers", list);
    json_decref(list);
    if (!failed)
        return json_output_take(value, out);
    json_decref(value);
    return json_output_take(NULL, out);
}
