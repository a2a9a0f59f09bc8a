/* Quoted words through every shell that a sandbox is likely to have. */
#include "support.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "providers/shell.h"
#include "runtime/process.h"

static void assert_quoted(const char *text, const char *expected)
{
    buffer_scoped struct buffer buffer;
    buffer_init(&buffer, 4096);
    assert_int_equal(shell_append_quoted(&buffer, text), 0);
    assert_string_equal(buffer.data, expected);
}

static void a_word_is_put_in_single_quotes(void **state)
{
    (void)state;
    assert_quoted("", "''");
    assert_quoted("plain", "'plain'");
    assert_quoted("it's", "'it'\\''s'");
    assert_quoted("'", "''\\'''");
    assert_quoted("$(id) `id` \\ \"", "'$(id) `id` \\ \"'");
}

static void a_word_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    for (size_t room = 0; room <= 9; room++) {
        buffer_scoped struct buffer buffer;
        buffer_init(&buffer, room);
        int expected = room < strlen("'it'\\''s'") ? -EMSGSIZE : 0;
        assert_int_equal(shell_append_quoted(&buffer, "it's"), expected);
    }
}

struct round_trip {
    const char *const *shell; /* its words, up to -c */
    const char *text;
    struct arena *arena;
    struct buffer script;
    struct process_result result;
    struct error err;
    int returned;
};

static void run_shell(void *arg)
{
    struct round_trip *trip = arg;
    const char *argv[5] = {NULL};
    size_t count = 0;
    for (; trip->shell[count]; count++)
        argv[count] = trip->shell[count];
    argv[count] = trip->script.data;
    const struct process_request request = {
        .argv = argv, .cwd_fd = -1, .output_limit_bytes = 4096};
    trip->returned = process_run(&request, trip->arena, &trip->result, &trip->err);
}

static const char *const dash[] = {"dash", "-c", NULL};
static const char *const bash[] = {"bash", "-c", NULL};
static const char *const busybox[] = {"busybox", "sh", "-c", NULL};

static void assert_comes_back(const char *const *shell, const char *text)
{
    struct round_trip trip = {.shell = shell, .text = text};
    trip.arena = arena_new(65536);
    buffer_init(&trip.script, 4096);
    assert_int_equal(buffer_append_text(&trip.script, "printf '%s|' "), 0);
    assert_int_equal(shell_append_quoted(&trip.script, text), 0);
    assert_int_equal(buffer_append_text(&trip.script, " end"), 0);
    support_run_task(run_shell, &trip);
    assert_int_equal(trip.returned, 0);
    assert_int_equal(trip.result.exit_code, 0);
    size_t bytes = strlen(text);
    assert_int_equal(trip.result.out.size, bytes + strlen("|end|"));
    assert_memory_equal(trip.result.out.data, text, bytes);
    assert_string_equal(trip.result.out.data + bytes, "|end|");
    buffer_done(&trip.script);
    arena_free(trip.arena);
}

static void every_text_comes_back_from_every_shell(void **state)
{
    (void)state;
    char every_byte[256];
    for (int i = 0; i < 255; i++)
        every_byte[i] = (char)(i + 1);
    every_byte[255] = '\0';
    const char *const texts[] = {"",
                                 "plain",
                                 "'",
                                 "''''",
                                 "it's \"two\" words",
                                 "$(id) `id` $HOME ${x} \\ \\n !! * ? [a] ~ # & ; | < >",
                                 "-n",
                                 "--",
                                 "\nnew\nlines\n",
                                 "\r\t\x1b[31m",
                                 "\xff\xfe\xc3\xa4",
                                 "'\\''\\'",
                                 every_byte};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_comes_back(dash, texts[i]);
        assert_comes_back(bash, texts[i]);
        assert_comes_back(busybox, texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_is_put_in_single_quotes),
        cmocka_unit_test(a_word_that_does_not_fit_is_refused),
        cmocka_unit_test(every_text_comes_back_from_every_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
