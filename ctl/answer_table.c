/* Replies are shown by their shape, not by operation, so that an answer of a newer worker
 * shows too: maps inside the result are flattened, pieces of output (a map with `data` and
 * `next_offset`) become one row and a text below the table. */
#include "ctl/answer_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctl/table.h"
#include "ctl/visible.h"

enum { NAME_MAX_BYTES = 96, MAX_TEXTS = 8 };

/* A text that stands below the table. */
struct text {
    char name[NAME_MAX_BYTES];
    const struct message *value;
};

struct answer {
    struct table table;
    struct text texts[MAX_TEXTS];
    size_t text_count;
    struct arena *arena;
};

static int64_t integer_of(const struct message *map, const char *key)
{
    const struct message *value = message_find(map, key);
    return value && value->type == MESSAGE_INT ? value->integer : 0;
}

static bool is_true(const struct message *map, const char *key)
{
    const struct message *value = message_find(map, key);
    return value && value->type == MESSAGE_BOOL && value->boolean;
}

static bool is_piece(const struct message *value)
{
    const struct message *data = message_find(value, "data");
    return data && data->type == MESSAGE_TEXT && message_find(value, "next_offset");
}

static bool ends_with(const struct message *key, const char *tail)
{
    size_t size = strlen(tail);
    return key->type == MESSAGE_TEXT && key->text.size >= size &&
           memcmp(key->text.data + key->text.size - size, tail, size) == 0;
}

/* "prefix key", with blanks for underscores; the unit of a time stands with its value. */
static void make_name(char *name, const char *prefix, const struct message *key)
{
    const char *text = key->type == MESSAGE_TEXT ? key->text.data : "?";
    size_t size = key->type == MESSAGE_TEXT ? key->text.size : 1;
    if (ends_with(key, "_ms"))
        size -= strlen("_ms");
    int length = snprintf(name, NAME_MAX_BYTES, "%s%s%.*s", prefix, prefix[0] ? " " : "",
                          (int)(size < NAME_MAX_BYTES ? size : NAME_MAX_BYTES), text);
    for (int i = 0; i < length && i < NAME_MAX_BYTES; i++) {
        if (name[i] == '_')
            name[i] = ' ';
    }
}

static void describe_time(int64_t unix_ms, char *text, size_t size)
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    size_t length = 0;
    if (unix_ms >= 0 && gmtime_r(&seconds, &parts))
        length = strftime(text, size, "%Y-%m-%d %H:%M:%S UTC", &parts);
    if (length == 0)
        (void)snprintf(text, size, "%lld ms", (long long)unix_ms);
}

/* A value without parts, as text; what has parts is named by its kind. */
static void add_scalar(struct answer *answer, const struct message *key,
                       const struct message *value)
{
    char text[64];
    switch (value->type) {
    case MESSAGE_TEXT:
        table_add(&answer->table, value->text.data, value->text.size);
        return;
    case MESSAGE_BOOL:
        table_add_text(&answer->table, value->boolean ? "yes" : "no");
        return;
    case MESSAGE_INT:
        if (ends_with(key, "_at_ms"))
            describe_time(value->integer, text, sizeof(text));
        else
            (void)snprintf(text, sizeof(text), "%lld%s", (long long)value->integer,
                           ends_with(key, "_ms") ? " ms" : "");
        break;
    case MESSAGE_FLOAT:
        (void)snprintf(text, sizeof(text), "%g", value->number);
        break;
    case MESSAGE_EXTENSION:
        (void)snprintf(text, sizeof(text), "(extension %d)", value->extension_type);
        break;
    case MESSAGE_ARRAY:
    case MESSAGE_MAP:
        (void)snprintf(text, sizeof(text), "(nested)");
        break;
    case MESSAGE_NIL:
    default:
        (void)snprintf(text, sizeof(text), "-");
        break;
    }
    table_add_text(&answer->table, text);
}

/* The texts of a list, comma between them; anything else in it is passed over. */
static void add_list(struct answer *answer, const struct message *list)
{
    enum { LIST_MAX_BYTES = 64 * 1024 };
    buffer_scoped struct buffer joined;
    buffer_init(&joined, LIST_MAX_BYTES);
    int failed = 0;
    for (size_t i = 0; i < list->array.count && !failed; i++) {
        const struct message *item = &list->array.items[i];
        if (item->type != MESSAGE_TEXT)
            continue;
        if (joined.size > 0)
            failed = buffer_append_text(&joined, ", ");
        if (!failed)
            failed = buffer_append(&joined, item->text.data, item->text.size);
    }
    if (failed == -ENOMEM)
        answer->table.failed = true;
    else if (joined.size > 0)
        table_add(&answer->table, joined.data, joined.size);
    else
        table_add_text(&answer->table, "-");
}

static void keep_text(struct answer *answer, const char *name, const struct message *value)
{
    if (answer->text_count == MAX_TEXTS || value->text.size == 0)
        return;
    struct text *text = &answer->texts[answer->text_count++];
    (void)snprintf(text->name, sizeof(text->name), "%s", name);
    text->value = value;
}

static void add_piece(struct answer *answer, const char *name, const struct message *piece)
{
    char text[160];
    const char *ending = "more may come";
    if (is_true(piece, "eof"))
        ending = "complete";
    else if (is_true(piece, "truncated"))
        ending = "there is more";
    else if (is_true(piece, "interrupted"))
        ending = "whether more comes is not known";
    (void)snprintf(text, sizeof(text), "bytes %lld to %lld of %lld, %s",
                   (long long)integer_of(piece, "offset"),
                   (long long)integer_of(piece, "next_offset"),
                   (long long)integer_of(piece, "total_bytes"), ending);
    table_add_text(&answer->table, name);
    table_add_text(&answer->table, text);
    keep_text(answer, name, message_find(piece, "data"));
}

static void add_map(struct answer *answer, const char *prefix, const struct message *map);

/* A status and the outputs stand in an answer once, so their members need no prefix; the
 * state itself is the status. */
static void add_pair(struct answer *answer, const char *prefix,
                     const struct message_pair *pair)
{
    char name[NAME_MAX_BYTES];
    const struct message *value = &pair->value;
    bool is_transparent =
        message_is_text(&pair->key, "status") || message_is_text(&pair->key, "output");
    make_name(name, prefix, &pair->key);
    if (is_piece(value)) {
        add_piece(answer, name, value);
    } else if (value->type == MESSAGE_MAP) {
        add_map(answer, is_transparent ? prefix : name, value);
    } else if (message_is_text(&pair->key, "detail") && value->type == MESSAGE_TEXT) {
        keep_text(answer, name, value);
    } else {
        table_add_text(&answer->table,
                       message_is_text(&pair->key, "state") ? "status" : name);
        if (value->type == MESSAGE_ARRAY)
            add_list(answer, value);
        else
            add_scalar(answer, &pair->key, value);
    }
}

static void add_map(struct answer *answer, const char *prefix, const struct message *map)
{
    for (size_t i = 0; i < map->map.count; i++)
        add_pair(answer, prefix, &map->map.pairs[i]);
}

static void add_outcome(struct answer *answer, const struct reply *reply)
{
    char stream[NAME_MAX_BYTES] = "output";
    table_add_text(&answer->table, "answer");
    table_add_text(&answer->table, reply->ok ? "ok" : "error");
    if (!reply->ok) {
        add_map(answer, "", reply->error);
    } else if (is_piece(reply->result)) {
        const struct message *name = message_find(reply->result, "stream");
        if (name && name->type == MESSAGE_TEXT)
            make_name(stream, "", name);
        add_piece(answer, stream, reply->result);
    } else if (reply->result->type == MESSAGE_MAP) {
        add_map(answer, "", reply->result);
    }
}

/* What the worker says of the attempt; the rest of the envelope was shown, or says nothing
 * to people. */
static void add_attempt(struct answer *answer, const struct reply *reply)
{
    static const char *const keys[] = {"attempt", "deliveries", "queued_ms", "run_ms",
                                       "worker"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const struct message *value = message_find(reply->map, keys[i]);
        struct message_pair pair = {
            .key = {.type = MESSAGE_TEXT, .text = {keys[i], strlen(keys[i])}}};
        if (!value)
            continue;
        pair.value = *value;
        add_pair(answer, "", &pair);
    }
}

static int append_text(const struct text *text, struct buffer *out)
{
    const struct message *value = text->value;
    int failed = buffer_append_text(out, "\n--- ");
    if (!failed)
        failed = visible_append(out, text->name, strlen(text->name), false);
    if (!failed)
        failed = buffer_append_text(out, "\n");
    if (!failed)
        failed = visible_append(out, value->text.data, value->text.size, true);
    if (!failed && value->text.data[value->text.size - 1] != '\n')
        failed = buffer_append_text(out, "\n");
    return failed;
}

int answer_table_append(const struct reply *reply, struct arena *arena, struct buffer *out)
{
    struct answer *answer = arena_calloc(arena, 1, sizeof(*answer));
    if (!answer)
        return -ENOMEM;
    answer->arena = arena;
    table_init(&answer->table, 2, arena);
    table_add_text(&answer->table, "job");
    table_add_text(&answer->table, reply->id);
    table_add_text(&answer->table, "operation");
    table_add_text(&answer->table, reply->op);
    add_outcome(answer, reply);
    add_attempt(answer, reply);
    int failed = table_append(&answer->table, out);
    for (size_t i = 0; i < answer->text_count && !failed; i++)
        failed = append_text(&answer->texts[i], out);
    return failed;
}
