/* Variables from the command line and from files, and messages that do not give them away.
 */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "ctl/environment.h"

struct fixture {
    struct arena *arena;
    struct environment environment;
    struct error err;
};

static const char *own_environment(const char *variable)
{
    if (strcmp(variable, "TOKEN") == 0)
        return "hush";
    return strcmp(variable, "EMPTY") == 0 ? "" : NULL;
}

static int set_up(void **state)
{
    struct fixture *fixture = test_calloc(1, sizeof(*fixture));
    fixture->arena = arena_new(4 * 1024 * 1024);
    environment_init(&fixture->environment, fixture->arena, own_environment);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    arena_free(fixture->arena);
    test_free(fixture);
    return 0;
}

static void expect_variable(const struct fixture *fixture, size_t index, const char *name,
                            const char *value)
{
    assert_true(index < fixture->environment.count);
    const struct job_variable *variable = &fixture->environment.variables[index];
    assert_int_equal(variable->name.size, strlen(name));
    assert_memory_equal(variable->name.data, name, strlen(name));
    assert_int_equal(variable->value.size, strlen(value));
    assert_memory_equal(variable->value.data, value, strlen(value));
}

static int add(struct fixture *fixture, const char *setting)
{
    return environment_add(&fixture->environment, setting, &fixture->err);
}

static int add_lines(struct fixture *fixture, const char *text)
{
    return environment_add_lines(&fixture->environment, "vars", text, strlen(text),
                                 &fixture->err);
}

static void a_value_is_given_or_is_taken_from_the_own_environment(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(add(fixture, "A=x=y "), 0);
    assert_int_equal(add(fixture, "B="), 0);
    assert_int_equal(add(fixture, "TOKEN"), 0);
    assert_int_equal(add(fixture, "EMPTY"), 0);
    assert_int_equal(fixture->environment.count, 4);
    expect_variable(fixture, 0, "A", "x=y ");
    expect_variable(fixture, 1, "B", "");
    expect_variable(fixture, 2, "TOKEN", "hush");
    expect_variable(fixture, 3, "EMPTY", "");
}

static void the_last_value_of_a_name_counts(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(add_lines(fixture, "A=1\nAB=2\nA=3\n"), 0);
    assert_int_equal(add(fixture, "AB=4"), 0);
    assert_int_equal(fixture->environment.count, 2);
    expect_variable(fixture, 0, "A", "3");
    expect_variable(fixture, 1, "AB", "4");
}

static void lines_of_a_file_are_variables_comments_or_nothing(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(add_lines(fixture, "# a comment\n\nA='1' # kept\nTOKEN\n_9=z"), 0);
    assert_int_equal(fixture->environment.count, 3);
    expect_variable(fixture, 0, "A", "'1' # kept");
    expect_variable(fixture, 1, "TOKEN", "hush");
    expect_variable(fixture, 2, "_9", "z");
}

static void what_is_wrong_is_told_by_its_place_and_never_quoted(void **state)
{
    static const struct {
        const char *text;
        const char *message; /* part of it */
    } cases[] = {
        {"A=1\nhush hush\n", "vars, line 2: a variable is NAME=VALUE or NAME"},
        {"# c\n\n=hush", "vars, line 3: a variable is"},
        {"9hush=1", "vars, line 1: a variable is"},
        {"hush", "vars, line 1: no value stands there"},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(add_lines(fixture, cases[i].text), -1);
        assert_int_equal(fixture->err.code, ERROR_CONFIGURATION);
        assert_non_null(strstr(fixture->err.message, cases[i].message));
        assert_null(strstr(fixture->err.message, "hush"));
    }
    assert_int_equal(add(fixture, "UNSET"), -1);
    assert_non_null(strstr(fixture->err.message, "--env UNSET: no value"));
    assert_int_equal(add(fixture, "my-hush"), -1);
    assert_null(strstr(fixture->err.message, "hush"));
    assert_int_equal(add(fixture, "=hush"), -1);
    assert_null(strstr(fixture->err.message, "hush"));
}

static void more_variables_than_a_job_takes_are_refused(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < JOB_DEPLOY_MAX_ENV; i++) {
        char *setting = arena_printf(fixture->arena, "V%d=x", i);
        assert_non_null(setting);
        assert_int_equal(add(fixture, setting), 0);
    }
    assert_int_equal(add(fixture, "ONE_MORE=x"), -1);
    assert_int_equal(add(fixture, "V7=again"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_value_is_given_or_is_taken_from_the_own_environment),
        TEST(the_last_value_of_a_name_counts),
        TEST(lines_of_a_file_are_variables_comments_or_nothing),
        TEST(what_is_wrong_is_told_by_its_place_and_never_quoted),
        TEST(more_variables_than_a_job_takes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
