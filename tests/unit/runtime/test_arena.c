/* Pieces of an arena: apart from each other, aligned, and never past the cap. */
#include "support.h"

#include <limits.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"

static void pieces_are_aligned_and_apart(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(SIZE_MAX);
    static unsigned char *pieces[500];
    static size_t sizes[500];
    unsigned seed = 1;
    for (size_t i = 0; i < 500; i++) {
        sizes[i] = (size_t)rand_r(&seed) % (i % 50 == 0 ? 200000 : 300);
        pieces[i] = arena_alloc(arena, sizes[i]);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        memset(pieces[i], (int)(i & 0xff), sizes[i]);
    }
    for (size_t i = 0; i < 500; i++) {
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(pieces[i][at], i & 0xff);
    }
}

static void the_cap_holds_and_what_fails_takes_nothing(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(100);
    assert_non_null(arena_alloc(arena, 50));
    size_t used = arena_used(arena);
    assert_null(arena_alloc(arena, 51));
    assert_null(arena_printf(arena, "%100d", 1));
    assert_null(arena_text_n(arena, NULL, SIZE_MAX));
    assert_int_equal(arena_used(arena), used);
    assert_non_null(arena_alloc(arena, 30));
    assert_true(arena_used(arena) <= 100);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(SIZE_MAX);
    assert_null(arena_alloc(arena, SIZE_MAX));
    assert_null(arena_alloc(arena, SIZE_MAX - 3));
    assert_null(arena_calloc(arena, SIZE_MAX / 2, 3));
    assert_int_equal(arena_used(arena), 0);
}

static void texts_end_with_a_nul_and_counts_begin_at_zero(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    assert_string_equal(arena_text(arena, "text"), "text");
    assert_string_equal(arena_text_n(arena, "text", 2), "te");
    assert_string_equal(arena_text_n(arena, NULL, 0), "");
    assert_memory_equal(arena_copy(arena, "a\0b", 3), "a\0b", 3);
    assert_string_equal(arena_printf(arena, "%s-%d", "n", 7), "n-7");
    memset(arena_alloc(arena, 64), 0xff, 64);
    const unsigned char *zeroed = arena_calloc(arena, 8, 8);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(zeroed[i], 0);
    assert_non_null(arena_alloc(arena, 0));
    arena_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(the_cap_holds_and_what_fails_takes_nothing),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(texts_end_with_a_nul_and_counts_begin_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
