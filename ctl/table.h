/* Aligned columns for people. Cells are foreign text: they are escaped (visible.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/buffer.h"

enum { TABLE_MAX_WIDTH = 16 };

struct table_cell {
    const char *text; /* escaped, in the arena */
    size_t columns;   /* how wide it is */
};

/* Filled from left to right, top to bottom. A failed allocation is remembered and told by
 * table_append, so that adding needs no check. */
struct table {
    struct arena *arena;
    struct table_cell *cells;
    size_t cell_count;
    size_t capacity;
    size_t width; /* cells in a row, at most TABLE_MAX_WIDTH */
    bool failed;
};

void table_init(struct table *table, size_t width, struct arena *arena);

void table_add(struct table *table, const char *data, size_t size);
/* NULL shows as a hyphen. */
void table_add_text(struct table *table, const char *text);

/* Appends the rows. 0, or negative: out of memory. */
NODISCARD int table_append(const struct table *table, struct buffer *out);
