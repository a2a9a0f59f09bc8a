/* Errors are filled whole, cut where they are long, and never lose their code. */
#include "support.h"

#include <errno.h>
#include <string.h>

#include "runtime/error.h"

static void setting_resets_everything_and_returns_minus_one(void **state)
{
    (void)state;
    struct error err;
    memset(&err, 0x5a, sizeof(err));
    assert_int_equal(error_set(&err, ERROR_RATE_LIMITED, "wait %d s", 3), -1);
    assert_int_equal(err.code, ERROR_RATE_LIMITED);
    assert_true(err.retryable);
    assert_false(err.has_exit_code);
    assert_int_equal(err.retry_after_ms, 0);
    assert_string_equal(err.field, "");
    assert_string_equal(err.capability, "");
    assert_null(err.remedy);
    assert_string_equal(err.message, "wait 3 s");
    assert_int_equal(error_set(NULL, ERROR_INTERNAL, "nobody listens"), -1);
    assert_int_equal(error_wrap(NULL, "nobody"), -1);
}

static void a_field_is_named(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(error_set_field(&err, "sandbox.id", "%s", "bad"), -1);
    assert_int_equal(err.code, ERROR_INVALID_ARGUMENT);
    assert_string_equal(err.field, "sandbox.id");
    assert_string_equal(err.message, "bad");
    char longer[200];
    memset(longer, 'f', sizeof(longer));
    longer[199] = '\0';
    (void)error_set_field(&err, longer, "bad");
    assert_int_equal(strlen(err.field), sizeof(err.field) - 1);
}

static void contexts_stand_before_the_message(void **state)
{
    (void)state;
    struct error err = {0};
    (void)error_set(&err, ERROR_TIMEOUT, "no answer");
    assert_int_equal(error_wrap(&err, "start exec"), -1);
    assert_int_equal(error_wrap(&err, "attach"), -1);
    assert_string_equal(err.message, "attach: start exec: no answer");
    assert_int_equal(err.code, ERROR_TIMEOUT);
}

static void long_messages_are_cut_and_terminated(void **state)
{
    (void)state;
    struct error err = {0};
    char longer[1000];
    memset(longer, 'm', sizeof(longer));
    longer[999] = '\0';
    (void)error_set(&err, ERROR_INTERNAL, "%s", longer);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    for (int i = 0; i < 5; i++) {
        (void)error_wrap(&err, "context");
        assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    }
    assert_int_equal(strncmp(err.message, "context: context: context: ", 27), 0);
    (void)error_set(&err, ERROR_INTERNAL, "why");
    (void)error_wrap(&err, longer);
    size_t bytes = strlen(err.message);
    assert_string_equal(err.message + bytes - 5, ": why");
}

static void what_a_wait_returned_becomes_a_code(void **state)
{
    (void)state;
    static const struct {
        int result;
        enum error_code code;
    } cases[] = {{-ETIMEDOUT, ERROR_TIMEOUT},
                 {-ECANCELED, ERROR_CANCELLED},
                 {-ENOMEM, ERROR_INTERNAL},
                 {-EPIPE, ERROR_INTERNAL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error err = {0};
        assert_int_equal(error_set_wait(&err, cases[i].result, "the reply"), -1);
        assert_int_equal(err.code, cases[i].code);
        assert_non_null(strstr(err.message, "the reply"));
    }
}

static void names_and_codes_lead_back_to_each_other(void **state)
{
    (void)state;
    for (int i = ERROR_NONE; i <= ERROR_CONFIGURATION; i++) {
        enum error_code code = (enum error_code)i;
        assert_int_equal(error_code_from_name(error_code_name(code)), code);
    }
    assert_int_equal(error_code_from_name("no_such_code"), ERROR_INTERNAL);
    assert_string_equal(error_code_name((enum error_code)999), "internal");
    assert_string_equal(error_code_name(ERROR_CAPABILITY_UNAVAILABLE),
                        "capability_unavailable");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_resets_everything_and_returns_minus_one),
        cmocka_unit_test(a_field_is_named),
        cmocka_unit_test(contexts_stand_before_the_message),
        cmocka_unit_test(long_messages_are_cut_and_terminated),
        cmocka_unit_test(what_a_wait_returned_becomes_a_code),
        cmocka_unit_test(names_and_codes_lead_back_to_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
