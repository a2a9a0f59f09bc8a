/* A line is made whole, made harmless, cut, and only then written. */
#include "ctl/progress_view.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ctl/visible.h"
#include "runtime/utf8.h"

enum { LINE_MAX_BYTES = 4096, SIZE_TEXT = 32, KIB = 1024, PHASE_COLUMNS = 8 };

void progress_view_init(struct progress_view *view, struct buffer *out, size_t columns)
{
    *view = (struct progress_view){.out = out, .columns = columns};
}

/* "512 B", "1.5 KiB", "16.0 MiB". */
static void describe_size(uint64_t bytes, char text[SIZE_TEXT])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes / KIB;
    size_t unit = 0;
    if (bytes < KIB) {
        (void)snprintf(text, SIZE_TEXT, "%u B", (unsigned)bytes);
        return;
    }
    while (size >= KIB && unit + 1 < sizeof(units) / sizeof(units[0])) {
        size /= KIB;
        unit++;
    }
    (void)snprintf(text, SIZE_TEXT, "%.1f %s", size, units[unit]);
}

static int append_sizes(const struct progress_entry *entry, struct buffer *line)
{
    char done[SIZE_TEXT];
    char total[SIZE_TEXT];
    if (entry->bytes == 0 && entry->total_bytes == 0)
        return 0;
    describe_size(entry->bytes, done);
    if (entry->total_bytes == 0)
        return buffer_append_format(line, "  %s", done);
    describe_size(entry->total_bytes, total);
    return buffer_append_format(line, "  %s of %s", done, total);
}

static int make_line(const struct progress_entry *entry, struct buffer *line)
{
    int failed = visible_append(line, entry->phase, strlen(entry->phase), false);
    while (!failed && line->size < PHASE_COLUMNS)
        failed = buffer_append_text(line, " ");
    if (!failed)
        failed = append_sizes(entry, line);
    if (!failed && entry->line_bytes > 0)
        failed = buffer_append_text(line, "  ");
    if (!failed)
        failed = visible_append(line, entry->line, entry->line_bytes, false);
    while (!failed && line->size > 0 && line->data[line->size - 1] == ' ')
        line->size--;
    return failed;
}

/* How many bytes of the line certainly fit. A character beyond ASCII may be two columns
 * wide; the last column stays free, since some terminals go on in the next line with it. */
static size_t fitting_bytes(const struct buffer *line, size_t columns)
{
    size_t at = 0;
    size_t used = 0;
    while (at < line->size) {
        size_t step = utf8_step(line->data + at, line->size - at);
        used += step > 1 ? 2 : 1;
        if (used >= columns)
            break;
        at += step ? step : 1;
    }
    return at;
}

/* Back to the first column, the line, and what was behind it erased (ECMA-48, EL). */
static int rewrite(struct progress_view *view, const struct buffer *line)
{
    struct buffer *out = view->out;
    int failed = buffer_append_text(out, "\r");
    if (!failed)
        failed = buffer_append(out, line->data, fitting_bytes(line, view->columns));
    if (!failed)
        failed = buffer_append_text(out, "\x1b[K");
    view->line_open = true;
    return failed;
}

static bool is_complete(const struct progress_entry *entry)
{
    return entry->total_bytes != 0 && entry->bytes >= entry->total_bytes;
}

int progress_view_show(struct progress_view *view, const struct progress_entry *entry)
{
    buffer_scoped struct buffer line;
    bool is_new = strcmp(view->phase, entry->phase) != 0;
    int failed = 0;
    buffer_init(&line, LINE_MAX_BYTES);
    if (is_new)
        failed = progress_view_end(view);
    (void)snprintf(view->phase, sizeof(view->phase), "%s", entry->phase);
    if (!failed)
        failed = make_line(entry, &line);
    if (failed)
        return failed;
    if (view->columns > 0)
        return rewrite(view, &line);
    if (!is_new && !is_complete(entry) && entry->line_bytes == 0)
        return 0;
    failed = buffer_append(view->out, line.data, line.size);
    return failed ? failed : buffer_append_text(view->out, "\n");
}

int progress_view_end(struct progress_view *view)
{
    if (!view->line_open)
        return 0;
    view->line_open = false;
    return buffer_append_text(view->out, "\n");
}
