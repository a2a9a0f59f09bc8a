/* What is written of an execution's outputs, as one answer to an attach after another
 * brings them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "queue/reply.h"
#include "runtime/attributes.h"
#include "runtime/buffer.h"
#include "runtime/error.h"

enum { LOGS_VIEW_STREAMS = 2, LOGS_VIEW_STATE_SIZE = 200 };

struct logs_view_stream {
    const char *name;   /* as the answers have it */
    struct buffer *out; /* where its bytes go */
    bool is_visible;    /* they go to a terminal, so that they must not steer it */
    int64_t offset;     /* the first byte that is still to be read */
};

struct logs_view {
    struct logs_view_stream streams[LOGS_VIEW_STREAMS]; /* standard output and error */
};

/* What an answer meant for the whole. */
enum logs_view_look {
    LOGS_VIEW_MORE,        /* there is more already */
    LOGS_VIEW_IDLE,        /* more may come; there was nothing new */
    LOGS_VIEW_NEWS,        /* more may come; there was something new */
    LOGS_VIEW_COMPLETE,    /* all was written, and nothing more will come */
    LOGS_VIEW_UNKNOWN,     /* there is no such execution, or none that can be followed */
    LOGS_VIEW_STOPPED,     /* the sandbox is stopped */
    LOGS_VIEW_UNAVAILABLE, /* the sandbox cannot be looked into at present */
};

void logs_view_init(struct logs_view *view, struct buffer *out, struct buffer *err);

/* Appends what the answer brought to the streams' buffers, and goes on behind it. `reply`
 * is one to an attach that asked for both streams from their offsets on. -1: malformed_job
 * (the answer is none), or internal. */
NODISCARD int logs_view_take(struct logs_view *view, const struct reply *reply,
                             enum logs_view_look *ret_look, struct error *err);

/* The status of the answer for people: "exited, exit code 3". Cut to fit; foreign text. */
void logs_view_describe(const struct reply *reply, char text[LOGS_VIEW_STATE_SIZE]);
