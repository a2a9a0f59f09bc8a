/* MessagePack bytes in, one line of JSON out. */
#include "support.h"

#include <string.h>

#include "ctl/json_output.h"

enum { ARENA_BYTES = 1024 * 1024 };

#define BYTES(text) text, sizeof(text) - 1

static void convert(const char *data, size_t size, struct buffer *out)
{
    struct message message;
    struct error err = {0};
    arena_scoped struct arena *arena = arena_new(ARENA_BYTES);
    assert_int_equal(message_read(data, size, arena, &message, &err), 0);
    assert_int_equal(json_output_message(&message, out), 0);
}

static void every_kind_of_value_has_a_form(void **state)
{
    static const struct {
        const char *data;
        size_t size;
        const char *json;
    } cases[] = {
        {BYTES("\x80"), "{}\n"},
        {BYTES("\x81\xa1k\xc0"), "{\"k\":null}\n"},
        {BYTES("\x82\xa1"
               "a\xc3\xa1"
               "b\xc2"),
         "{\"a\":true,\"b\":false}\n"},
        {BYTES("\x81\xa1k\xd3\x80\x00\x00\x00\x00\x00\x00\x00"),
         "{\"k\":-9223372036854775808}\n"},
        {BYTES("\x81\xa1k\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"), "{\"k\":1.5}\n"},
        {BYTES("\x81\xa1k\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"), "{\"k\":null}\n"},
        {BYTES("\x81\xa1k\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"), "{\"k\":null}\n"},
        {BYTES("\x81\xa1k\x93\x01\xa1x\xc0"), "{\"k\":[1,\"x\",null]}\n"},
        {BYTES("\x81\xa1k\xa6\"\\\n\x1b\x00/"), "{\"k\":\"\\\"\\\\\\n\\u001B\\u0000/\"}\n"},
        {BYTES("\x81\xa1k\xc4\x02hi"), "{\"k\":\"hi\"}\n"},
        {BYTES("\x81\xa1k\xa2\xc3\xbc"), "{\"k\":\"\\u00FC\"}\n"},
        {BYTES("\x81\xa1k\xa2\xc2\x9b"), "{\"k\":\"\\u009B\"}\n"},
        {BYTES("\x81\xa4"
               "data\xc4\x03\xff\x00\xfe"),
         "{\"data_base64\":\"/wD+\"}\n"},
        {BYTES("\x81\xa4"
               "data\xc4\x01\xff"),
         "{\"data_base64\":\"/w==\"}\n"},
        {BYTES("\x81\xa1k\x91\xc4\x01\xff"), "{\"k\":[{\"base64\":\"/w==\"}]}\n"},
        {BYTES("\x81\xa1k\xd4\x05\x41"), "{\"k\":{\"extension\":5,\"base64\":\"QQ==\"}}\n"},
        {BYTES("\x82\x07\x01\xc3\x02"), "{\"7\":1,\"true\":2}\n"},
        {BYTES("\x81\xa2\xff\x1b\x01"), "{\"\\\\xff\\\\x1b\":1}\n"},
        {BYTES("\x81\xa0\x01"), "{\"\":1}\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        buffer_scoped struct buffer out;
        buffer_init(&out, 4096);
        convert(cases[i].data, cases[i].size, &out);
        assert_string_equal(out.data, cases[i].json);
    }
}

static void the_order_of_the_keys_is_kept(void **state)
{
    buffer_scoped struct buffer out;
    (void)state;
    buffer_init(&out, 4096);
    convert(BYTES("\x83\xa1z\x01\xa1"
                  "a\x02\xa1m\x03"),
            &out);
    assert_string_equal(out.data, "{\"z\":1,\"a\":2,\"m\":3}\n");
}

static void what_does_not_fit_is_an_error(void **state)
{
    static const char body[] = "\x81\xa1k\x93\x01\xa1x\xc0";
    struct message message;
    struct error err = {0};
    arena_scoped struct arena *arena = arena_new(ARENA_BYTES);
    (void)state;
    assert_int_equal(message_read(body, sizeof(body) - 1, arena, &message, &err), 0);
    for (size_t most = 0; most < sizeof("{\"k\":[1,\"x\",null]}\n") - 1; most++) {
        buffer_scoped struct buffer out;
        buffer_init(&out, most);
        assert_int_not_equal(json_output_message(&message, &out), 0);
    }
}

static void a_value_that_could_not_be_made_is_out_of_memory(void **state)
{
    buffer_scoped struct buffer out;
    (void)state;
    buffer_init(&out, 64);
    assert_int_not_equal(json_output_take(NULL, &out), 0);
    assert_int_equal(out.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_has_a_form),
        cmocka_unit_test(the_order_of_the_keys_is_kept),
        cmocka_unit_test(what_does_not_fit_is_an_error),
        cmocka_unit_test(a_value_that_could_not_be_made_is_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
