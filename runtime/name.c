/* The alphabet of names; isalnum would follow the locale. */
#include "runtime/name.h"

#include <string.h>

static bool is_letter_or_digit(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9');
}

bool name_is_valid(const char *text, size_t bytes, const char *others)
{
    if (bytes == 0 || bytes > NAME_MAX_BYTES || !is_letter_or_digit(text[0]))
        return false;
    for (size_t i = 1; i < bytes; i++) {
        if (!is_letter_or_digit(text[i]) && (text[i] == '\0' || !strchr(others, text[i])))
            return false;
    }
    return true;
}

bool name_has_parent_segment(const char *path)
{
    while (*path) {
        size_t bytes = strcspn(path, "/");
        if (bytes == 2 && path[0] == '.' && path[1] == '.')
            return true;
        path += bytes;
        path += strspn(path, "/");
    }
    return false;
}
