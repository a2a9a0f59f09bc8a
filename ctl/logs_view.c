/* Nothing is kept of a character that is cut in two at the end of a piece: it is read once
 * more with what follows. */
#include "ctl/logs_view.h"

#include <stdio.h>
#include <string.h>

#include "ctl/visible.h"

void logs_view_init(struct logs_view *view, struct buffer *out, struct buffer *err)
{
    *view = (struct logs_view){
        .streams = {{.name = "stdout", .out = out}, {.name = "stderr", .out = err}}};
}

/* A piece of output as an answer has it. */
struct piece {
    const char *data;
    size_t size;
    int64_t total_bytes;
    bool is_last;  /* eof */
    bool has_more; /* truncated */
};

static int no_output(struct error *err)
{
    return error_set(err, ERROR_MALFORMED_JOB, "the answer holds no output");
}

static int read_piece(const struct message *map, int64_t offset, struct piece *ret_piece,
                      struct error *err)
{
    struct piece piece = {0};
    struct error why;
    int64_t at = 0;
    const struct message *data = message_find(map, "data");
    const struct message *numbers[] = {message_find(map, "offset"),
                                       message_find(map, "total_bytes")};
    const struct message *flags[] = {message_find(map, "eof"),
                                     message_find(map, "truncated")};
    if (!data || data->type != MESSAGE_TEXT || !numbers[0] || !numbers[1] || !flags[0] ||
        !flags[1])
        return no_output(err);
    if (message_integer(numbers[0], "offset", offset, offset, &at, &why) != 0 ||
        message_integer(numbers[1], "total_bytes", 0, INT64_MAX, &piece.total_bytes,
                        &why) != 0 ||
        message_boolean(flags[0], "eof", &piece.is_last, &why) != 0 ||
        message_boolean(flags[1], "truncated", &piece.has_more, &why) != 0)
        return no_output(err);
    piece.data = data->text.data;
    piece.size = data->text.size;
    *ret_piece = piece;
    return 0;
}

/* How much of the piece is written now. */
static size_t writable_bytes(const struct logs_view_stream *stream,
                             const struct piece *piece)
{
    if (!stream->is_visible || piece->is_last)
        return piece->size;
    return visible_whole(piece->data, piece->size);
}

static int write_bytes(struct logs_view_stream *stream, const char *data, size_t size)
{
    if (stream->is_visible)
        return visible_append(stream->out, data, size, true);
    return buffer_append(stream->out, data, size);
}

/* What the streams of one answer come to. */
struct sum {
    bool is_new;
    bool has_more;
    bool is_complete;
};

static int take_piece(struct logs_view_stream *stream, const struct message *output,
                      struct sum *sum, struct error *err)
{
    struct piece piece = {0};
    if (read_piece(message_find(output, stream->name), stream->offset, &piece, err) != 0)
        return -1;
    if (piece.total_bytes < stream->offset) {
        /* Somebody cut the file: as tail -f, from its beginning on. */
        stream->offset = 0;
        sum->has_more = piece.total_bytes > 0;
        sum->is_complete = sum->is_complete && piece.total_bytes == 0;
        return 0;
    }
    size_t bytes = writable_bytes(stream, &piece);
    if (write_bytes(stream, piece.data, bytes) != 0)
        return error_set_memory(err, "the output");
    stream->offset += (int64_t)bytes;
    sum->is_new = sum->is_new || bytes > 0;
    sum->has_more = sum->has_more || (piece.has_more && bytes > 0);
    sum->is_complete = sum->is_complete && piece.is_last;
    return 0;
}

static enum logs_view_look without_output(const struct message *status)
{
    if (message_is_text(message_find(status, "state"), "unknown"))
        return LOGS_VIEW_UNKNOWN;
    if (message_is_text(message_find(status, "provider_state"), "stopped"))
        return LOGS_VIEW_STOPPED;
    return LOGS_VIEW_UNAVAILABLE;
}

static bool can_be_followed(const struct message *status)
{
    const struct message *state = message_find(status, "state");
    return state && !message_is_text(state, "unknown") &&
           !message_is_text(state, "provider_unavailable");
}

int logs_view_take(struct logs_view *view, const struct reply *reply,
                   enum logs_view_look *ret_look, struct error *err)
{
    struct sum sum = {.is_complete = true};
    const struct message *status = message_find(reply->result, "status");
    const struct message *output = message_find(reply->result, "output");
    if (!status || status->type != MESSAGE_MAP)
        return error_set(err, ERROR_MALFORMED_JOB, "the answer holds no status");
    for (size_t i = 0; output && i < LOGS_VIEW_STREAMS; i++) {
        if (take_piece(&view->streams[i], output, &sum, err) != 0)
            return -1;
    }
    if (sum.has_more)
        *ret_look = LOGS_VIEW_MORE;
    else if (!output || !can_be_followed(status))
        *ret_look = without_output(status);
    else if (sum.is_complete)
        *ret_look = LOGS_VIEW_COMPLETE;
    else
        *ret_look = sum.is_new ? LOGS_VIEW_NEWS : LOGS_VIEW_IDLE;
    return 0;
}

/* "LABEL TEXT" behind what is there already; nothing where there is no such value. */
static int append_value(const struct message *value, const char *label, char *text,
                        size_t size)
{
    if (value && value->type == MESSAGE_INT)
        return snprintf(text, size, "%s%lld", label, (long long)value->integer);
    if (!value || value->type != MESSAGE_TEXT)
        return 0;
    size_t bytes = value->text.size < size ? value->text.size : size;
    return snprintf(text, size, "%s%.*s", label, (int)bytes, value->text.data);
}

void logs_view_describe(const struct reply *reply, char text[LOGS_VIEW_STATE_SIZE])
{
    static const char *const values[][2] = {
        {"state", ""},
        {"exit_code", ", exit code "},
        {"signal", ", signal "},
        {"resource", ", limit of "},
        {"phase", ", phase "},
        {"reason", ", reason "},
        {"provider_state", ", provider state "},
        {"message", ": "},
    };
    const struct message *status = message_find(reply->result, "status");
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        int written = append_value(message_find(status, values[i][0]), values[i][1],
                                   text + length, LOGS_VIEW_STATE_SIZE - length);
        length += written > 0 ? (size_t)written : 0;
        if (length >= LOGS_VIEW_STATE_SIZE)
            return;
    }
}
