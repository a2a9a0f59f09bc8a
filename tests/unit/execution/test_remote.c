/* Composing scripts. */
#include "support.h"

#include <ctype.h>
#include <string.h>

#include "execution/remote.h"

extern const char remote_attach_sh[];

static const char PROGRAM[] = "a=1\nlast";

static void arguments_are_quoted_before_the_program(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    const char *const arguments[] = {"it's", "", "a b\n$x", NULL};
    const char *script = NULL;
    struct error err = {0};
    assert_int_equal(remote_compose(PROGRAM, arguments, 1000, arena, &script, &err), 0);
    assert_string_equal(script, "set -- 'it'\\''s' '' 'a b\n$x'\na=1\nlast");
}

static void a_script_that_is_too_long_is_refused_before_it_is_sent(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(4096);
    const char *const arguments[] = {"x", NULL};
    const char *script = NULL;
    struct error err = {0};
    assert_int_equal(remote_compose("abc", arguments, 14, arena, &script, &err), 0);
    assert_int_equal(strlen(script), 14);
    script = NULL;
    assert_int_equal(remote_compose("abc", arguments, 13, arena, &script, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_ARGUMENT);
    assert_null(script);
    assert_int_equal(remote_compose("abc", arguments, SIZE_MAX, arena, &script, &err), 0);
}

/* Some providers carry the script in a URL of eight kilobytes, where a third of its
 * characters takes three bytes: what is sent must not creep up unseen. */
static void the_attach_program_stays_small(void **state)
{
    (void)state;
    arena_scoped struct arena *arena = arena_new(65536);
    const char *const arguments[] = {NULL};
    const char *script = NULL;
    struct error err = {0};
    assert_int_equal(
        remote_compose(remote_attach_sh, arguments, 5376, arena, &script, &err), 0);
    assert_null(strstr(script, "\n#"));
}

static void nonces_are_hex_and_differ(void **state)
{
    (void)state;
    char first[REMOTE_NONCE_LENGTH + 1];
    char second[REMOTE_NONCE_LENGTH + 1];
    remote_nonce(first);
    remote_nonce(second);
    assert_int_equal(strlen(first), REMOTE_NONCE_LENGTH);
    for (const char *c = first; *c; c++)
        assert_true(isxdigit((unsigned char)*c));
    assert_string_not_equal(first, second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_quoted_before_the_program),
        cmocka_unit_test(a_script_that_is_too_long_is_refused_before_it_is_sent),
        cmocka_unit_test(the_attach_program_stays_small),
        cmocka_unit_test(nonces_are_hex_and_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
