/* The tail against the plainest model of it: all bytes kept, the last ones compared. */
#include "support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/tail.h"

enum { ALL_BYTES = 60000 };

/* Appends pieces of many sizes and compares with the last limit bytes of all of them. */
static void compare_with_the_model(size_t limit, unsigned seed)
{
    struct tail tail;
    char *all = malloc(ALL_BYTES);
    assert_non_null(all);
    arena_scoped struct arena *arena = arena_new(SIZE_MAX);
    size_t size = 0;
    tail_init(&tail, limit);
    while (size < ALL_BYTES) {
        size_t bytes = (size_t)rand_r(&seed) % (seed % 5 == 0 ? 5000 : 40);
        if (bytes > ALL_BYTES - size)
            bytes = ALL_BYTES - size;
        for (size_t i = 0; i < bytes; i++)
            all[size + i] = (char)rand_r(&seed);
        assert_int_equal(tail_append(&tail, all + size, bytes), 0);
        size += bytes;
        size_t kept = size < limit ? size : limit;
        assert_int_equal(tail.size, kept);
        assert_int_equal(tail.dropped_bytes, size - kept);
        assert_true(tail.capacity <= limit);
    }
    char *copy = tail_copy(&tail, arena);
    assert_memory_equal(copy, all + size - tail.size, tail.size);
    assert_int_equal(copy[tail.size], '\0');
    tail_done(&tail);
    free(all);
}

static void keeps_the_last_bytes_and_counts_the_rest(void **state)
{
    (void)state;
    static const size_t limits[] = {0, 1, 2, 7, 255, 256, 257, 1000, 4096, 5001, 100000};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        for (unsigned seed = 1; seed < 6; seed++)
            compare_with_the_model(limits[i], seed);
    }
}

static void an_empty_tail_copies_to_the_empty_text(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(1024);
    struct tail tail;
    tail_init(&tail, 10);
    assert_string_equal(tail_copy(&tail, arena), "");
    assert_int_equal(tail_append(&tail, NULL, 0), 0);
    assert_string_equal(tail_copy(&tail, arena), "");
    tail_done(&tail);
}

static void memory_grows_with_what_is_kept_and_not_with_the_limit(void **state)
{
    (void)state;
    struct tail tail;
    tail_init(&tail, (size_t)1 << 26);
    assert_int_equal(tail_append(&tail, "abc", 3), 0);
    assert_true(tail.capacity <= 256);
    tail_done(&tail);
}

static void a_copy_that_the_arena_has_no_room_for_is_null(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(16);
    struct tail tail;
    tail_init(&tail, 100);
    assert_int_equal(tail_append(&tail, "0123456789abcdef", 16), 0);
    assert_null(tail_copy(&tail, arena));
    tail_done(&tail);
}

static void a_tail_without_memory_fails_and_keeps_what_it_had(void **state)
{
    (void)state;
    struct tail tail;
    tail_init(&tail, SIZE_MAX);
    assert_int_equal(tail_append(&tail, "abc", 3), 0);
    /* No such allocation exists; nothing is read from the data before it fails. */
    assert_int_equal(tail_append(&tail, "x", SIZE_MAX / 4), -ENOMEM);
    assert_int_equal(tail.size, 3);
    assert_int_equal(tail.dropped_bytes, 0);
    assert_memory_equal(tail.data, "abc", 3);
    tail_done(&tail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_last_bytes_and_counts_the_rest),
        cmocka_unit_test(an_empty_tail_copies_to_the_empty_text),
        cmocka_unit_test(memory_grows_with_what_is_kept_and_not_with_the_limit),
        cmocka_unit_test(a_copy_that_the_arena_has_no_room_for_is_null),
        cmocka_unit_test(a_tail_without_memory_fails_and_keeps_what_it_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
