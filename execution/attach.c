#include "execution/attach.h"
int attach_look(struct sandbox *sandbox, const struct attach_request *request,
                struct arena *arena, struct attach_result *ret_result, struct error *err)
{
    (void)sandbox;
    (void)request;
    (void)arena;
    (void)ret_result;
    return error_set(err, ERROR_INTERNAL, "stub");
}
int attach_info(struct sandbox *sandbox, struct arena *arena,
                struct info_result *ret_result, struct error *err)
{
    (void)sandbox;
    (void)arena;
    (void)err;
    ret_result->info = (struct sandbox_info){.expires_at_ms = -1};
    return 0;
}
const char *status_state_name(enum status_state s)
{
    (void)s;
    return "x";
}
const char *output_stream_name(enum output_stream s)
{
    (void)s;
    return "x";
}
