/* The dispatcher: the only place that looks whether a member is there, makes the typed
 * capability error, and counts commands. */
#include "providers/provider.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "providers/profile.h"

static const char *const capability_names[] = {
#define CAPABILITY_NAME(capability, name) [(capability)] = (name),
    CAPABILITIES(CAPABILITY_NAME)
#undef CAPABILITY_NAME
};

static const char *const state_names[] = {
#define SANDBOX_STATE_NAME(state, name) [(state)] = (name),
    SANDBOX_STATES(SANDBOX_STATE_NAME)
#undef SANDBOX_STATE_NAME
};

const char *capability_name(enum capability capability)
{
    assert((size_t)capability < CAPABILITY_COUNT);
    return capability_names[capability];
}

const char *sandbox_state_name(enum sandbox_state state)
{
    assert((size_t)state < sizeof(state_names) / sizeof(state_names[0]));
    return state_names[state];
}

static bool has_member(const struct provider *provider, enum capability capability)
{
    switch (capability) {
    case CAPABILITY_EXECUTE_COMMAND:
        return provider->exec != NULL;
    case CAPABILITY_PROBE:
        return provider->probe != NULL;
    case CAPABILITY_WRITE_FILE:
        return provider->write_file != NULL;
    case CAPABILITY_WAKE:
        return provider->wake != NULL;
    case CAPABILITY_STOP:
        return provider->stop != NULL;
    case CAPABILITY_DESTROY:
        return provider->destroy != NULL;
    case CAPABILITY_PORT_URL:
        return provider->port_url != NULL;
    case CAPABILITY_BACKGROUND_PROCESSES:
        return provider->exec != NULL;
    case CAPABILITY_COUNT:
        break;
    }
    assert(!"no such capability");
    return false;
}

bool provider_can(const struct provider *provider, enum capability capability)
{
    if (capability == CAPABILITY_BACKGROUND_PROCESSES &&
        !(provider->traits & TRAIT_BACKGROUND))
        return false;
    return has_member(provider, capability);
}

bool sandbox_can(const struct sandbox *sandbox, enum capability capability)
{
    if (capability == CAPABILITY_BACKGROUND_PROCESSES &&
        !(sandbox->traits & TRAIT_BACKGROUND))
        return false;
    return has_member(sandbox->provider, capability);
}

static const char EXECUTE_REMEDY[] =
    "rebuild the sandbox from a descriptor whose provider can execute commands, or switch "
    "to "
    "such a provider; where only metadata is needed, use the operation info";
static const char OTHER_REMEDY[] =
    "leave this operation out, or use a provider that has the capability "
    "(attachctl providers lists them)";

/* The member's name as the original's messages spell it. */
static const char *member_name(enum capability capability)
{
    switch (capability) {
    case CAPABILITY_WRITE_FILE:
        return "writeFiles";
    case CAPABILITY_WAKE:
        return "start";
    case CAPABILITY_PORT_URL:
        return "networking";
    case CAPABILITY_BACKGROUND_PROCESSES:
        return "background processes";
    case CAPABILITY_EXECUTE_COMMAND:
    case CAPABILITY_PROBE:
    case CAPABILITY_STOP:
    case CAPABILITY_DESTROY:
    case CAPABILITY_COUNT:
        break;
    }
    return capability_name(capability);
}

static int refuse_capability(const struct provider *provider, enum capability capability,
                             struct error *err)
{
    if (capability == CAPABILITY_EXECUTE_COMMAND)
        (void)error_set(err, ERROR_CAPABILITY_UNAVAILABLE,
                        "Sandbox provider \"%s\" does not support executeCommand, which is "
                        "required for worker deploys.",
                        provider->name);
    else
        (void)error_set(err, ERROR_CAPABILITY_UNAVAILABLE,
                        "Sandbox provider \"%s\" does not support %s.", provider->name,
                        member_name(capability));
    if (err) {
        (void)snprintf(err->capability, sizeof(err->capability), "%s",
                       capability_name(capability));
        err->remedy =
            capability == CAPABILITY_EXECUTE_COMMAND ? EXECUTE_REMEDY : OTHER_REMEDY;
    }
    return -1;
}

int sandbox_require(const struct sandbox *sandbox, enum capability capability,
                    struct error *err)
{
    if (sandbox_can(sandbox, capability))
        return 0;
    return refuse_capability(sandbox->provider, capability, err);
}

int provider_require(const struct provider *provider, enum capability capability,
                     struct error *err)
{
    if (provider_can(provider, capability))
        return 0;
    return refuse_capability(provider, capability, err);
}

static bool takes_key(const struct provider *provider, const char *name)
{
    for (const char *const *key = provider->descriptor_keys; key && *key; key++) {
        if (strcmp(*key, name) == 0)
            return true;
    }
    return false;
}

int sandbox_open(const struct descriptor *descriptor, const struct profile *profile,
                 struct arena *arena, struct sandbox **ret_sandbox, struct error *err)
{
    const struct provider *provider = profile->provider;
    for (size_t i = 0; i < descriptor->key_count; i++) {
        const char *name = descriptor->keys[i].name;
        if (takes_key(provider, name))
            continue;
        char field[64];
        (void)snprintf(field, sizeof(field), "sandbox.%.50s", name);
        return error_set_field(err, field,
                               "provider %s takes no key \"%.50s\" in a sandbox descriptor",
                               provider->name, name);
    }
    struct sandbox *sandbox = NULL;
    if (provider->open(descriptor, profile, arena, &sandbox, err) != 0)
        return -1;
    sandbox->provider = provider;
    sandbox->traits = provider->traits & ~sandbox->missing_traits;
    sandbox->profile = profile;
    sandbox->provider_name = descriptor->provider;
    sandbox->id = descriptor->sandbox_id;
    *ret_sandbox = sandbox;
    return 0;
}

void sandbox_close(struct sandbox *sandbox)
{
    if (sandbox)
        sandbox->provider->close(sandbox);
}

int sandbox_probe(struct sandbox *sandbox, struct arena *arena,
                  struct sandbox_info *ret_info, struct error *err)
{
    if (sandbox_require(sandbox, CAPABILITY_PROBE, err) != 0)
        return -1;
    return sandbox->provider->probe(sandbox, arena, ret_info, err);
}

int sandbox_exec(struct sandbox *sandbox, const struct exec_request *request,
                 struct arena *arena, struct exec_result *ret_result, struct error *err)
{
    if (sandbox_require(sandbox, CAPABILITY_EXECUTE_COMMAND, err) != 0)
        return -1;
    size_t bytes = strlen(request->script);
    size_t limit = sandbox->provider->limits.max_script_bytes;
    if (bytes > limit)
        return error_set(err, ERROR_INTERNAL,
                         "a script of %zu bytes is longer than provider %s takes (%zu)",
                         bytes, sandbox->provider->name, limit);
    sandbox->exec_count++;
    return sandbox->provider->exec(sandbox, request, arena, ret_result, err);
}

static int span_read(void *arg, uint64_t offset, void *buffer, size_t bytes)
{
    const struct span *span = arg;
    if (bytes > 0)
        memcpy(buffer, span->data + offset, bytes);
    return 0;
}

struct file_source file_source_of(const struct span *bytes)
{
    /* read does not write to it. */
    union {
        const struct span *lent;
        void *arg;
    } span = {.lent = bytes};
    return (struct file_source){bytes->size, span_read, span.arg};
}

int sandbox_write_file(struct sandbox *sandbox, const char *path, unsigned mode,
                       const struct file_source *source, struct error *err)
{
    if (sandbox_require(sandbox, CAPABILITY_WRITE_FILE, err) != 0)
        return -1;
    uint64_t limit = sandbox->provider->limits.max_file_bytes;
    if (source->bytes > limit)
        return error_set(err, ERROR_INVALID_ARGUMENT,
                         "a file of %llu bytes is larger than provider %s takes (%llu)",
                         (unsigned long long)source->bytes, sandbox->provider->name,
                         (unsigned long long)limit);
    sandbox->exec_count++;
    return sandbox->provider->write_file(sandbox, path, mode, source, err);
}

int sandbox_wake(struct sandbox *sandbox, struct error *err)
{
    if (sandbox_require(sandbox, CAPABILITY_WAKE, err) != 0)
        return -1;
    return sandbox->provider->wake(sandbox, err);
}

int sandbox_stop(struct sandbox *sandbox, struct error *err)
{
    if (sandbox_require(sandbox, CAPABILITY_STOP, err) != 0)
        return -1;
    return sandbox->provider->stop(sandbox, err);
}

int sandbox_destroy(struct sandbox *sandbox, struct error *err)
{
    if (sandbox_require(sandbox, CAPABILITY_DESTROY, err) != 0)
        return -1;
    return sandbox->provider->destroy(sandbox, err);
}

int sandbox_check_directory(struct sandbox *sandbox, const char *path, struct error *err)
{
    if (!sandbox->provider->check_directory)
        return 0;
    return sandbox->provider->check_directory(sandbox, path, err);
}
