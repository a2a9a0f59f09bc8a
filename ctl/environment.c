/* Kept as the job packs them. A few thousand names at most, so they are compared one by
 * one. */
#include "ctl/environment.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SHOWN = 80 };

void environment_init(struct environment *environment, struct arena *arena,
                      const char *(*get)(const char *variable))
{
    *environment = (struct environment){.arena = arena, .get = get};
}

static bool is_name(const struct span *name)
{
    for (size_t i = 0; i < name->size; i++) {
        char c = name->data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && !(i > 0 && c >= '0' && c <= '9'))
            return false;
    }
    return name->size > 0;
}

/* What has no equals sign is a name, whose value attachctl's environment has. */
static int find_value(const struct environment *environment, const struct span *name,
                      struct span *ret_value, struct error *err)
{
    char *copy = arena_text_n(environment->arena, name->data, name->size);
    if (!copy)
        return error_set_memory(err, "an environment");
    const char *value = environment->get(copy);
    if (!value)
        return error_set(err, ERROR_CONFIGURATION,
                         "no value stands there, nor in attachctl's environment");
    *ret_value = (struct span){value, strlen(value)};
    return 0;
}

static struct job_variable *find_variable(const struct environment *environment,
                                          const struct span *name)
{
    for (size_t i = 0; i < environment->count; i++) {
        struct job_variable *variable = &environment->variables[i];
        if (variable->name.size == name->size &&
            memcmp(variable->name.data, name->data, name->size) == 0)
            return variable;
    }
    return NULL;
}

static int put(struct environment *environment, const struct span *name,
               const struct span *value, struct error *err)
{
    struct job_variable *variable = find_variable(environment, name);
    if (!environment->variables)
        environment->variables =
            arena_calloc(environment->arena, JOB_DEPLOY_MAX_ENV, sizeof(*variable));
    if (!environment->variables)
        return error_set_memory(err, "an environment");
    if (!variable && environment->count == JOB_DEPLOY_MAX_ENV)
        return error_set(err, ERROR_CONFIGURATION, "there are more than %d variables",
                         JOB_DEPLOY_MAX_ENV);
    if (!variable)
        variable = &environment->variables[environment->count++];
    *variable = (struct job_variable){*name, *value};
    return 0;
}

static int add(struct environment *environment, const char *setting, size_t size,
               struct error *err)
{
    const char *equals = memchr(setting, '=', size);
    struct span name = {setting, equals ? (size_t)(equals - setting) : size};
    struct span value = {NULL, 0};
    if (!is_name(&name))
        return error_set(err, ERROR_CONFIGURATION,
                         "a variable is NAME=VALUE or NAME, the name being letters, digits "
                         "and underscores");
    if (equals)
        value = (struct span){equals + 1, size - name.size - 1};
    else if (find_value(environment, &name, &value, err) != 0)
        return -1;
    return put(environment, &name, &value, err);
}

int environment_add(struct environment *environment, const char *setting, struct error *err)
{
    char place[NAME_SHOWN + sizeof("--env ")];
    struct span name = {setting, strcspn(setting, "=")};
    if (add(environment, setting, strlen(setting), err) == 0)
        return 0;
    (void)snprintf(place, sizeof(place), "--env %.*s",
                   name.size < NAME_SHOWN && is_name(&name) ? (int)name.size : 0, setting);
    return error_wrap(err, place);
}

int environment_add_lines(struct environment *environment, const char *name,
                          const char *text, size_t size, struct error *err)
{
    char place[300];
    size_t number = 0;
    for (size_t at = 0; at < size;) {
        const char *line = text + at;
        const char *end = memchr(line, '\n', size - at);
        size_t bytes = end ? (size_t)(end - line) : size - at;
        at += bytes + 1;
        number++;
        if (bytes == 0 || line[0] == '#')
            continue;
        if (add(environment, line, bytes, err) == 0)
            continue;
        (void)snprintf(place, sizeof(place), "%.200s, line %zu", name, number);
        return error_wrap(err, place);
    }
    return 0;
}
