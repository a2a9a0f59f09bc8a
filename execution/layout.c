/* The contract's names and rules: what a producer may ask for, and where things lie. */
#include "execution/layout.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "runtime/name.h"

bool layout_is_execution_id(const char *text)
{
    return name_is_valid(text, strlen(text), "._-");
}

int layout_check_execution_id(const char *text, struct error *err)
{
    if (text && layout_is_execution_id(text))
        return 0;
    return error_set_field(err, "execution_id",
                           "Worker executionId must contain only letters, numbers, dots, "
                           "underscores, and hyphens.");
}

int layout_check_remote_dir(const char *path, struct error *err)
{
    if (!path)
        return 0;
    if (path[0] != '/')
        return error_set_field(err, "remote_dir", "remote_dir must be an absolute path");
    if (strlen(path) > LAYOUT_REMOTE_DIR_MAX)
        return error_set_field(err, "remote_dir", "remote_dir is longer than %d bytes",
                               LAYOUT_REMOTE_DIR_MAX);
    if (name_has_parent_segment(path))
        return error_set_field(err, "remote_dir",
                               "remote_dir must not contain a \"..\" segment");
    return 0;
}

int layout_check_above_zero(const char *field, const char *name, double value,
                            struct error *err)
{
    if (isfinite(value) && value > 0)
        return 0;
    return error_set_field(err, field, "%s must be greater than zero.", name);
}

int layout_remote_dir(const char *home, struct arena *arena, const char **ret_dir,
                      struct error *err)
{
    while (isspace((unsigned char)*home))
        home++;
    size_t length = strlen(home);
    while (length > 0 && isspace((unsigned char)home[length - 1]))
        length--;
    if (length == 0 || home[0] != '/')
        return error_set_field(err, "remote_dir",
                               "Could not resolve the sandbox home directory. Pass "
                               "`remoteDir` explicitly.");
    while (length > 0 && home[length - 1] == '/')
        length--;
    const char *dir =
        arena_printf(arena, "%.*s/" LAYOUT_DEFAULT_DIRECTORY, (int)length, home);
    if (!dir)
        return error_set_memory(err, "the remote directory");
    if (layout_check_remote_dir(dir, err) != 0)
        return -1;
    *ret_dir = dir;
    return 0;
}
