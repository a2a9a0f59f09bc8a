/* A sandbox whose provider answers what a test tells it to, and remembers what it was
 * asked. Every test that includes this links its own. */
#pragma once

#include "support.h"

#include <stdio.h>
#include <string.h>

#include "execution/attach.h"
#include "execution/remote.h"
#include "providers/profile.h"
#include "providers/provider.h"

enum { FAKE_SCRIPT_MAX = 16 * 1024, FAKE_ARENA_MAX = 1024 * 1024 };

struct fake_sandbox {
    struct sandbox sandbox; /* first, as in every provider */
    struct provider provider;
    struct profile profile;

    /* what it does */
    enum sandbox_state state;
    enum sandbox_state woken_state;
    int64_t expires_at_ms;
    int64_t woken_expires_at_ms;
    enum error_code probe_error; /* ERROR_NONE: it works */
    enum error_code wake_error;
    enum error_code exec_error;
    int failing_execs; /* so many end in exec_error, then it works; 0: all */
    int exec_error_exit_code;
    enum error_code destroy_error; /* ERROR_NONE: as failing_destroys says */
    int failing_destroys;          /* so many fail, then it works */
    enum error_code directory_error;
    const char *body; /* the answer between the marks */
    size_t body_bytes;
    const char *verbatim; /* the whole output instead; NULL: marks and body */
    const char *error_text;
    enum exec_end end;
    int exit_code;
    uint64_t dropped_bytes;

    /* what it was asked */
    int probes;
    int wakes;
    int stops;
    int destroys;
    int execs;
    char script[512]; /* its beginning: the arguments */
    uint64_t timeout_ms;
    size_t output_limit_bytes;
    const char *request_id;
    const char *directory;
};

static int fake_error(struct error *err, enum error_code code)
{
    return error_set(err, code, "%s", code == ERROR_RATE_LIMITED ? "slow down" : "quota");
}

static int fake_probe(struct sandbox *sandbox, struct arena *arena,
                      struct sandbox_info *ret_info, struct error *err)
{
    struct fake_sandbox *fake = (struct fake_sandbox *)sandbox;
    (void)arena;
    fake->probes++;
    if (fake->probe_error)
        return fake_error(err, fake->probe_error);
    *ret_info = (struct sandbox_info){.state = fake->state,
                                      .expires_at_ms = fake->expires_at_ms,
                                      .provider_id = sandbox->id};
    return 0;
}

static int fake_wake(struct sandbox *sandbox, struct error *err)
{
    struct fake_sandbox *fake = (struct fake_sandbox *)sandbox;
    fake->wakes++;
    if (fake->wake_error)
        return fake_error(err, fake->wake_error);
    fake->state = fake->woken_state;
    fake->expires_at_ms = fake->woken_expires_at_ms;
    return 0;
}

static int fake_stop(struct sandbox *sandbox, struct error *err)
{
    (void)err;
    ((struct fake_sandbox *)sandbox)->stops++;
    return 0;
}

static int fake_destroy(struct sandbox *sandbox, struct error *err)
{
    struct fake_sandbox *fake = (struct fake_sandbox *)sandbox;
    fake->destroys++;
    if (fake->destroy_error)
        return fake_error(err, fake->destroy_error);
    if (fake->destroys <= fake->failing_destroys)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE, "transient destroy failure");
    return 0;
}

static int fake_print(struct fake_sandbox *fake, struct arena *arena,
                      struct exec_output *ret_out)
{
    if (fake->verbatim) {
        ret_out->data = fake->verbatim;
        ret_out->size = strlen(fake->verbatim);
        return 0;
    }
    char nonce[REMOTE_NONCE_LENGTH + 1] = "";
    (void)sscanf(fake->script, "set -- '%32[0-9a-f]'", nonce);
    size_t room = fake->body_bytes + 256;
    char *data = arena_alloc(arena, room);
    if (!data)
        return -1;
    int head = snprintf(data, room, "hello\n\nattachd-begin %s\n", nonce);
    memcpy(data + head, fake->body, fake->body_bytes);
    size_t size = (size_t)head + fake->body_bytes;
    size += (size_t)snprintf(data + size, room - size, "attachd-end %s\n", nonce);
    ret_out->data = data;
    ret_out->size = size;
    return 0;
}

static int fake_exec(struct sandbox *sandbox, const struct exec_request *request,
                     struct arena *arena, struct exec_result *ret_result, struct error *err)
{
    struct fake_sandbox *fake = (struct fake_sandbox *)sandbox;
    fake->execs++;
    (void)snprintf(fake->script, sizeof(fake->script), "%.511s", request->script);
    fake->timeout_ms = request->timeout_ms;
    fake->output_limit_bytes = request->output_limit_bytes;
    fake->request_id = request->request_id;
    bool fails = fake->failing_execs == 0 || fake->execs <= fake->failing_execs;
    if (fake->exec_error && fails) {
        (void)fake_error(err, fake->exec_error);
        err->has_exit_code = fake->exec_error_exit_code != 0;
        err->exit_code = fake->exec_error_exit_code;
        return -1;
    }
    struct exec_result result = {.end = fake->end, .exit_code = fake->exit_code};
    result.signal = fake->end == EXEC_SIGNALED ? 9 : 0;
    if (fake_print(fake, arena, &result.out) != 0)
        return error_set_memory(err, "output");
    result.out.dropped_bytes = fake->dropped_bytes;
    result.err.data = fake->error_text;
    result.err.size = strlen(fake->error_text);
    *ret_result = result;
    return 0;
}

static int fake_check_directory(struct sandbox *sandbox, const char *path,
                                struct error *err)
{
    struct fake_sandbox *fake = (struct fake_sandbox *)sandbox;
    fake->directory = path;
    return fake->directory_error ? fake_error(err, fake->directory_error) : 0;
}

static void fake_set_body(struct fake_sandbox *fake, const char *body)
{
    fake->body = body;
    fake->body_bytes = strlen(body);
}

/* A running sandbox that takes bytes as they are and holds one running execution, a1. */
static void fake_init(struct fake_sandbox *fake)
{
    *fake = (struct fake_sandbox){
        .provider = {.name = "fake",
                     .limits = {.max_script_bytes = FAKE_SCRIPT_MAX,
                                .max_file_bytes = 1024},
                     .probe = fake_probe,
                     .exec = fake_exec,
                     .wake = fake_wake,
                     .stop = fake_stop,
                     .destroy = fake_destroy,
                     .check_directory = fake_check_directory},
        .state = SANDBOX_RUNNING,
        .woken_state = SANDBOX_RUNNING,
        .expires_at_ms = 1700000000000,
        .woken_expires_at_ms = 1800000000000,
        .error_text = "",
    };
    fake->profile = (struct profile){.name = "fake", .provider = &fake->provider};
    fake->sandbox = (struct sandbox){.provider = &fake->provider,
                                     .profile = &fake->profile,
                                     .provider_name = "fake",
                                     .id = "fake-sandbox-1",
                                     .traits = TRAIT_BINARY_SAFE};
    fake_set_body(fake, "directory directory\nproc yes\nstatus file\n"
                        "status-line running|a1\npid file\npid-line 77\n"
                        "token file\ntoken-line 5\nprocess S 5 5\nsignalable yes\n");
}

/* One attach_look inside a task. */
struct fake_call {
    struct fake_sandbox *fake;
    struct attach_request request;
    struct arena *arena;
    struct attach_result result;
    struct error err;
    int returned;
};

static void fake_run(void *arg)
{
    struct fake_call *call = arg;
    call->err = (struct error){0};
    call->returned = attach_look(&call->fake->sandbox, &call->request, call->arena,
                                 &call->result, &call->err);
}

__attribute__((unused)) static void fake_look(struct fake_call *call)
{
    support_run_task(fake_run, call);
}
