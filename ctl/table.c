/* Cells are kept until the widest of each column is known. */
#include "ctl/table.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "ctl/visible.h"

enum { FIRST_CAPACITY = 64, CELL_MAX_BYTES = 1024 * 1024, GAP_COLUMNS = 2 };

void table_init(struct table *table, size_t width, struct arena *arena)
{
    assert(width > 0 && width <= TABLE_MAX_WIDTH);
    *table = (struct table){.arena = arena, .width = width};
}

/* Room for one cell more; the arena keeps the old block. */
static bool reserve(struct table *table)
{
    if (table->cell_count < table->capacity)
        return true;
    size_t capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
    struct table_cell *cells = arena_calloc(table->arena, capacity, sizeof(*cells));
    if (!cells)
        return false;
    if (table->cell_count > 0)
        memcpy(cells, table->cells, table->cell_count * sizeof(*cells));
    table->cells = cells;
    table->capacity = capacity;
    return true;
}

/* Characters, taken as one column each: everything but the bytes that continue one. */
static size_t columns_of(const char *text)
{
    size_t columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

void table_add(struct table *table, const char *data, size_t size)
{
    buffer_scoped struct buffer escaped;
    buffer_init(&escaped, CELL_MAX_BYTES);
    if (table->failed || !reserve(table) ||
        visible_append(&escaped, data, size, false) != 0) {
        table->failed = true;
        return;
    }
    char *text = arena_text_n(table->arena, escaped.data ? escaped.data : "", escaped.size);
    if (!text) {
        table->failed = true;
        return;
    }
    table->cells[table->cell_count++] =
        (struct table_cell){.text = text, .columns = columns_of(text)};
}

void table_add_text(struct table *table, const char *text)
{
    if (!text)
        text = "-";
    table_add(table, text, strlen(text));
}

static void find_widths(const struct table *table, size_t *widths)
{
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t column = i % table->width;
        if (table->cells[i].columns > widths[column])
            widths[column] = table->cells[i].columns;
    }
}

int table_append(const struct table *table, struct buffer *out)
{
    size_t widths[TABLE_MAX_WIDTH] = {0};
    int failed = table->failed ? -ENOMEM : 0;
    assert(table->failed || table->cell_count % table->width == 0);
    find_widths(table, widths);
    for (size_t i = 0; i < table->cell_count && !failed; i++) {
        const struct table_cell *cell = &table->cells[i];
        size_t column = i % table->width;
        bool is_last = column + 1 == table->width;
        size_t pad = is_last ? 0 : widths[column] + GAP_COLUMNS - cell->columns;
        failed = buffer_append_format(out, "%s%*s%s", cell->text, (int)pad, "",
                                      is_last ? "\n" : "");
    }
    return failed;
}
