/* A buffer grows to its maximum and not a byte further. */
#include "support.h"

#include <errno.h>
#include <string.h>

#include "runtime/buffer.h"

static void appends_all_or_nothing(void **state)
{
    (void)state;
    buffer_scoped struct buffer buffer;
    buffer_init(&buffer, 5);
    assert_int_equal(buffer_append(&buffer, "abc", 3), 0);
    assert_int_equal(buffer_append(&buffer, "def", 3), -EMSGSIZE);
    assert_int_equal(buffer_append_format(&buffer, "%d", 123), -EMSGSIZE);
    assert_string_equal(buffer.data, "abc");
    assert_int_equal(buffer_append_text(&buffer, "de"), 0);
    assert_int_equal(buffer_append_text(&buffer, "f"), -EMSGSIZE);
    assert_int_equal(buffer_append(&buffer, NULL, 0), 0);
    assert_string_equal(buffer.data, "abcde");
    assert_int_equal(buffer.size, 5);
}

static void is_always_followed_by_a_nul(void **state)
{
    (void)state;
    buffer_scoped struct buffer buffer;
    buffer_init(&buffer, 100000);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(buffer_append_format(&buffer, "%d,", i % 10), 0);
        assert_int_equal(buffer.data[buffer.size], '\0');
        assert_true(buffer.capacity <= buffer.max_bytes + 1);
    }
    assert_int_equal(strlen(buffer.data), 20000);
}

static void bytes_are_taken_from_the_front(void **state)
{
    (void)state;
    buffer_scoped struct buffer buffer;
    buffer_init(&buffer, 100);
    buffer_consume(&buffer, 0);
    assert_int_equal(buffer_append(&buffer, "a\0bcd", 5), 0);
    buffer_consume(&buffer, 2);
    assert_string_equal(buffer.data, "bcd");
    buffer_consume(&buffer, 3);
    assert_int_equal(buffer.size, 0);
    assert_string_equal(buffer.data, "");
}

static void clearing_keeps_the_memory_and_done_gives_it_back(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer, 100);
    buffer_clear(&buffer);
    assert_int_equal(buffer_append_text(&buffer, "text"), 0);
    size_t capacity = buffer.capacity;
    buffer_clear(&buffer);
    assert_string_equal(buffer.data, "");
    assert_int_equal(buffer.capacity, capacity);
    buffer_done(&buffer);
    buffer_done(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer_append_text(&buffer, "again"), 0);
    buffer_done(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_all_or_nothing),
        cmocka_unit_test(is_always_followed_by_a_nul),
        cmocka_unit_test(bytes_are_taken_from_the_front),
        cmocka_unit_test(clearing_keeps_the_memory_and_done_gives_it_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
