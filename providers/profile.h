/* A profile: a provider as this worker's configuration sets it up, under the name that jobs
 * use. Hosts, credentials and directories come from here and never from a job. */
#pragma once

#include <stddef.h>

#include "runtime/error.h"

struct provider;

struct profile_setting {
    const char *name;
    const char *value;
};

struct profile {
    const char *name; /* what a job's sandbox.provider says */
    const struct provider *provider;
    const struct profile_setting *settings;
    size_t setting_count;
};

/* The value of a setting; NULL where it is not set. */
const char *profile_setting(const struct profile *profile, const char *name);
