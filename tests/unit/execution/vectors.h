/* What Mastra's own code answered to an input (tests/fixtures/vectors.jsonl), replayed row
 * by row. A row of ours that differs on purpose is listed with the weakness it cures
 * (docs/compatibility.md); one that differs unlisted fails, and so does a listed one that
 * matches. */
#pragma once

#include "support.h"

#include <jansson.h>

enum { VECTOR_LOAD_FLAGS = JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL | JSON_DECODE_ANY };

#define VECTOR_REFUSED "{\"error\": \"refused when the job is decoded\"}"

struct vector_difference {
    int n;
    const char *why;
    const char *ours; /* JSON */
};

struct vector_group {
    const char *name;
    /* Our answer, the caller's. */
    json_t *(*run)(const json_t *input, const json_t *expected);
    int rows; /* that there are: a file that lost some proves less */
};

/* Runs the rows of the groups; fails the test where one is not as it should be. */
void vectors_replay(const struct vector_group *groups, size_t group_count,
                    const struct vector_difference *differences, size_t difference_count);

/* {"error": message} */
json_t *vector_error(const char *message);
/* NULL where there is none. */
const char *vector_text(const json_t *object, const char *key);
/* Sets nothing where the text is NULL. */
void vector_set_text(json_t *object, const char *key, const char *text);
/* Numbers are reals on both sides, since JavaScript's are. */
void vector_set_number(json_t *object, const char *key, double value);
