/* MessagePack as jansson's values. The depth of messages is bounded (MESSAGE_MAX_DEPTH), so
 * the recursion is too; it runs on the process's own stack, not on a task's. */
#include "ctl/json_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "ctl/visible.h"

enum { KEY_MAX_BYTES = 64 * 1024 };

static json_t *base64_value(const char *data, size_t size)
{
    unsigned char *text = malloc(size / 3 * 4 + 5);
    if (!text)
        return NULL;
    int length = EVP_EncodeBlock(text, (const unsigned char *)data, (int)size);
    json_t *value = json_stringn_nocheck((const char *)text, (size_t)length);
    free(text);
    return value;
}

static json_t *extension_value(const struct message *value)
{
    json_t *object = json_object();
    if (json_object_set_new(object, "extension", json_integer(value->extension_type)) ==
            0 &&
        json_object_set_new(object, "base64",
                            base64_value(value->text.data, value->text.size)) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *text_value(const struct message *value)
{
    if (message_is_utf8(value->text.data, value->text.size))
        return json_stringn_nocheck(value->text.data, value->text.size);
    json_t *object = json_object();
    if (json_object_set_new(object, "base64",
                            base64_value(value->text.data, value->text.size)) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *value_of(const struct message *value);

static json_t *array_value(const struct message *value)
{
    json_t *array = json_array();
    for (size_t i = 0; i < value->array.count; i++) {
        if (json_array_append_new(array, value_of(&value->array.items[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static int append_key(struct buffer *key, const struct message *value)
{
    if (value->type == MESSAGE_TEXT)
        return visible_append(key, value->text.data, value->text.size, true);
    if (value->type == MESSAGE_INT)
        return buffer_append_format(key, "%lld", (long long)value->integer);
    json_t *json = value_of(value);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    int failed = text ? buffer_append_text(key, text) : -ENOMEM;
    free(text);
    json_decref(json);
    return failed;
}

static int set_pair(json_t *object, const struct message_pair *pair)
{
    buffer_scoped struct buffer key;
    const struct message *value = &pair->value;
    buffer_init(&key, KEY_MAX_BYTES);
    int failed = append_key(&key, &pair->key);
    bool is_binary =
        value->type == MESSAGE_TEXT && !message_is_utf8(value->text.data, value->text.size);
    if (!failed && is_binary)
        failed = buffer_append_text(&key, "_base64");
    if (failed)
        return failed;
    json_t *json =
        is_binary ? base64_value(value->text.data, value->text.size) : value_of(value);
    return json_object_set_new_nocheck(object, key.data ? key.data : "", json);
}

static json_t *map_value(const struct message *value)
{
    json_t *object = json_object();
    for (size_t i = 0; i < value->map.count; i++) {
        if (set_pair(object, &value->map.pairs[i]) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* NULL: out of memory. jansson's setters take NULL as a failure, so it passes through. */
static json_t *value_of(const struct message *value)
{
    json_t *number = NULL;
    switch (value->type) {
    case MESSAGE_BOOL:
        return json_boolean(value->boolean);
    case MESSAGE_INT:
        return json_integer(value->integer);
    case MESSAGE_FLOAT:
        number = json_real(value->number); /* NULL for what JSON has no number for */
        return number ? number : json_null();
    case MESSAGE_TEXT:
        return text_value(value);
    case MESSAGE_ARRAY:
        return array_value(value);
    case MESSAGE_MAP:
        return map_value(value);
    case MESSAGE_EXTENSION:
        return extension_value(value);
    case MESSAGE_NIL:
    default:
        return json_null();
    }
}

static int append_bytes(const char *data, size_t size, void *arg)
{
    return buffer_append(arg, data, size);
}

int json_output_take(json_t *value, struct buffer *out)
{
    int failed = -ENOMEM;
    if (value)
        failed = json_dump_callback(value, append_bytes, out,
                                    JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    json_decref(value);
    return failed ? -ENOMEM : buffer_append_text(out, "\n");
}

int json_output_message(const struct message *value, struct buffer *out)
{
    return json_output_take(value_of(value), out);
}
