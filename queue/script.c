/* EVALSHA first, EVAL where the server's script cache is empty. */
#include "queue/script.h"

#include "queue/refusal.h"

#define SCRIPT_EXTERN(script, file)                                                        \
    extern const char lua_##file[];                                                        \
    extern const size_t lua_##file##_size;                                                 \
    extern const char lua_##file##_sha1[];
SCRIPTS(SCRIPT_EXTERN)
#undef SCRIPT_EXTERN

static const struct {
    const char *text;
    const size_t *size;
    const char *sha1;
} scripts[] = {
#define SCRIPT_ROW(script, file)                                                           \
    [script] = {lua_##file, &lua_##file##_size, lua_##file##_sha1},
    SCRIPTS(SCRIPT_ROW)
#undef SCRIPT_ROW
};

void script_begin(struct call *call, enum script script, int key_count, struct arena *arena)
{
    call_init(call, arena, 24);
    call_add_text(call, "EVALSHA");
    call_add_text(call, scripts[script].sha1);
    call_add_int(call, key_count);
}

/* EVALSHA and the digest become EVAL and the text. */
static void send_text(struct call *call, enum script script)
{
    static const char eval[] = "EVAL";
    if (call->failed)
        return;
    call->arguments[0] = eval;
    call->sizes[0] = sizeof(eval) - 1;
    call->arguments[1] = scripts[script].text;
    call->sizes[1] = *scripts[script].size;
}

int script_run(struct connection *connection, enum script script, struct call *call,
               redisReply **ret_reply)
{
    int result = connection_call(connection, call, 0, ret_reply);
    if (result != 0 || refusal_of(*ret_reply) != REFUSAL_NO_SCRIPT)
        return result;
    freeReplyObject(*ret_reply);
    *ret_reply = NULL;
    send_text(call, script);
    return connection_call(connection, call, 0, ret_reply);
}

void script_post(struct connection *connection, enum script script, struct call *call)
{
    send_text(call, script);
    connection_post(connection, call);
}
