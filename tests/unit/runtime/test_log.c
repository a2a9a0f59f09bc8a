/* Log lines: one line an event, whatever the values hold. The lines are read back from a
 * pipe. */
#include "support.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/log.h"
#include "runtime/task.h"

static int read_fd;
static int write_fd;
static char got[64 * 1024];

static int set_up(void **state)
{
    (void)state;
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    read_fd = fds[0];
    write_fd = fds[1];
    log_set_descriptor(write_fd);
    log_set_level(LOG_INFO);
    log_set_format(LOG_FORMAT_LOGFMT);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_set_descriptor(STDERR_FILENO);
    (void)close(read_fd);
    (void)close(write_fd);
    return 0;
}

/* What was written since the last call, without the time at its front. */
static const char *written(void)
{
    log_flush();
    ssize_t bytes = read(read_fd, got, sizeof(got) - 1);
    got[bytes > 0 ? bytes : 0] = '\0';
    const char *level = strstr(got, "level");
    return level ? level : got;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static void a_line_is_logfmt(void **state)
{
    (void)state;
    log_info("job answered", log_text("outcome", "ok"), log_int("run_ms", -12));
    assert_string_equal(written(),
                        "level=info msg=\"job answered\" outcome=ok run_ms=-12\n");
    assert_int_equal(strncmp(got, "time=2", 6), 0);
    log_info("bare");
    assert_string_equal(written(), "level=info msg=bare\n");
}

static void a_line_is_json(void **state)
{
    (void)state;
    log_set_format(LOG_FORMAT_JSON);
    log_warn("job answered", log_text("outcome", "ok"), log_int("run_ms", 12));
    assert_string_equal(
        written(),
        "level\":\"warn\",\"msg\":\"job answered\",\"outcome\":\"ok\",\"run_ms\":12}\n");
    assert_int_equal(strncmp(got, "{\"time\":\"2", 10), 0);
}

static void hostile_text_stays_inside_its_field(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *escaped; /* as it stands in both forms */
    } cases[] = {
        {"", "\"\""},
        {"a=b level=error", "\"a=b level=error\""},
        {"x\nlevel=error msg=forged", "\"x\\nlevel=error msg=forged\""},
        {"\" level=error \"", "\"\\\" level=error \\\"\""},
        {"\\\" x", "\"\\\\\\\" x\""},
        {"\",\"forged\":\"", "\"\\\",\\\"forged\\\":\\\"\""},
        {"\r\t\x01\x7f", "\"\\u000d\\u0009\\u0001\\u007f\""},
        {"\x1b[2J\x1b]0;title\x07", "\"\\u001b[2J\\u001b]0;title\\u0007\""},
        {"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[256];
        log_set_format(LOG_FORMAT_LOGFMT);
        log_info("m", log_text("value", cases[i].text), log_int("n", 1));
        (void)snprintf(expected, sizeof(expected), "level=info msg=m value=%s n=1\n",
                       cases[i].escaped);
        assert_string_equal(written(), expected);
        assert_int_equal(count_lines(got), 1);
        log_set_format(LOG_FORMAT_JSON);
        log_info("m", log_text("value", cases[i].text), log_int("n", 1));
        (void)snprintf(expected, sizeof(expected),
                       "level\":\"info\",\"msg\":\"m\",\"value\":%s,\"n\":1}\n",
                       cases[i].escaped);
        assert_string_equal(written(), expected);
        assert_int_equal(count_lines(got), 1);
    }
}

static void a_hostile_message_is_escaped_as_well(void **state)
{
    (void)state;
    log_info("a\nb=\"c\"\x1b[0m");
    assert_string_equal(written(), "level=info msg=\"a\\nb=\\\"c\\\"\\u001b[0m\"\n");
}

static void values_are_cut_and_the_line_stays_whole(void **state)
{
    (void)state;
    static char longer[5000];
    const char *value_of_5000 = longer;
    memset(longer, 'v', sizeof(longer));
    longer[4999] = '\0';
    for (int form = LOG_FORMAT_LOGFMT; form <= LOG_FORMAT_JSON; form++) {
        log_set_format((enum log_format)form);
        log_info("m", log_text("value", value_of_5000), log_text("after", "it"));
        const char *line = written();
        const char *value = strstr(line, "\"vvv");
        assert_non_null(value);
        assert_int_equal(strspn(value + 1, "v"), 1024);
        assert_int_equal(value[1025], '"');
        assert_non_null(strstr(line, "after"));
    }
}

static void a_line_past_its_room_still_ends_as_a_line(void **state)
{
    (void)state;
    char bytes[1025];
    const char *control = bytes;
    memset(bytes, 1, sizeof(bytes)); /* each byte becomes six */
    bytes[1024] = '\0';
    log_info("m", log_text("a", control), log_text("b", control), log_text("c", control));
    const char *line = written();
    assert_int_equal(count_lines(line), 1);
    assert_int_equal(line[strlen(line) - 1], '\n');
    assert_true(strlen(got) <= 8192);
}

static void levels_below_the_least_are_dropped(void **state)
{
    (void)state;
    log_debug("unseen");
    assert_string_equal(written(), "");
    log_set_level(LOG_ERROR);
    log_warn("unseen");
    assert_string_equal(written(), "");
    log_error("seen");
    assert_string_equal(written(), "level=error msg=seen\n");
    enum log_level level = LOG_INFO;
    assert_true(log_level_from_name("debug", &level));
    assert_int_equal(level, LOG_DEBUG);
    assert_false(log_level_from_name("loud", &level));
    assert_int_equal(level, LOG_DEBUG);
}

static void log_in_task(void *arg)
{
    (void)arg;
    struct task_context *context = task_context(task_self());
    context->job = "j-1";
    context->op = "attach";
    context->provider = "p\n1";
    for (int i = 0; i < 3; i++)
        log_info("step", log_int("i", i));
}

static void lines_of_a_task_name_its_job_and_come_in_order(void **state)
{
    (void)state;
    support_run_task(log_in_task, NULL);
    const char *lines = written();
    assert_int_equal(count_lines(lines), 3);
    assert_non_null(
        strstr(lines, "msg=step job=j-1 op=attach provider=\"p\\n1\" step=start i=0\n"));
    assert_true(strstr(lines, "i=0") < strstr(lines, "i=1"));
    assert_true(strstr(lines, "i=1") < strstr(lines, "i=2"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_is_logfmt),
        TEST(a_line_is_json),
        TEST(hostile_text_stays_inside_its_field),
        TEST(a_hostile_message_is_escaped_as_well),
        TEST(values_are_cut_and_the_line_stays_whole),
        TEST(a_line_past_its_room_still_ends_as_a_line),
        TEST(levels_below_the_least_are_dropped),
        TEST(lines_of_a_task_name_its_job_and_come_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
