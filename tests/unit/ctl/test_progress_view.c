/* What a job's progress looks like, on a terminal and elsewhere. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "ctl/progress_view.h"

#define ERASE "\x1b[K"

struct fixture {
    struct buffer out;
    struct progress_view view;
};

static int set_up(void **state)
{
    struct fixture *fixture = test_calloc(1, sizeof(*fixture));
    buffer_init(&fixture->out, 65536);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    buffer_done(&fixture->out);
    test_free(fixture);
    return 0;
}

static void show(struct fixture *fixture, const char *phase, uint64_t bytes, uint64_t total,
                 const char *line)
{
    struct progress_entry entry;
    progress_entry_set(&entry, phase, bytes, total, line, line ? strlen(line) : 0);
    assert_int_equal(progress_view_show(&fixture->view, &entry), 0);
}

static void expect(struct fixture *fixture, const char *text)
{
    assert_string_equal(fixture->out.data ? fixture->out.data : "", text);
    buffer_clear(&fixture->out);
}

static void elsewhere_each_phase_is_told_as_it_begins_and_is_complete(void **state)
{
    struct fixture *fixture = *state;
    progress_view_init(&fixture->view, &fixture->out, 0);
    show(fixture, "upload", 512, 3 * 1024 * 1024, NULL);
    show(fixture, "upload", 1024 * 1024, 3 * 1024 * 1024, NULL);
    show(fixture, "upload", 3 * 1024 * 1024, 3 * 1024 * 1024, NULL);
    show(fixture, "install", 0, 0, NULL);
    show(fixture, "install", 0, 0, "added 1 package");
    show(fixture, "start", 0, 0, NULL);
    assert_int_equal(progress_view_end(&fixture->view), 0);
    expect(fixture, "upload    512 B of 3.0 MiB\n"
                    "upload    3.0 MiB of 3.0 MiB\n"
                    "install\n"
                    "install   added 1 package\n"
                    "start\n");
}

static void on_a_terminal_a_phase_is_one_line_written_anew(void **state)
{
    struct fixture *fixture = *state;
    progress_view_init(&fixture->view, &fixture->out, 80);
    show(fixture, "upload", 1536, 0, NULL);
    show(fixture, "upload", 2048, 0, NULL);
    expect(fixture, "\rupload    1.5 KiB" ERASE "\rupload    2.0 KiB" ERASE);
    show(fixture, "start", 0, 0, NULL);
    expect(fixture, "\n\rstart" ERASE);
    assert_int_equal(progress_view_end(&fixture->view), 0);
    expect(fixture, "\n");
    assert_int_equal(progress_view_end(&fixture->view), 0);
    expect(fixture, "");
}

static void hostile_lines_steer_nothing(void **state)
{
    struct fixture *fixture = *state;
    progress_view_init(&fixture->view, &fixture->out, 0);
    show(fixture, "\x1b[2J", 0, 0, "a\r\n\x1b]0;x\x07\xff");
    expect(fixture, "\\x1b[2J   a\\x0d\\x0a\\x1b]0;x\\x07\\xff\n");
    progress_view_init(&fixture->view, &fixture->out, 200);
    show(fixture, "install", 0, 0, "\x1b[1A\nx");
    expect(fixture, "\rinstall   \\x1b[1A\\x0ax" ERASE);
}

/* Else the line would wrap, and be written anew in the line below. */
static void a_line_never_reaches_the_last_column(void **state)
{
    struct fixture *fixture = *state;
    progress_view_init(&fixture->view, &fixture->out, 16);
    show(fixture, "install", 0, 0, "0123456789");
    expect(fixture, "\rinstall   01234" ERASE);
    /* Characters that may be wide count as two, and are not cut. */
    show(fixture, "install", 0, 0, "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad");
    expect(fixture, "\rinstall   \xe4\xb8\xad\xe4\xb8\xad" ERASE);
    progress_view_init(&fixture->view, &fixture->out, 1);
    show(fixture, "install", 0, 0, "x");
    expect(fixture, "\r" ERASE);
}

static void the_longest_line_is_shown(void **state)
{
    struct fixture *fixture = *state;
    char line[PROGRESS_LINE_MAX + 1];
    memset(line, 1, sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    progress_view_init(&fixture->view, &fixture->out, 0);
    show(fixture, "install", UINT64_MAX, UINT64_MAX, line);
    assert_int_equal(fixture->out.size,
                     strlen("install   16.0 EiB of 16.0 EiB  \n") + 4 * PROGRESS_LINE_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(elsewhere_each_phase_is_told_as_it_begins_and_is_complete),
        TEST(on_a_terminal_a_phase_is_one_line_written_anew),
        TEST(hostile_lines_steer_nothing),
        TEST(a_line_never_reaches_the_last_column),
        TEST(the_longest_line_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
