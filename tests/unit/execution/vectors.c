/* Rows of tests/fixtures/vectors.jsonl. */
#include "vectors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 32 };

struct replay {
    const struct vector_group *groups;
    size_t group_count;
    const struct vector_difference *differences;
    size_t difference_count;
    int counts[MOST_GROUPS];
    int failures;
};

json_t *vector_error(const char *message)
{
    return json_pack("{s:s}", "error", message);
}

const char *vector_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

void vector_set_text(json_t *object, const char *key, const char *text)
{
    if (text)
        assert_int_equal(json_object_set_new(object, key, json_string(text)), 0);
}

void vector_set_number(json_t *object, const char *key, double value)
{
    assert_int_equal(json_object_set_new(object, key, json_real(value)), 0);
}

static const struct vector_difference *find_difference(const struct replay *replay, int n)
{
    for (size_t i = 0; i < replay->difference_count; i++) {
        if (replay->differences[i].n == n)
            return &replay->differences[i];
    }
    return NULL;
}

/* 1 where the row is as it should be, else 0 with a line for a person. */
static int check_row(const struct replay *replay, int n, const json_t *result,
                     const json_t *expected)
{
    const struct vector_difference *difference = find_difference(replay, n);
    json_t *ours =
        difference ? json_loads(difference->ours, VECTOR_LOAD_FLAGS, NULL) : NULL;
    bool matches = json_equal(result, expected);
    bool is_right = difference ? !matches && json_equal(result, ours) : matches;
    if (!is_right) {
        char *text = json_dumps(result, JSON_ENCODE_ANY | JSON_SORT_KEYS);
        print_message("row %d (%s): %s\n", n, difference ? difference->why : "unlisted",
                      text);
        free(text);
    }
    json_decref(ours);
    return is_right;
}

static void run_line(struct replay *replay, const char *line, size_t length)
{
    json_t *row = json_loadb(line, length, VECTOR_LOAD_FLAGS, NULL);
    assert_non_null(row);
    const char *group = vector_text(row, "group");
    for (size_t i = 0; i < replay->group_count; i++) {
        if (strcmp(group, replay->groups[i].name) != 0)
            continue;
        const json_t *expected = json_object_get(row, "expected");
        json_t *result = replay->groups[i].run(json_object_get(row, "input"), expected);
        assert_non_null(result);
        int n = (int)json_number_value(json_object_get(row, "n"));
        replay->failures += !check_row(replay, n, result, expected);
        replay->counts[i]++;
        json_decref(result);
    }
    json_decref(row);
}

void vectors_replay(const struct vector_group *groups, size_t group_count,
                    const struct vector_difference *differences, size_t difference_count)
{
    struct replay replay = {.groups = groups,
                            .group_count = group_count,
                            .differences = differences,
                            .difference_count = difference_count};
    assert_in_range(group_count, 1, MOST_GROUPS);
    char *text = support_read_source_file("tests/fixtures/vectors.jsonl", NULL);
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        run_line(&replay, line, length);
        line += length + (line[length] == '\n');
    }
    free(text);
    assert_int_equal(replay.failures, 0);
    for (size_t i = 0; i < group_count; i++)
        assert_int_equal(replay.counts[i], groups[i].rows);
}
