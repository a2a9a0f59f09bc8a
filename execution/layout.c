/* The contract's names and rules: what a producer may ask for, and where things lie. */
#include "execution/layout.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static bool is_id_start(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool layout_is_execution_id(const char *text)
{
    if (!is_id_start(text[0]))
        return false;
    size_t length = 1;
    while (is_id_start(text[length]) || (text[length] && strchr("._-", text[length])))
        length++;
    return text[length] == '\0' && length <= LAYOUT_EXECUTION_ID_MAX;
}

int layout_check_execution_id(const char *text, struct error *err)
{
    if (text && layout_is_execution_id(text))
        return 0;
    return error_set_field(err, "execution_id",
                           "Worker executionId must contain only letters, numbers, dots, "
                           "underscores, and hyphens.");
}

static bool has_parent_segment(const char *path)
{
    while (*path) {
        size_t segment = strcspn(path, "/");
        if (segment == 2 && path[0] == '.' && path[1] == '.')
            return true;
        path += segment;
        path += strspn(path, "/");
    }
    return false;
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
    if (has_parent_segment(path))
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
