/* Settings of a configured provider. */
#include "providers/profile.h"

#include <string.h>

const char *profile_setting(const struct profile *profile, const char *name)
{
    for (size_t i = 0; i < profile->setting_count; i++) {
        if (strcmp(profile->settings[i].name, name) == 0)
            return profile->settings[i].value;
    }
    return NULL;
}
