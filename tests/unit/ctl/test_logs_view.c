/* Answers to looks, good and hostile, and what is written of them. */
#include "support.h"

#include <string.h>

#include <msgpack.h>

#include "ctl/logs_view.h"

enum { ARENA_BYTES = 1024 * 1024 };

struct fixture {
    struct arena *arena;
    struct buffer out;
    struct buffer err;
    struct logs_view view;
    struct error error;
};

static int set_up(void **state)
{
    struct fixture *fixture = test_calloc(1, sizeof(*fixture));
    fixture->arena = arena_new(ARENA_BYTES);
    buffer_init(&fixture->out, ARENA_BYTES);
    buffer_init(&fixture->err, ARENA_BYTES);
    logs_view_init(&fixture->view, &fixture->out, &fixture->err);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    buffer_done(&fixture->out);
    buffer_done(&fixture->err);
    arena_free(fixture->arena);
    test_free(fixture);
    return 0;
}

/* A piece of output as an answer has it. */
struct piece {
    const char *data;
    int64_t offset;
    int64_t total_bytes;
    enum { GROWS, ENDED, CUT_SHORT } is; /* CUT_SHORT: there is more already */
};

#define NOTHING                                                                            \
    {                                                                                      \
        NULL, 0, 0, GROWS                                                                  \
    }

/* An answer; no pieces where the first's data is NULL. */
struct answer {
    const char *state; /* NULL: no status */
    const char *provider_state;
    int64_t exit_code; /* -1: none */
    struct piece pieces[LOGS_VIEW_STREAMS];
};

static void pack_text(msgpack_packer *packer, const char *text)
{
    assert_int_equal(msgpack_pack_str_with_body(packer, text, strlen(text)), 0);
}

static void pack_status(msgpack_packer *packer, const struct answer *answer)
{
    msgpack_pack_map(packer,
                     1 + (answer->provider_state != NULL) + (answer->exit_code >= 0));
    pack_text(packer, "state");
    pack_text(packer, answer->state);
    if (answer->provider_state) {
        pack_text(packer, "provider_state");
        pack_text(packer, answer->provider_state);
    }
    if (answer->exit_code >= 0) {
        pack_text(packer, "exit_code");
        msgpack_pack_int64(packer, answer->exit_code);
    }
}

static void pack_flag(msgpack_packer *packer, const char *key, bool value)
{
    pack_text(packer, key);
    if (value)
        msgpack_pack_true(packer);
    else
        msgpack_pack_false(packer);
}

static void pack_piece(msgpack_packer *packer, const char *name, const struct piece *piece)
{
    pack_text(packer, name);
    msgpack_pack_map(packer, 5);
    pack_text(packer, "data");
    msgpack_pack_bin_with_body(packer, piece->data, strlen(piece->data));
    pack_text(packer, "offset");
    msgpack_pack_int64(packer, piece->offset);
    pack_text(packer, "total_bytes");
    msgpack_pack_int64(packer, piece->total_bytes);
    pack_flag(packer, "eof", piece->is == ENDED);
    pack_flag(packer, "truncated", piece->is == CUT_SHORT);
}

static void pack_result(msgpack_packer *packer, const struct answer *answer)
{
    msgpack_pack_map(packer, (answer->state != NULL) + (answer->pieces[0].data != NULL));
    if (answer->state) {
        pack_text(packer, "status");
        pack_status(packer, answer);
    }
    if (!answer->pieces[0].data)
        return;
    pack_text(packer, "output");
    msgpack_pack_map(packer, 1 + (answer->pieces[1].data != NULL));
    pack_piece(packer, "stdout", &answer->pieces[0]);
    if (answer->pieces[1].data)
        pack_piece(packer, "stderr", &answer->pieces[1]);
}

/* The answer as it is read from a reply stream. */
static struct reply read_answer(struct fixture *fixture, const struct answer *answer)
{
    struct message *result = arena_calloc(fixture->arena, 1, sizeof(*result));
    msgpack_packer packer;
    msgpack_sbuffer packed;
    msgpack_sbuffer_init(&packed);
    msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
    pack_result(&packer, answer);
    char *bytes = arena_calloc(fixture->arena, packed.size, 1);
    assert_true(result && bytes);
    memcpy(bytes, packed.data, packed.size);
    assert_int_equal(
        message_read(bytes, packed.size, fixture->arena, result, &fixture->error), 0);
    msgpack_sbuffer_destroy(&packed);
    return (struct reply){.ok = true, .result = result};
}

static enum logs_view_look take(struct fixture *fixture, const struct answer *answer)
{
    enum logs_view_look look = LOGS_VIEW_UNKNOWN;
    const struct reply reply = read_answer(fixture, answer);
    buffer_clear(&fixture->out);
    buffer_clear(&fixture->err);
    assert_int_equal(logs_view_take(&fixture->view, &reply, &look, &fixture->error), 0);
    assert_int_equal(buffer_append_text(&fixture->out, ""), 0);
    assert_int_equal(buffer_append_text(&fixture->err, ""), 0);
    return look;
}

static void expect(const struct fixture *fixture, const char *out, const char *err)
{
    assert_int_equal(fixture->out.size, strlen(out));
    assert_memory_equal(fixture->out.data, out, strlen(out));
    assert_int_equal(fixture->err.size, strlen(err));
    assert_memory_equal(fixture->err.data, err, strlen(err));
}

static void each_look_goes_on_behind_the_last(void **state)
{
    struct fixture *fixture = *state;
    const struct answer first = {
        "running", NULL, -1, {{"one\n", 0, 4, GROWS}, {"", 0, 0, GROWS}}};
    const struct answer second = {
        "running", NULL, -1, {{"", 4, 4, GROWS}, {"two\n", 0, 4, GROWS}}};
    const struct answer third = {
        "running", NULL, -1, {{"", 4, 4, GROWS}, {"", 4, 4, GROWS}}};
    assert_int_equal(take(fixture, &first), LOGS_VIEW_NEWS);
    expect(fixture, "one\n", "");
    assert_int_equal(take(fixture, &second), LOGS_VIEW_NEWS);
    expect(fixture, "", "two\n");
    assert_int_equal(take(fixture, &third), LOGS_VIEW_IDLE);
    expect(fixture, "", "");
    assert_int_equal(fixture->view.streams[0].offset, 4);
    assert_int_equal(fixture->view.streams[1].offset, 4);
}

static void a_piece_that_is_not_all_is_followed_by_the_next_at_once(void **state)
{
    struct fixture *fixture = *state;
    const struct answer first = {
        "exited", NULL, 0, {{"one", 0, 6, CUT_SHORT}, {"", 0, 0, ENDED}}};
    const struct answer second = {
        "exited", NULL, 0, {{"two", 3, 6, ENDED}, {"", 0, 0, ENDED}}};
    assert_int_equal(take(fixture, &first), LOGS_VIEW_MORE);
    assert_int_equal(take(fixture, &second), LOGS_VIEW_COMPLETE);
    expect(fixture, "two", "");
}

static void it_is_complete_once_both_are(void **state)
{
    struct fixture *fixture = *state;
    const struct answer one = {"exited", NULL, 0, {{"a", 0, 1, ENDED}, {"", 0, 0, GROWS}}};
    const struct answer both = {"exited", NULL, 0, {{"", 1, 1, ENDED}, {"", 0, 0, ENDED}}};
    assert_int_equal(take(fixture, &one), LOGS_VIEW_NEWS);
    assert_int_equal(take(fixture, &both), LOGS_VIEW_COMPLETE);
}

static void a_file_that_was_cut_is_read_from_its_beginning(void **state)
{
    struct fixture *fixture = *state;
    const struct answer before = {
        "running", NULL, -1, {{"12345", 0, 5, GROWS}, {"", 0, 0, GROWS}}};
    const struct answer cut = {"exited", NULL, 0, {{"", 5, 2, ENDED}, {"", 0, 0, ENDED}}};
    const struct answer after = {
        "exited", NULL, 0, {{"67", 0, 2, ENDED}, {"", 0, 0, ENDED}}};
    assert_int_equal(take(fixture, &before), LOGS_VIEW_NEWS);
    assert_int_equal(take(fixture, &cut), LOGS_VIEW_MORE);
    assert_int_equal(take(fixture, &after), LOGS_VIEW_COMPLETE);
    expect(fixture, "67", "");
}

static void a_file_that_was_emptied_does_not_end_it_nor_hurry_it(void **state)
{
    struct fixture *fixture = *state;
    const struct answer before = {
        "running", NULL, -1, {{"12345", 0, 5, GROWS}, {"", 0, 0, GROWS}}};
    const struct answer cut = {"running", NULL, -1, {{"", 5, 0, GROWS}, {"", 0, 0, GROWS}}};
    assert_int_equal(take(fixture, &before), LOGS_VIEW_NEWS);
    assert_int_equal(take(fixture, &cut), LOGS_VIEW_IDLE);
    assert_int_equal(fixture->view.streams[0].offset, 0);
}

static void what_could_steer_a_terminal_is_written_visibly_there_alone(void **state)
{
    struct fixture *fixture = *state;
    const struct answer answer = {
        "running", NULL, -1, {{"\x1b[2J\n", 0, 5, GROWS}, {"\x1b[2J\n", 0, 5, GROWS}}};
    fixture->view.streams[0].is_visible = true;
    assert_int_equal(take(fixture, &answer), LOGS_VIEW_NEWS);
    expect(fixture, "\\x1b[2J\n", "\x1b[2J\n");
}

static void a_character_cut_in_two_is_shown_whole(void **state)
{
    struct fixture *fixture = *state;
    const struct answer first = {
        "running", NULL, -1, {{"a\xc3", 0, 2, GROWS}, {"", 0, 0, GROWS}}};
    const struct answer again = {
        "running", NULL, -1, {{"\xc3", 1, 2, GROWS}, {"", 0, 0, GROWS}}};
    const struct answer rest = {
        "running", NULL, -1, {{"\xc3\xbc", 1, 3, GROWS}, {"", 0, 0, GROWS}}};
    fixture->view.streams[0].is_visible = true;
    assert_int_equal(take(fixture, &first), LOGS_VIEW_NEWS);
    expect(fixture, "a", "");
    assert_int_equal(take(fixture, &again), LOGS_VIEW_IDLE);
    assert_int_equal(take(fixture, &rest), LOGS_VIEW_NEWS);
    expect(fixture, "\xc3\xbc", "");
}

static void the_first_half_of_a_character_at_the_end_is_shown_as_it_is(void **state)
{
    struct fixture *fixture = *state;
    const struct answer answer = {
        "exited", NULL, 0, {{"a\xc3", 0, 2, ENDED}, {"", 0, 0, ENDED}}};
    fixture->view.streams[0].is_visible = true;
    assert_int_equal(take(fixture, &answer), LOGS_VIEW_COMPLETE);
    expect(fixture, "a\\xc3", "");
}

static void what_cannot_be_followed_is_told_apart(void **state)
{
    static const struct {
        struct answer answer;
        enum logs_view_look look;
    } cases[] = {
        {{"unknown", NULL, -1, {NOTHING, NOTHING}}, LOGS_VIEW_UNKNOWN},
        {{"unknown", NULL, -1, {{"", 0, 0, GROWS}, {"", 0, 0, GROWS}}}, LOGS_VIEW_UNKNOWN},
        {{"provider_unavailable", "stopped", -1, {NOTHING, NOTHING}}, LOGS_VIEW_STOPPED},
        {{"provider_unavailable", "paused", -1, {NOTHING, NOTHING}}, LOGS_VIEW_UNAVAILABLE},
        {{"provider_unavailable", NULL, -1, {NOTHING, NOTHING}}, LOGS_VIEW_UNAVAILABLE},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (take(fixture, &cases[i].answer) != cases[i].look)
            fail_msg("case %zu", i);
    }
}

static void an_answer_without_what_was_asked_for_is_none(void **state)
{
    static const struct answer answers[] = {
        {NULL, NULL, -1, {{"", 0, 0, GROWS}, {"", 0, 0, GROWS}}},
        {"running", NULL, -1, {{"", 0, 0, GROWS}, NOTHING}},
        {"running", NULL, -1, {{"", 7, 7, GROWS}, {"", 0, 0, GROWS}}},
        {"running", NULL, -1, {{"", -1, 0, GROWS}, {"", 0, 0, GROWS}}},
        {"running", NULL, -1, {{"", 0, -1, GROWS}, {"", 0, 0, GROWS}}},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        enum logs_view_look look = LOGS_VIEW_STOPPED;
        const struct reply reply = read_answer(fixture, &answers[i]);
        if (logs_view_take(&fixture->view, &reply, &look, &fixture->error) != -1)
            fail_msg("answer %zu is taken", i);
        assert_int_equal(look, LOGS_VIEW_STOPPED);
        assert_int_equal(fixture->error.code, ERROR_MALFORMED_JOB);
    }
}

static void a_status_is_told_in_words_however_long_it_is(void **state)
{
    struct fixture *fixture = *state;
    char long_state[3 * LOGS_VIEW_STATE_SIZE];
    char text[LOGS_VIEW_STATE_SIZE];
    const struct answer exited = {"exited", NULL, 3, {NOTHING, NOTHING}};
    struct answer endless = {long_state, "stopped", 3, {NOTHING, NOTHING}};
    struct reply reply = read_answer(fixture, &exited);
    logs_view_describe(&reply, text);
    assert_string_equal(text, "exited, exit code 3");
    memset(long_state, 'x', sizeof(long_state) - 1);
    long_state[sizeof(long_state) - 1] = '\0';
    reply = read_answer(fixture, &endless);
    logs_view_describe(&reply, text);
    assert_int_equal(strlen(text), sizeof(text) - 1);
    reply.result = NULL;
    logs_view_describe(&reply, text);
    assert_string_equal(text, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_look_goes_on_behind_the_last),
        TEST(a_piece_that_is_not_all_is_followed_by_the_next_at_once),
        TEST(it_is_complete_once_both_are),
        TEST(a_file_that_was_cut_is_read_from_its_beginning),
        TEST(a_file_that_was_emptied_does_not_end_it_nor_hurry_it),
        TEST(what_could_steer_a_terminal_is_written_visibly_there_alone),
        TEST(a_character_cut_in_two_is_shown_whole),
        TEST(the_first_half_of_a_character_at_the_end_is_shown_as_it_is),
        TEST(what_cannot_be_followed_is_told_apart),
        TEST(an_answer_without_what_was_asked_for_is_none),
        TEST(a_status_is_told_in_words_however_long_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
