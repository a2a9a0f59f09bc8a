/* Error answers of Redis are told apart by their first word alone. */
#include "support.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "queue/refusal.h"

static enum refusal class_of(const char *text)
{
    char copy[256];
    strncpy(copy, text, sizeof(copy) - 1);
    copy[sizeof(copy) - 1] = '\0';
    const redisReply reply = {.type = REDIS_REPLY_ERROR, .str = copy, .len = strlen(copy)};
    return refusal_of(&reply);
}

static const struct {
    const char *text;
    enum refusal refusal;
    bool passes;
} rows[] = {
    {"NOGROUP No such key 'x' or consumer group", REFUSAL_NO_GROUP, true},
    {"UNBLOCKED the stream key no longer exists", REFUSAL_NO_GROUP, true},
    {"NOSCRIPT No matching script.", REFUSAL_NO_SCRIPT, false},
    {"WRONGTYPE Operation against a key holding the wrong kind of value script: 1f, on "
     "@user_script:1.",
     REFUSAL_WRONG_TYPE, false},
    {"BUSYGROUP Consumer Group name already exists", REFUSAL_BUSY_GROUP, false},
    {"READONLY You can't write against a read only replica.", REFUSAL_WRONG_NODE, true},
    {"MASTERDOWN Link with MASTER is down", REFUSAL_WRONG_NODE, true},
    {"NOREPLICAS Not enough good replicas to write.", REFUSAL_UNWELL, true},
    {"LOADING Redis is loading the dataset in memory", REFUSAL_UNWELL, true},
    {"BUSY Redis is busy running a script.", REFUSAL_UNWELL, true},
    {"MISCONF Errors writing to the AOF file", REFUSAL_UNWELL, true},
    {"OOM command not allowed when used memory > 'maxmemory'.", REFUSAL_UNWELL, true},
    {"NOAUTH Authentication required.", REFUSAL_DENIED, true},
    {"WRONGPASS invalid username-password pair", REFUSAL_DENIED, true},
    {"NOPERM this user has no permissions", REFUSAL_DENIED, true},
    {"MOVED 3999 127.0.0.1:6381", REFUSAL_CLUSTER, true},
    {"ASK 3999 127.0.0.1:6381", REFUSAL_CLUSTER, true},
    {"TRYAGAIN Multiple keys request during rehashing of slot", REFUSAL_CLUSTER, true},
    {"CLUSTERDOWN Hash slot not served", REFUSAL_CLUSTER, true},
    {"ERR unknown command 'XACKDEL'", REFUSAL_OTHER, false},
    {"BUSYISH is no word of ours", REFUSAL_OTHER, false},
    {"", REFUSAL_OTHER, false},
};

static void the_first_word_decides(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum refusal refusal = class_of(rows[i].text);
        if (refusal != rows[i].refusal || refusal_passes(refusal) != rows[i].passes)
            fail_msg("%s: class %d", rows[i].text, refusal);
    }
}

static void what_is_no_error_is_no_refusal(void **state)
{
    (void)state;
    char text[] = "LOADING is only text here";
    const redisReply reply = {.type = REDIS_REPLY_STRING, .str = text, .len = strlen(text)};
    assert_int_equal(refusal_of(&reply), REFUSAL_NONE);
    assert_int_equal(refusal_of(NULL), REFUSAL_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_word_decides),
        cmocka_unit_test(what_is_no_error_is_no_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
