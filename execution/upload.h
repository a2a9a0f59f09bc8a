/* Bytes on their way into a sandbox: by the provider's write_file, or, where it has none,
 * as base64 in the arguments of commands. */
#pragma once

#include <stdint.h>

#include "providers/provider.h"
#include "runtime/attributes.h"
#include "runtime/error.h"
#include "runtime/span.h"

/* What is uploaded for an execution, one behind the other. It is a file_source itself. */
struct bundle {
    struct span launch; /* launch.sh; empty: none */
    struct span input;
    const struct file_source *artifact; /* NULL: none */
    struct file_source source;
};

/* Fills bundle->source; the bundle stays where it is while the source is read. */
void bundle_init(struct bundle *bundle, struct span launch, struct span input,
                 const struct file_source *artifact);

struct upload {
    const struct file_source *source;
    const char *path; /* in the sandbox: part N is PATH.N; each is made anew */
    const char *request_id;
    void (*on_progress)(void *arg, uint64_t bytes); /* sent so far; NULL: not told */
    void *on_progress_arg;
};

/* Sends all of it. *ret_parts: in how many files it is. Errors: those of write_file and
 * exec; command_failed where the sandbox cannot take a piece; capability_unavailable where
 * a provider takes neither files nor scripts that are long enough. What arrived of an
 * upload that failed is the caller's to take away. */
SUSPENDS NODISCARD int upload_send(struct sandbox *sandbox, const struct upload *upload,
                                   uint32_t *ret_parts, struct error *err);
