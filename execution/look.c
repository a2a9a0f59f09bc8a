/* The attach program's arguments and its answer. */
#include "execution/look.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char remote_attach_sh[];

/* The facts (a few paths and status lines) and as much noise as a sandbox's shell makes. */
enum { FACTS_BYTES = 64 * 1024 };

enum { NUMBER_BYTES = 24, VALUE_MAX = 3 };

static const char *number(char text[NUMBER_BYTES], uint64_t value)
{
    (void)snprintf(text, NUMBER_BYTES, "%" PRIu64, value);
    return text;
}

int look_compose(const struct look_request *request, size_t max_bytes, struct arena *arena,
                 const char **ret_script, struct error *err)
{
    const struct output_request *wanted[] = {&request->stdout_request,
                                             &request->stderr_request};
    char numbers[4][NUMBER_BYTES] = {""};
    for (size_t i = 0; i < 2; i++) {
        if (!wanted[i]->wanted)
            continue;
        /* The shell counts in signed 64 bits; nothing lies out there anyway. */
        uint64_t offset = wanted[i]->offset < INT64_MAX ? wanted[i]->offset : INT64_MAX;
        (void)number(numbers[2 * i], offset);
        (void)number(numbers[2 * i + 1], wanted[i]->max_bytes);
    }
    const char *arguments[] = {request->nonce,
                               request->remote_dir ? request->remote_dir : "",
                               request->execution_id,
                               request->base64 ? "base64" : "raw",
                               numbers[0],
                               numbers[1],
                               numbers[2],
                               numbers[3],
                               NULL};
    return remote_compose(remote_attach_sh, arguments, max_bytes, arena, ret_script, err);
}

static size_t output_bytes(const struct look_request *request,
                           const struct output_request *output)
{
    return output->wanted ? output_encoded_bytes(output->max_bytes, request->base64) : 0;
}

size_t look_answer_bytes(const struct look_request *request)
{
    return FACTS_BYTES + output_bytes(request, &request->stdout_request) +
           output_bytes(request, &request->stderr_request);
}

/* The reader of one answer. A rule returns 0, or -1 with err set. */
struct reader {
    const char *at;
    const char *end;
    const struct look_request *request;
    struct arena *arena;
    struct look *look;
    struct error *err;
    bool is_complete;
    bool has_directory_fact;
    bool is_directory;
    bool has_output[2];
};

static int garbled(struct reader *reader, const char *what)
{
    return error_set(reader->err, ERROR_PROVIDER_UNAVAILABLE,
                     "the sandbox's answer is cut or garbled (%s)", what);
}

/* The next line, without its end and a CR before it, in the arena; NULL with err set where
 * there is none. The last line of an answer may lack its end, since some providers trim
 * what a command prints; whoever reads it knows whether it is whole. */
static char *next_line(struct reader *reader)
{
    const char *start = reader->at;
    size_t left = (size_t)(reader->end - start);
    const char *line_end = memchr(start, '\n', left);
    size_t length = line_end ? (size_t)(line_end - start) : left;
    if (left == 0 || memchr(start, '\0', length)) {
        (void)garbled(reader, left == 0 ? "no end mark" : "a NUL in a line");
        return NULL;
    }
    reader->at += length + (line_end ? 1 : 0);
    if (length > 0 && start[length - 1] == '\r')
        length--;
    char *line = arena_text_n(reader->arena, start, length);
    if (!line)
        (void)error_set_memory(reader->err, "an answer's line");
    return line;
}

/* Decimal digits only. */
static bool read_number(const char *text, uint64_t *ret_value)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits] != '\0')
        return false;
    *ret_value = strtoull(text, NULL, 10);
    return true;
}

/* Cuts value at its blanks; exactly `count` words, or false. */
static bool read_words(char *value, const char **words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!value)
            return false;
        words[i] = strsep(&value, " ");
    }
    return value == NULL;
}

static int rule_home(struct reader *reader, char *value)
{
    reader->look->home = value;
    return 0;
}

static int rule_directory(struct reader *reader, char *value)
{
    struct observation *seen = &reader->look->observation;
    reader->has_directory_fact = true;
    reader->is_directory = strcmp(value, "directory") == 0;
    seen->directory_exists = strcmp(value, "missing") != 0;
    /* Something is there, but no record of ours can be read in it. */
    seen->status_exists = seen->directory_exists && !reader->is_directory;
    return 0;
}

/* What was seen before is past. */
static int rule_again(struct reader *reader, char *value)
{
    (void)value;
    reader->look->observation = (struct observation){0};
    reader->has_directory_fact = false;
    reader->is_directory = false;
    return 0;
}

static int rule_proc(struct reader *reader, char *value)
{
    reader->look->observation.has_proc = strcmp(value, "yes") == 0;
    return 0;
}

/* Also the second time, which replaces the first. */
static int rule_status(struct reader *reader, char *value)
{
    struct observation *seen = &reader->look->observation;
    seen->status_exists = strcmp(value, "missing") != 0;
    seen->status_readable = strcmp(value, "file") == 0;
    seen->status_text = seen->status_readable ? "" : NULL;
    return 0;
}

static int rule_status_line(struct reader *reader, char *value)
{
    struct observation *seen = &reader->look->observation;
    if (!seen->status_readable)
        return garbled(reader, "a status line without a file");
    if (*seen->status_text == '\0') {
        seen->status_text = value;
        return 0;
    }
    seen->status_text = arena_printf(reader->arena, "%s\n%s", seen->status_text, value);
    return seen->status_text ? 0 : error_set_memory(reader->err, "a status");
}

static int rule_status_rest(struct reader *reader, char *value)
{
    (void)value;
    reader->look->observation.status_readable = false;
    return 0;
}

static int rule_pid(struct reader *reader, char *value)
{
    reader->look->observation.pid_file_exists = strcmp(value, "missing") != 0;
    return 0;
}

static int rule_pid_line(struct reader *reader, char *value)
{
    reader->look->observation.pid_text = value;
    return 0;
}

static int rule_token_line(struct reader *reader, char *value)
{
    reader->look->observation.token_text = value;
    return 0;
}

static int rule_claim_boot(struct reader *reader, char *value)
{
    reader->look->observation.claimed_boot = value;
    return 0;
}

static int rule_boot(struct reader *reader, char *value)
{
    reader->look->observation.boot = value;
    return 0;
}

static int rule_nothing(struct reader *reader, char *value)
{
    (void)reader;
    (void)value;
    return 0;
}

static int rule_process(struct reader *reader, char *value)
{
    const char *words[VALUE_MAX];
    if (!read_words(value, words, VALUE_MAX) || strlen(words[0]) != 1)
        return garbled(reader, "a process");
    struct observation *seen = &reader->look->observation;
    seen->process_state = words[0][0];
    seen->start_time = words[1];
    seen->blank_start_time = words[2];
    return 0;
}

static int rule_signalable(struct reader *reader, char *value)
{
    reader->look->observation.signalable = strcmp(value, "yes") == 0;
    return 0;
}

static int rule_launcher(struct reader *reader, char *value)
{
    struct observation *seen = &reader->look->observation;
    seen->launcher_looked_for = true;
    seen->launcher_alive = strcmp(value, "yes") == 0;
    return 0;
}

static int rule_missing_tool(struct reader *reader, char *value)
{
    (void)error_set(reader->err, ERROR_CAPABILITY_UNAVAILABLE,
                    "The sandbox has no program \"%.32s\", which this operation needs.",
                    value);
    (void)snprintf(reader->err->capability, sizeof(reader->err->capability), "%s", value);
    reader->err->remedy = "install coreutils or busybox in the sandbox's image; the status "
                          "alone needs no program";
    return -1;
}

static int rule_bad_output(struct reader *reader, char *value)
{
    return error_set(reader->err, ERROR_COMMAND_FAILED,
                     "the execution's %.16s is no regular file that can be read", value);
}

/* `size` bytes as they are. */
static int read_raw(struct reader *reader, size_t size, struct look_output *output)
{
    if ((size_t)(reader->end - reader->at) < size)
        return garbled(reader, "output is short");
    output->data = reader->at;
    output->size = size;
    reader->at += size;
    if (reader->at < reader->end && *reader->at == '\n') {
        reader->at++;
        return 0;
    }
    return garbled(reader, "output has another length");
}

/* Base64 up to the line output-end; `-` is no letter of base64. */
static int read_base64(struct reader *reader, size_t size, struct look_output *output)
{
    static const char last[] = "output-end";
    const char *end =
        memmem(reader->at, (size_t)(reader->end - reader->at), last, sizeof(last) - 1);
    if (!end)
        return garbled(reader, "output is short");
    char *data = NULL;
    size_t decoded = 0;
    int failed = output_decode(reader->at, (size_t)(end - reader->at), reader->arena, &data,
                               &decoded);
    if (failed == -2)
        return error_set_memory(reader->err, "output");
    if (failed || decoded != size)
        return garbled(reader, "output has another length");
    output->data = data;
    output->size = decoded;
    reader->at = end;
    return 0;
}

static const struct output_request *find_request(const struct look_request *request,
                                                 const char *name,
                                                 enum output_stream *ret_stream)
{
    const struct output_request *requests[] = {&request->stdout_request,
                                               &request->stderr_request};
    for (size_t i = 0; i < 2; i++) {
        *ret_stream = i == 0 ? OUTPUT_STDOUT : OUTPUT_STDERR;
        if (requests[i]->wanted && strcmp(name, output_stream_name(*ret_stream)) == 0)
            return requests[i];
    }
    return NULL;
}

static int rule_output(struct reader *reader, char *value)
{
    const char *words[VALUE_MAX];
    enum output_stream stream = OUTPUT_STDOUT;
    uint64_t total = 0;
    uint64_t size = 0;
    if (!read_words(value, words, VALUE_MAX) || !read_number(words[1], &total) ||
        !read_number(words[2], &size))
        return garbled(reader, "an output's header");
    const struct output_request *wanted = find_request(reader->request, words[0], &stream);
    if (!wanted || size > wanted->max_bytes)
        return garbled(reader, "output that was not asked for");
    struct look_output output = {.total_bytes = total};
    int failed = reader->request->base64 ? read_base64(reader, (size_t)size, &output)
                                         : read_raw(reader, (size_t)size, &output);
    if (failed)
        return -1;
    char *line = next_line(reader);
    if (!line)
        return -1;
    if (strcmp(line, "output-end") != 0)
        return garbled(reader, "output has another length");
    reader->look->outputs[stream] = output;
    reader->has_output[stream] = true;
    return 0;
}

static int rule_end(struct reader *reader, char *value)
{
    if (strcmp(value, reader->request->nonce) != 0)
        return garbled(reader, "no end mark");
    reader->is_complete = true;
    return 0;
}

static const struct {
    const char *tag;
    int (*read)(struct reader *reader, char *value);
} rules[] = {
    {"home", rule_home},
    {"again", rule_again},
    {"directory", rule_directory},
    {"proc", rule_proc},
    {"status", rule_status},
    {"status-line", rule_status_line},
    {"status-rest", rule_status_rest},
    {"pid", rule_pid},
    {"pid-line", rule_pid_line},
    {"pid-rest", rule_nothing},
    {"token", rule_nothing},
    {"token-line", rule_token_line},
    {"token-rest", rule_nothing},
    {"claim-boot", rule_claim_boot},
    {"boot", rule_boot},
    {"process", rule_process},
    {"signalable", rule_signalable},
    {"launcher", rule_launcher},
    {"output", rule_output},
    {"output-special", rule_bad_output},
    {"output-denied", rule_bad_output},
    {"output-file", rule_bad_output},
    {"missing-tool", rule_missing_tool},
    {"attachd-end", rule_end},
};

static int read_fact(struct reader *reader)
{
    char *line = next_line(reader);
    if (!line)
        return -1;
    char *value = line;
    const char *tag = strsep(&value, " ");
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (strcmp(tag, rules[i].tag) == 0)
            return rules[i].read(reader, value ? value : line + strlen(line));
    }
    return garbled(reader, "a line that is no fact");
}

/* Whether the facts are there that a complete answer has: without a home, nothing was
 * looked at; without a directory, no output. */
static bool has_facts(const struct reader *reader)
{
    const struct look_request *request = reader->request;
    const char *home = reader->look->home;
    if (!request->remote_dir && !home)
        return false;
    if (!reader->has_directory_fact)
        return !request->remote_dir && home[0] != '/';
    if (!reader->is_directory)
        return true;
    return (reader->has_output[OUTPUT_STDOUT] || !request->stdout_request.wanted) &&
           (reader->has_output[OUTPUT_STDERR] || !request->stderr_request.wanted);
}

static int find_begin(struct reader *reader)
{
    char mark[REMOTE_NONCE_LENGTH + 32];
    int length = snprintf(mark, sizeof(mark), "attachd-begin %s", reader->request->nonce);
    const char *begin =
        memmem(reader->at, (size_t)(reader->end - reader->at), mark, (size_t)length);
    if (!begin)
        return garbled(reader, "no begin mark");
    reader->at = begin + length;
    const char *rest = next_line(reader);
    if (!rest)
        return -1;
    return *rest == '\0' ? 0 : garbled(reader, "no begin mark");
}

int look_parse(const char *data, size_t size, const struct look_request *request,
               struct arena *arena, struct look *ret_look, struct error *err)
{
    struct look look = {0};
    struct reader reader = {.at = data,
                            .end = data + size,
                            .request = request,
                            .arena = arena,
                            .look = &look,
                            .err = err};
    if (find_begin(&reader) != 0)
        return -1;
    while (!reader.is_complete) {
        if (read_fact(&reader) != 0)
            return -1;
    }
    if (!has_facts(&reader))
        return garbled(&reader, "a fact is missing");
    *ret_look = look;
    return 0;
}
