/* What may be called how: the names that jobs, queues, executions and sandboxes have, and
 * paths that name their way up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { NAME_MAX_BYTES = 128 };

/* 1 to 128 ASCII letters, digits and bytes of `others`, a letter or digit first. */
bool name_is_valid(const char *text, size_t bytes, const char *others);

/* Whether a path has a segment `..`. */
bool name_has_parent_segment(const char *path);
