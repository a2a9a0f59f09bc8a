/* One run of execution/remote/attach.sh: the script that is sent, and the answer it prints;
 * other programs that look at an execution print the same.
 *
 * The answer is lines, from `attachd-begin NONCE` to `attachd-end NONCE`; what stands
 * before and behind (banners) is skipped. Each line is a tag and its value:
 *
 *   home PATH                        only where no remote_dir was given
 *   directory directory|missing|special|denied
 *   proc yes|no                      the rest only where it is a directory
 *   status file|missing|special|denied, then status-line TEXT ..., status-rest when there
 *                                    is more; twice where it was read again
 *   pid ..., token ...               likewise, of pid and pid-start
 *   claim-boot ID, boot ID           only where attachd launched it: the boot then, and now
 *   process STATE START BLANK-START  - for a field that is not there
 *   signalable yes|no
 *   launcher yes|no
 *   output STREAM TOTAL SIZE, LF     then SIZE bytes, raw or as base64, LF, output-end
 *   output-special|-denied|-file STREAM   it is no regular file, or cannot be read
 *   missing-tool NAME
 *   again                            the facts above, but home, do not count any more
 *
 * An answer that is cut anywhere, or holds anything else, is an error and never a result.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "execution/output.h"
#include "execution/remote.h"
#include "execution/status.h"
#include "runtime/arena.h"
#include "runtime/error.h"

struct look_request {
    char nonce[REMOTE_NONCE_LENGTH + 1];
    const char *remote_dir; /* NULL: the default */
    const char *execution_id;
    bool base64; /* output travels as base64, else byte for byte */
    struct output_request stdout_request;
    struct output_request stderr_request;
};

struct look_output {
    const char *data; /* in the answer (raw) or in the arena (base64) */
    size_t size;
    uint64_t total_bytes;
};

struct look {
    const char *home; /* NULL where remote_dir was given; may be empty */
    struct observation observation;
    struct look_output outputs[2]; /* by enum output_stream; zeroed where there is none */
};

/* The script, of at most max_bytes, in the arena. Errors: invalid_argument, internal. */
int look_compose(const struct look_request *request, size_t max_bytes, struct arena *arena,
                 const char **ret_script, struct error *err);

/* Bytes that the answer takes at most, with room for noise around it. */
size_t look_answer_bytes(const struct look_request *request);

/* Reads the answer. Texts are copied to the arena; raw output points into `data`. Errors:
 * provider_unavailable (retryable) where the answer is cut or garbled; capability_
 * unavailable, naming the tool, where the sandbox lacks one; command_failed where an output
 * cannot be read. */
int look_parse(const char *data, size_t size, const struct look_request *request,
               struct arena *arena, struct look *ret_look, struct error *err);
