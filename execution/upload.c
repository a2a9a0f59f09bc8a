/* Uploads. A piece is sent once: whether it arrived is asked of the file's size, by the
 * next piece and by the program that uses the whole. */
#include "execution/upload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "execution/ending.h"
#include "execution/remote.h"
#include "runtime/arena.h"
#include "runtime/task.h"

extern const char remote_piece_sh[];

enum {
    SCRATCH_BYTES = 16 * 1024 * 1024,
    PIECE_TIMEOUT_MS = 60000,
    LEAST_PIECE_BYTES = 512,
    MOST_PIECE_BYTES = 3 * 256 * 1024, /* whole groups of base64 */
    OUTPUT_LIMIT_BYTES = 8192,
    QUOTES_BYTES = 256, /* around the arguments */
};

/* ---- bundles ---- */

/* Copies what of one span lies in the range; the range begins behind it afterwards. */
static void copy_span(const struct span *span, uint64_t *offset, char **to, size_t *bytes)
{
    if (*offset >= span->size) {
        *offset -= span->size;
        return;
    }
    size_t here = span->size - (size_t)*offset;
    if (here > *bytes)
        here = *bytes;
    if (here > 0)
        memcpy(*to, span->data + *offset, here);
    *to += here;
    *bytes -= here;
    *offset = 0;
}

static int bundle_read(void *arg, uint64_t offset, void *buffer, size_t bytes)
{
    const struct bundle *bundle = arg;
    char *to = buffer;
    copy_span(&bundle->launch, &offset, &to, &bytes);
    copy_span(&bundle->input, &offset, &to, &bytes);
    if (bytes == 0)
        return 0;
    return bundle->artifact->read(bundle->artifact->arg, offset, to, bytes);
}

void bundle_init(struct bundle *bundle, struct span launch, struct span input,
                 const struct file_source *artifact)
{
    uint64_t bytes = launch.size + input.size + (artifact ? artifact->bytes : 0);
    *bundle = (struct bundle){.launch = launch, .input = input, .artifact = artifact};
    bundle->source = (struct file_source){bytes, bundle_read, bundle};
}

/* ---- by write_file ---- */

/* A stretch of a source. */
struct stretch {
    const struct file_source *whole;
    uint64_t offset;
};

static int stretch_read(void *arg, uint64_t offset, void *buffer, size_t bytes)
{
    const struct stretch *stretch = arg;
    return stretch->whole->read(stretch->whole->arg, stretch->offset + offset, buffer,
                                bytes);
}

static void tell(const struct upload *upload, uint64_t bytes)
{
    if (upload->on_progress)
        upload->on_progress(upload->on_progress_arg, bytes);
}

static int part_path(const struct upload *upload, uint32_t part, char path[8192],
                     struct error *err)
{
    int length = snprintf(path, 8192, "%s.%u", upload->path, part);
    return length < 8192 ? 0 : error_set_field(err, "remote_dir", "the path is too long");
}

SUSPENDS static int send_files(struct sandbox *sandbox, const struct upload *upload,
                               uint32_t *ret_parts, struct error *err)
{
    uint64_t most = sandbox->provider->limits.max_file_bytes;
    uint64_t offset = 0;
    uint32_t parts = 0;
    char *path = malloc(8192);
    int failed = path ? 0 : error_set_memory(err, "a path");
    while (!failed && (offset < upload->source->bytes || parts == 0)) {
        uint64_t left = upload->source->bytes - offset;
        struct stretch stretch = {upload->source, offset};
        struct file_source source = {left < most ? left : most, stretch_read, &stretch};
        failed = part_path(upload, parts, path, err);
        if (!failed)
            failed = sandbox_write_file(sandbox, path, 0600, &source, err);
        offset += source.bytes;
        parts++;
        if (!failed)
            tell(upload, offset);
    }
    free(path);
    if (failed)
        return -1;
    *ret_parts = parts;
    return 0;
}

/* ---- by commands ---- */

struct piece {
    const struct file_source *source;
    uint64_t offset;
    size_t bytes;
    char *data; /* bytes of it */
    char *text; /* as base64 */
    int failure;
};

/* In the thread pool: the source may be a file. */
static void read_piece(void *arg)
{
    struct piece *piece = arg;
    piece->failure =
        piece->source->read(piece->source->arg, piece->offset, piece->data, piece->bytes);
    if (piece->failure == 0)
        (void)EVP_EncodeBlock((unsigned char *)piece->text,
                              (const unsigned char *)piece->data, (int)piece->bytes);
}

static int compose_piece(struct sandbox *sandbox, const struct piece *piece,
                         const char *path, struct arena *scratch, const char **ret_script,
                         struct error *err)
{
    char offset[24];
    (void)snprintf(offset, sizeof(offset), "%llu", (unsigned long long)piece->offset);
    const char *const arguments[] = {path, offset, piece->text, NULL};
    return remote_compose(remote_piece_sh, arguments,
                          sandbox->provider->limits.max_script_bytes, scratch, ret_script,
                          err);
}

/* The detail lives in scratch; its first line is told in the message. */
static void tell_why(const struct exec_result *result, struct error *err)
{
    size_t used = strlen(err->message);
    int length = (int)strcspn(result->err.data, "\r\n");
    if (length > 0)
        (void)snprintf(err->message + used, sizeof(err->message) - used, ": %.*s", length,
                       result->err.data);
    err->detail = NULL;
}

SUSPENDS static int send_piece(struct sandbox *sandbox, const struct upload *upload,
                               struct piece *piece, const char *path, struct error *err)
{
    arena_scoped struct arena *scratch = arena_new(SCRATCH_BYTES);
    struct exec_request request = {.timeout_ms = PIECE_TIMEOUT_MS,
                                   .output_limit_bytes = OUTPUT_LIMIT_BYTES,
                                   .request_id = upload->request_id};
    struct exec_result result = {0};
    if (!scratch || task_work("read the artifact", read_piece, piece) != 0)
        return error_set_memory(err, "a piece of an upload");
    if (piece->failure)
        return error_set(err, ERROR_PROVIDER_UNAVAILABLE, "the artifact cannot be read: %s",
                         strerror(-piece->failure));
    if (compose_piece(sandbox, piece, path, scratch, &request.script, err) != 0)
        return -1;
    if (sandbox_exec(sandbox, &request, scratch, &result, err) != 0)
        return ending_map_error(err);
    if (result.end == EXEC_EXITED && result.exit_code == 0)
        return 0;
    (void)ending_map(&result, "taking a piece of the upload", scratch, err);
    tell_why(&result, err);
    return -1;
}

static size_t piece_bytes(const struct sandbox *sandbox, const char *path)
{
    size_t limit = sandbox->provider->limits.max_script_bytes;
    /* Each ' of a path takes four bytes in quotes. */
    size_t taken = strlen(remote_piece_sh) + strlen(path) * 4 + QUOTES_BYTES;
    if (limit <= taken)
        return 0;
    size_t bytes = (limit - taken) / 4 * 3;
    return bytes < MOST_PIECE_BYTES ? bytes : MOST_PIECE_BYTES;
}

SUSPENDS static int send_pieces_of(struct sandbox *sandbox, const struct upload *upload,
                                   const char *path, struct piece *piece, size_t most,
                                   struct error *err)
{
    uint64_t total = upload->source->bytes;
    do {
        piece->bytes =
            total - piece->offset < most ? (size_t)(total - piece->offset) : most;
        if (send_piece(sandbox, upload, piece, path, err) != 0)
            return -1;
        piece->offset += piece->bytes;
        tell(upload, piece->offset);
    } while (piece->offset < total);
    return 0;
}

SUSPENDS static int send_pieces(struct sandbox *sandbox, const struct upload *upload,
                                uint32_t *ret_parts, struct error *err)
{
    char *path = malloc(8192);
    if (!path)
        return error_set_memory(err, "a path");
    int failed = part_path(upload, 0, path, err);
    size_t most = failed ? 0 : piece_bytes(sandbox, path);
    struct piece piece = {.source = upload->source};
    if (!failed && most < LEAST_PIECE_BYTES) {
        (void)error_set(err, ERROR_CAPABILITY_UNAVAILABLE,
                        "Sandbox provider \"%s\" takes neither files nor scripts that are "
                        "long enough for an upload.",
                        sandbox->provider->name);
        (void)snprintf(err->capability, sizeof(err->capability), "%s",
                       capability_name(CAPABILITY_WRITE_FILE));
        failed = -1;
    }
    if (!failed) {
        piece.data = malloc(most);
        piece.text = malloc(most / 3 * 4 + 8);
        if (!piece.data || !piece.text)
            failed = error_set_memory(err, "a piece of an upload");
    }
    if (!failed)
        failed = send_pieces_of(sandbox, upload, path, &piece, most, err);
    free(piece.data);
    free(piece.text);
    free(path);
    if (failed)
        return -1;
    *ret_parts = 1;
    return 0;
}

int upload_send(struct sandbox *sandbox, const struct upload *upload, uint32_t *ret_parts,
                struct error *err)
{
    if (sandbox_can(sandbox, CAPABILITY_WRITE_FILE))
        return send_files(sandbox, upload, ret_parts, err);
    return send_pieces(sandbox, upload, ret_parts, err);
}
