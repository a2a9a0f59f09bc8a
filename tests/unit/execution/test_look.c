/* Reading the attach program's answer: whole, cut at every byte, and bent. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "execution/look.h"

#define NONCE "00112233445566778899aabbccddeeff"
#define BEGIN "\nattachd-begin " NONCE "\n"
#define END   "attachd-end " NONCE "\n"

static const char FACTS[] = "directory directory\nproc yes\n"
                            "status file\nstatus-line running|a1\n"
                            "pid file\npid-line 4242\ntoken file\ntoken-line 154320\n"
                            "claim-boot 1a-2b\nboot 3c-4d\n"
                            "process S 154320 0\nsignalable yes\nlauncher no\n"
                            "status file\nstatus-line exited|a1|3|\n";

static const char RAW[] = "output stdout 100 5\nab\0\nc\noutput-end\n"
                          "output stderr 0 0\n\noutput-end\n";

static const char BASE64[] = "output stdout 100 5\nYWIA\nCmM=\n\noutput-end\n"
                             "output stderr 0 0\n\noutput-end\n";

enum { ARENA_MAX = 1024 * 1024 };

struct answer {
    char data[1024];
    size_t size;
    struct look_request request;
    struct arena *arena;
    struct look look;
    struct error err;
};

static void add(struct answer *answer, const char *text, size_t size)
{
    assert_true(answer->size + size <= sizeof(answer->data));
    memcpy(answer->data + answer->size, text, size);
    answer->size += size;
}

#define ADD(answer, text) add(answer, text, strlen(text))

static void answer_init(struct answer *answer, bool base64)
{
    *answer = (struct answer){.arena = arena_new(ARENA_MAX)};
    answer->request = (struct look_request){
        .nonce = NONCE,
        .remote_dir = "/app",
        .execution_id = "a1",
        .base64 = base64,
        .stdout_request = {.wanted = true, .max_bytes = 64},
        .stderr_request = {.wanted = true, .max_bytes = 64},
    };
}

static void whole_answer(struct answer *answer, bool base64)
{
    answer_init(answer, base64);
    ADD(answer, "Welcome!\nattachd-begin 00\nYou have mail.");
    ADD(answer, BEGIN);
    ADD(answer, FACTS);
    if (base64)
        add(answer, BASE64, sizeof(BASE64) - 1);
    else
        add(answer, RAW, sizeof(RAW) - 1);
    ADD(answer, END);
}

static void answer_done(struct answer *answer)
{
    arena_free(answer->arena);
}

/* In a copy of just that size, so that reading past it is seen by the sanitizer. */
static int parse(struct answer *answer, size_t size)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, answer->data, size);
    char *in_arena = arena_copy(answer->arena, copy, size);
    answer->err = (struct error){0};
    int result = look_parse(copy, size, &answer->request, answer->arena, &answer->look,
                            &answer->err);
    if (result == 0) /* what points into the answer must outlive this function */
        result = look_parse(in_arena, size, &answer->request, answer->arena, &answer->look,
                            &answer->err);
    free(copy);
    return result;
}

static void assert_whole(const struct look *look)
{
    const struct observation *seen = &look->observation;
    assert_true(seen->directory_exists && seen->status_exists && seen->status_readable);
    assert_string_equal(seen->status_text, "exited|a1|3|");
    assert_string_equal(seen->pid_text, "4242");
    assert_string_equal(seen->token_text, "154320");
    assert_true(seen->has_proc && seen->signalable && seen->launcher_looked_for);
    assert_false(seen->launcher_alive);
    assert_int_equal(seen->process_state, 'S');
    assert_string_equal(seen->start_time, "154320");
    assert_string_equal(seen->blank_start_time, "0");
    assert_int_equal(look->outputs[OUTPUT_STDOUT].total_bytes, 100);
    assert_int_equal(look->outputs[OUTPUT_STDOUT].size, 5);
    assert_memory_equal(look->outputs[OUTPUT_STDOUT].data, "ab\0\nc", 5);
    assert_int_equal(look->outputs[OUTPUT_STDERR].size, 0);
}

static void a_whole_answer_is_read_despite_noise_around_it(void **state)
{
    (void)state;
    for (int base64 = 0; base64 < 2; base64++) {
        struct answer answer;
        whole_answer(&answer, base64);
        assert_int_equal(parse(&answer, answer.size), 0);
        assert_whole(&answer.look);
        ADD(&answer, "logout\n\xff");
        assert_int_equal(parse(&answer, answer.size), 0);
        assert_whole(&answer.look);
        answer_done(&answer);
    }
}

/* Only the very last line end may go: providers trim it, and nothing is lost with it. */
static void an_answer_cut_at_any_byte_is_an_error(void **state)
{
    (void)state;
    for (int base64 = 0; base64 < 2; base64++) {
        struct answer answer;
        whole_answer(&answer, base64);
        for (size_t size = 0; size + 1 < answer.size; size++) {
            struct look untouched = {.home = "untouched"};
            answer.look = untouched;
            assert_int_equal(parse(&answer, size), -1);
            assert_int_equal(answer.err.code, ERROR_PROVIDER_UNAVAILABLE);
            assert_true(answer.err.retryable);
            assert_string_equal(answer.look.home, "untouched");
        }
        assert_int_equal(parse(&answer, answer.size - 1), 0);
        assert_whole(&answer.look);
        answer_done(&answer);
    }
}

/* Dropping any one byte of the output changes its length, which the header tells. */
static void output_of_another_length_is_an_error(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "output stdout 100 3\n",  "output stdout 100 4\n",
        "output stdout 100 6\n",  "output stdout 100 0\n",
        "output stdout 100 40\n", "output stdout 100 65\n",
        "output stdout 100 -5\n", "output stdout 100 5 \n",
        "output stdout 100\n",    "output stdout 100 99999999999999999999\n",
        "output stdin 100 5\n",   "output stdout 1x 5\n"};
    for (size_t i = 0; i < 2 * sizeof(headers) / sizeof(headers[0]); i++) {
        struct answer answer;
        bool base64 = i % 2;
        answer_init(&answer, base64);
        ADD(&answer, BEGIN);
        ADD(&answer, FACTS);
        ADD(&answer, headers[i / 2]);
        const char *outputs = base64 ? BASE64 : RAW;
        size_t size = base64 ? sizeof(BASE64) - 1 : sizeof(RAW) - 1;
        size_t header = strlen("output stdout 100 5\n");
        add(&answer, outputs + header, size - header);
        ADD(&answer, END);
        assert_int_equal(parse(&answer, answer.size), -1);
        assert_int_equal(answer.err.code, ERROR_PROVIDER_UNAVAILABLE);
        answer_done(&answer);
    }
}

static void dropping_any_byte_of_raw_output_is_an_error(void **state)
{
    (void)state;
    struct answer answer;
    whole_answer(&answer, false);
    char *output = memmem(answer.data, answer.size, "output stdout", 13);
    size_t start = (size_t)(output - answer.data) + strlen("output stdout 100 5\n");
    for (size_t drop = start; drop < start + 5; drop++) {
        struct answer cut = answer;
        memmove(cut.data + drop, cut.data + drop + 1, cut.size - drop - 1);
        assert_int_equal(parse(&cut, cut.size - 1), -1);
        assert_int_equal(cut.err.code, ERROR_PROVIDER_UNAVAILABLE);
    }
    answer_done(&answer);
}

static void what_is_no_fact_spoils_the_answer(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "",                                    /* no fact at all */
        "proc yes\n",                          /* no directory */
        "directory directory\nproc yes\n",     /* no output, which was asked for */
        "directory missing\nnoise\n",          /* noise inside */
        "directory missing\n\n",               /* an empty line */
        "directory missing\nattachd-end 00\n", /* another end */
        "directory missing\nprocess S 1\n",
        "directory missing\nprocess SS 1 2\n",
        "directory missing\nstatus-line running|a1\n",
        "directory directory\noutput stdout 0 0\n\noutput-end\n",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct answer answer;
        answer_init(&answer, false);
        ADD(&answer, BEGIN);
        ADD(&answer, bodies[i]);
        ADD(&answer, END);
        assert_int_equal(parse(&answer, answer.size), -1);
        assert_int_equal(answer.err.code, ERROR_PROVIDER_UNAVAILABLE);
        answer_done(&answer);
    }
}

static void a_home_is_needed_where_no_directory_was_given(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int result;
    } rows[] = {
        {"directory missing\n", -1},
        {"home /root\n", -1},
        {"home /root\ndirectory missing\n", 0},
        {"home \n", 0},
        {"home relative\n", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct answer answer;
        answer_init(&answer, false);
        answer.request.remote_dir = NULL;
        ADD(&answer, BEGIN);
        ADD(&answer, rows[i].body);
        ADD(&answer, END);
        assert_int_equal(parse(&answer, answer.size), rows[i].result);
        answer_done(&answer);
    }
}

static void values_cannot_pass_for_other_facts(void **state)
{
    (void)state;
    struct answer answer;
    answer_init(&answer, false);
    answer.request.stdout_request.wanted = false;
    answer.request.stderr_request.wanted = false;
    ADD(&answer, BEGIN "directory directory\nproc yes\nstatus file\n"
                       "status-line exited|a1|0|\nstatus-line attachd-end " NONCE "\n"
                       "status-rest\npid missing\ntoken missing\n" END);
    assert_int_equal(parse(&answer, answer.size), 0);
    assert_false(answer.look.observation.status_readable);
    answer_done(&answer);
}

static void line_ends_may_be_dos(void **state)
{
    (void)state;
    struct answer answer;
    answer_init(&answer, true);
    ADD(&answer, "\r\nattachd-begin " NONCE "\r\ndirectory directory\r\nproc yes\r\n"
                 "status file\r\nstatus-line running|a1\r\npid missing\r\n"
                 "token missing\r\noutput stdout 3 3\r\nYWJj\r\n\r\noutput-end\r\n"
                 "output stderr 0 0\r\n\r\noutput-end\r\nattachd-end " NONCE "\r\n");
    assert_int_equal(parse(&answer, answer.size), 0);
    assert_memory_equal(answer.look.outputs[0].data, "abc", 3);
    assert_string_equal(answer.look.observation.status_text, "running|a1");
    answer_done(&answer);
}

static void bad_base64_is_an_error(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "YWJ", "YW*j", "Y===", "YWJj====", "YW==YWJj", "YWJjY", "YWJj-", "YWJjYWJj"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct answer answer;
        answer_init(&answer, true);
        answer.request.stderr_request.wanted = false;
        ADD(&answer, BEGIN "directory directory\nproc yes\noutput stdout 9 3\n");
        ADD(&answer, texts[i]);
        ADD(&answer, "\n\noutput-end\n" END);
        assert_int_equal(parse(&answer, answer.size), -1);
        answer_done(&answer);
    }
}

static void tools_and_files_that_fail_are_named(void **state)
{
    (void)state;
    struct answer answer;
    answer_init(&answer, true);
    ADD(&answer, BEGIN "directory directory\nproc yes\nmissing-tool base64\n" END);
    assert_int_equal(parse(&answer, answer.size), -1);
    assert_int_equal(answer.err.code, ERROR_CAPABILITY_UNAVAILABLE);
    assert_false(answer.err.retryable);
    assert_string_equal(answer.err.capability, "base64");
    answer_done(&answer);
    answer_init(&answer, true);
    ADD(&answer, BEGIN "directory directory\nproc yes\noutput-special stderr\n" END);
    assert_int_equal(parse(&answer, answer.size), -1);
    assert_int_equal(answer.err.code, ERROR_COMMAND_FAILED);
    assert_non_null(strstr(answer.err.message, "stderr"));
    answer_done(&answer);
}

/* Allocation 0, 1, 2 ... fails: a clean error each time. */
static void running_out_of_memory_is_a_clean_error(void **state)
{
    (void)state;
    struct answer answer;
    whole_answer(&answer, true);
    int failures = 0;
    int result = -1;
    for (size_t room = 0; result != 0; room += 16) {
        arena_scoped struct arena *arena = arena_new(room);
        struct look look = {.home = "untouched"};
        struct error err = {0};
        result = look_parse(answer.data, answer.size, &answer.request, arena, &look, &err);
        if (result == 0)
            break;
        failures++;
        assert_int_equal(err.code, ERROR_INTERNAL);
        assert_string_equal(look.home, "untouched");
    }
    assert_true(failures > 10);
    answer_done(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_answer_is_read_despite_noise_around_it),
        cmocka_unit_test(an_answer_cut_at_any_byte_is_an_error),
        cmocka_unit_test(output_of_another_length_is_an_error),
        cmocka_unit_test(dropping_any_byte_of_raw_output_is_an_error),
        cmocka_unit_test(what_is_no_fact_spoils_the_answer),
        cmocka_unit_test(a_home_is_needed_where_no_directory_was_given),
        cmocka_unit_test(values_cannot_pass_for_other_facts),
        cmocka_unit_test(line_ends_may_be_dos),
        cmocka_unit_test(bad_base64_is_an_error),
        cmocka_unit_test(tools_and_files_that_fail_are_named),
        cmocka_unit_test(running_out_of_memory_is_a_clean_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
