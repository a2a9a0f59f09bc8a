/* Hostile text, shown. */
#include "support.h"

#include <errno.h>
#include <string.h>

#include "ctl/visible.h"

struct sample {
    const char *data;
    size_t size;
    const char *line; /* as a table's cell */
    const char *text; /* as output, where LF and TAB stay */
};

#define SAMPLE(data, line, text)                                                           \
    {                                                                                      \
        data, sizeof(data) - 1, line, text                                                 \
    }

static const struct sample samples[] = {
    SAMPLE("", "", ""),
    SAMPLE("plain", "plain", "plain"),
    SAMPLE("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80",
           "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"),
    SAMPLE("a\nb\tc", "a\\x0ab\\x09c", "a\nb\tc"),
    SAMPLE("\x1b[2J", "\\x1b[2J", "\\x1b[2J"),
    SAMPLE("\r\x7f\x08", "\\x0d\\x7f\\x08", "\\x0d\\x7f\\x08"),
    SAMPLE("a\0b", "a\\x00b", "a\\x00b"),
    SAMPLE("\xff\xc3", "\\xff\\xc3", "\\xff\\xc3"),
    SAMPLE("\x9b"
           "31m",
           "\\x9b31m", "\\x9b31m"),
    SAMPLE("\xc2\x9b"
           "31m",
           "\\u009b31m", "\\u009b31m"),
    SAMPLE("\xe2\x80\xae"
           "abc\xe2\x81\xa6",
           "\\u202eabc\\u2066", "\\u202eabc\\u2066"),
    SAMPLE("\xe2\x80\xa8", "\\u2028", "\\u2028"),
    SAMPLE("\xed\xa0\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80"),
};

static void what_could_steer_a_terminal_is_escaped(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        buffer_scoped struct buffer out;
        buffer_init(&out, 1024);
        assert_int_equal(buffer_append_text(&out, ""), 0);
        assert_int_equal(visible_append(&out, samples[i].data, samples[i].size, false), 0);
        assert_string_equal(out.data, samples[i].line);
        buffer_clear(&out);
        assert_int_equal(visible_append(&out, samples[i].data, samples[i].size, true), 0);
        assert_string_equal(out.data, samples[i].text);
    }
}

static void no_control_byte_comes_through(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        const char data[] = {(char)byte};
        buffer_scoped struct buffer out;
        buffer_init(&out, 64);
        assert_int_equal(visible_append(&out, data, 1, false), 0);
        for (size_t i = 0; i < out.size; i++)
            assert_in_range((unsigned char)out.data[i], 0x20, 0x7e);
    }
}

static void a_character_that_may_still_become_whole_waits_for_its_rest(void **state)
{
    static const struct {
        const char *data;
        size_t size;
        size_t whole;
    } texts[] = {
        {"", 0, 0},
        {"ab", 2, 2},
        {"gr\xc3\xbc", 4, 4},
        {"gr\xc3", 3, 2},
        {"a\xf0\x9f\x98\x80", 5, 5},
        {"a\xf0\x9f\x98", 4, 1},
        {"a\xf0\x9f", 3, 1},
        {"a\xf0", 2, 1},
        {"\xe0", 1, 0},
        {"\xe0\xa0", 2, 0},
        {"\xe0\x80", 2, 2}, /* a longer form than needed: never a character */
        {"\xed\xa0", 2, 2}, /* a surrogate */
        {"\xf4\x90", 2, 2}, /* behind the last character */
        {"\xff", 1, 1},
        {"\x80\x80", 2, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (visible_whole(texts[i].data, texts[i].size) != texts[i].whole)
            fail_msg("text %zu: %zu", i, visible_whole(texts[i].data, texts[i].size));
    }
}

static void a_full_buffer_is_told(void **state)
{
    buffer_scoped struct buffer out;
    (void)state;
    buffer_init(&out, 5);
    assert_int_equal(visible_append(&out, "ab\x1b", 3, false), -EMSGSIZE);
    buffer_clear(&out);
    assert_int_equal(visible_append(&out, "abcdef", 6, false), -EMSGSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_could_steer_a_terminal_is_escaped),
        cmocka_unit_test(no_control_byte_comes_through),
        cmocka_unit_test(a_character_that_may_still_become_whole_waits_for_its_rest),
        cmocka_unit_test(a_full_buffer_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
