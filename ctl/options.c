/* The two tables, and the parser that follows them. getopt_long is not used: it takes
 * abbreviations, which would make every new option a change of what scripts mean, and it
 * knows nothing of options that belong to some commands only. */
#include "ctl/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queue/job.h"

enum { TIMEOUT_MOST_MS = 24 * 60 * 60 * 1000 };

#define BIT(command) (1U << (command))

enum {
    ON_EXECUTION = BIT(COMMAND_ATTACH) | BIT(COMMAND_STATUS) | BIT(COMMAND_READ_OUTPUT),
    ON_SANDBOX = ON_EXECUTION | BIT(COMMAND_INFO),
    ON_QUEUE = ON_SANDBOX | BIT(COMMAND_ENQUEUE),
    ANYWHERE = ~0U >> 1,
};

static const struct command_row commands[] = {
    {"attach", NULL,
     "find an execution in a sandbox: handle, status and, with --read, its output",
     COMMAND_ATTACH, false},
    {"status", NULL, "the status of an execution", COMMAND_STATUS, false},
    {"read-output", NULL, "a piece of an execution's standard output or error",
     COMMAND_READ_OUTPUT, false},
    {"info", NULL, "the provider's own view of a sandbox, without running a command in it",
     COMMAND_INFO, false},
    {"enqueue", "FILE.msgpack|-",
     "put a job from a file (or standard input) on the queue as it is", COMMAND_ENQUEUE,
     true},
    {"providers", NULL, "the kinds of providers and what each can do; asks nobody",
     COMMAND_PROVIDERS, false},
    {"completion", "bash",
     "print the completion for a shell: source <(attachctl completion bash)",
     COMMAND_COMPLETION, true},
    {"help", "[COMMAND]", "this text, or that of one command", COMMAND_HELP, false},
};

static const char *const streams[] = {"stdout", "stderr", NULL};

#define FLAG(name, letter, commands, member, help)                                         \
    {                                                                                      \
        name, letter, OPTION_FLAG, NULL, commands, 0, offsetof(struct options, member), 0, \
            0, NULL, NULL, NULL, help                                                      \
    }
#define TEXT(name, argument, commands, required, member, values, help)                     \
    {                                                                                      \
        name, 0, OPTION_TEXT, argument, commands, required,                                \
            offsetof(struct options, member), 0, 0, values, NULL, NULL, help               \
    }
#define NUMBER(name, argument, commands, member, least, most, help)                        \
    {                                                                                      \
        name, 0, OPTION_NUMBER, argument, commands, 0, offsetof(struct options, member),   \
            least, most, NULL, NULL, NULL, help                                            \
    }
#define VARIABLE(name, argument, commands, member, variable, otherwise, help)              \
    {                                                                                      \
        name, 0, OPTION_TEXT, argument, commands, 0, offsetof(struct options, member), 0,  \
            0, NULL, variable, otherwise, help                                             \
    }

static const struct option_row rows[] = {
    TEXT("provider", "P", ON_SANDBOX, ON_SANDBOX, provider, NULL,
         "the provider, by the name that the workers know it by"),
    TEXT("sandbox", "ID", ON_SANDBOX, ON_SANDBOX, sandbox, NULL,
         "the provider's own identity of the sandbox"),
    {"set", 0, OPTION_SETTING, "KEY=VALUE", ON_SANDBOX, 0,
     offsetof(struct options, settings), 0, 0, NULL, NULL, NULL,
     "a further key of the sandbox's descriptor; may be repeated"},
    TEXT("execution-id", "E", ON_SANDBOX, ON_EXECUTION, execution_id, NULL,
         "the execution"),
    TEXT("remote-dir", "D", ON_EXECUTION, 0, remote_dir, NULL,
         "the application's directory in the sandbox (default: found there)"),
    FLAG("wake", 0, ON_EXECUTION, wake, "a stopped sandbox may be started"),
    FLAG("read", 0, BIT(COMMAND_ATTACH), read, "read both outputs too, from their start"),
    TEXT("stream", "stdout|stderr", BIT(COMMAND_READ_OUTPUT), 0, stream, streams,
         "which output (default: stdout)"),
    NUMBER("offset", "N", BIT(COMMAND_READ_OUTPUT), offset, 0, INT64_MAX,
           "the first byte wanted (default: 0)"),
    NUMBER("max-bytes", "N", BIT(COMMAND_READ_OUTPUT), max_bytes, 1, JOB_READ_MAX_BYTES,
           "how many bytes at most (default: 1048576)"),
    FLAG("raw", 0, BIT(COMMAND_READ_OUTPUT), raw,
         "write the bytes of the output and nothing else, unescaped"),
    NUMBER("timeout-ms", "N", ON_QUEUE, timeout_ms, 1, TIMEOUT_MOST_MS,
           "how long the job may take and its answer is waited for (default: 30000; for "
           "enqueue: what the job says)"),
    FLAG("no-wait", 0, ON_QUEUE, no_wait, "print the job's id and do not wait"),
    FLAG("json", 0, ON_QUEUE | BIT(COMMAND_PROVIDERS), json,
         "print one JSON object, for programs"),
    VARIABLE("redis-url", "URL", ANYWHERE, redis_url, "ATTACHD_REDIS_URL",
             "redis://127.0.0.1:6379/0",
             "where Redis is: redis://[user:password@]host:port/db or unix:///path?db=N"),
    VARIABLE("queue", "NAME", ANYWHERE, queue, "ATTACHD_QUEUE", "default",
             "the queue's name"),
    FLAG("help", 'h', ANYWHERE, help, "print help and end"),
    FLAG("version", 'V', ANYWHERE, version, "print the version and end"),
};

enum {
    COMMAND_ROWS = sizeof(commands) / sizeof(commands[0]),
    OPTION_ROWS = sizeof(rows) / sizeof(rows[0]),
};

/* A command line that is being read. */
struct parsing {
    int count;
    int at;
    const char *const *words;
    const struct command_row *command; /* NULL: not named yet */
    bool seen[OPTION_ROWS];
    struct options options;
    struct error *err;
};

const struct command_row *options_commands(size_t *ret_count)
{
    *ret_count = COMMAND_ROWS;
    return commands;
}

const struct option_row *options_rows(size_t *ret_count)
{
    *ret_count = OPTION_ROWS;
    return rows;
}

const struct command_row *options_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_ROWS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static void *member_of(struct options *options, const struct option_row *row)
{
    return (char *)options + row->member;
}

static int store_text(const struct option_row *row, const char *value,
                      struct options *options, struct error *err)
{
    const char **member = member_of(options, row);
    for (const char *const *allowed = row->values; allowed && *allowed; allowed++) {
        if (strcmp(*allowed, value) == 0) {
            *member = value;
            return 0;
        }
    }
    if (row->values)
        return error_set(err, ERROR_CONFIGURATION, "--%s takes %s, not \"%.60s\"",
                         row->name, row->argument, value);
    *member = value;
    return 0;
}

static int store_number(const struct option_row *row, const char *value,
                        struct options *options, struct error *err)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    /* strtoll takes blanks and signs, which here are slips of the hand. */
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 ||
        number < row->least || number > row->most)
        return error_set(err, ERROR_CONFIGURATION,
                         "--%s takes an integer from %lld to %lld, not \"%.60s\"",
                         row->name, (long long)row->least, (long long)row->most, value);
    int64_t *member = member_of(options, row);
    *member = number;
    return 0;
}

static int store_setting(const struct option_row *row, const char *value,
                         struct options *options, struct error *err)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value)
        return error_set(err, ERROR_CONFIGURATION, "--%s takes %s, not \"%.60s\"",
                         row->name, row->argument, value);
    if (options->setting_count == OPTIONS_MAX_SETTINGS)
        return error_set(err, ERROR_CONFIGURATION, "--%s can stand %d times at most",
                         row->name, OPTIONS_MAX_SETTINGS);
    options->settings[options->setting_count++] = (struct options_setting){
        .name = value, .name_bytes = (size_t)(equals - value), .value = equals + 1};
    return 0;
}

static int store(const struct option_row *row, const char *value, struct options *options,
                 struct error *err)
{
    bool *flag = member_of(options, row);
    switch (row->kind) {
    case OPTION_TEXT:
        return store_text(row, value, options, err);
    case OPTION_NUMBER:
        return store_number(row, value, options, err);
    case OPTION_SETTING:
        return store_setting(row, value, options, err);
    case OPTION_FLAG:
    default:
        *flag = true;
        return 0;
    }
}

/* The row of --NAME, --NAME=VALUE or -LETTER; OPTION_ROWS: none. */
static size_t find_row(const char *word)
{
    size_t i = 0;
    bool is_long = word[1] == '-';
    const char *name = word + 2;
    size_t bytes = is_long ? strcspn(name, "=") : 0;
    for (; i < OPTION_ROWS; i++) {
        if (is_long && strlen(rows[i].name) == bytes &&
            memcmp(rows[i].name, name, bytes) == 0)
            break;
        if (!is_long && rows[i].letter == word[1] && word[2] == '\0')
            break;
    }
    return i;
}

static int take_option(struct parsing *parsing, const char *word)
{
    size_t index = find_row(word);
    if (index == OPTION_ROWS)
        return error_set(parsing->err, ERROR_CONFIGURATION, "there is no option %.80s",
                         word);
    const struct option_row *row = &rows[index];
    const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    const char *value = equals ? equals + 1 : NULL;
    if (row->kind == OPTION_FLAG && value)
        return error_set(parsing->err, ERROR_CONFIGURATION, "--%s takes no value",
                         row->name);
    if (row->kind != OPTION_FLAG && !value) {
        if (parsing->at == parsing->count)
            return error_set(parsing->err, ERROR_CONFIGURATION, "--%s needs a value: %s",
                             row->name, row->argument);
        value = parsing->words[parsing->at++];
    }
    parsing->seen[index] = true;
    return store(row, value, &parsing->options, parsing->err);
}

static int take_word(struct parsing *parsing, const char *word)
{
    struct options *options = &parsing->options;
    if (!parsing->command) {
        parsing->command = options_command(word);
        if (!parsing->command)
            return error_set(parsing->err, ERROR_CONFIGURATION,
                             "there is no command \"%.60s\"", word);
        options->command = parsing->command->command;
        return 0;
    }
    if (!parsing->command->operand || options->operand)
        return error_set(parsing->err, ERROR_CONFIGURATION,
                         "\"%.60s\" is one word too many", word);
    options->operand = word;
    return 0;
}

static int take_words(struct parsing *parsing)
{
    bool only_words = false;
    while (parsing->at < parsing->count) {
        const char *word = parsing->words[parsing->at++];
        bool is_option = !only_words && word[0] == '-' && word[1] != '\0';
        if (is_option && strcmp(word, "--") == 0) {
            only_words = true;
            continue;
        }
        int failed = is_option ? take_option(parsing, word) : take_word(parsing, word);
        if (failed)
            return -1;
    }
    return 0;
}

/* What the line left open comes from the environment, then from the table. */
static int fill_in(struct parsing *parsing, const char *(*get)(const char *variable))
{
    for (size_t i = 0; i < OPTION_ROWS; i++) {
        const struct option_row *row = &rows[i];
        if (parsing->seen[i] || !row->otherwise)
            continue;
        const char *value = row->variable ? get(row->variable) : NULL;
        if (!value || value[0] == '\0')
            value = row->otherwise;
        if (store(row, value, &parsing->options, parsing->err) != 0)
            return -1;
    }
    return 0;
}

static int check_rows(const struct parsing *parsing)
{
    const struct command_row *command = parsing->command;
    for (size_t i = 0; i < OPTION_ROWS; i++) {
        if (parsing->seen[i] && !(rows[i].commands & BIT(command->command)))
            return error_set(parsing->err, ERROR_CONFIGURATION, "%s does not take --%s",
                             command->name, rows[i].name);
        if (!parsing->seen[i] && (rows[i].required & BIT(command->command)))
            return error_set(parsing->err, ERROR_CONFIGURATION, "%s needs --%s %s",
                             command->name, rows[i].name, rows[i].argument);
    }
    if (command->operand_required && !parsing->options.operand)
        return error_set(parsing->err, ERROR_CONFIGURATION, "%s needs %s", command->name,
                         command->operand);
    return 0;
}

static int check_operand(const struct options *options, struct error *err)
{
    const char *operand = options->operand;
    if (options->command == COMMAND_COMPLETION && strcmp(operand, "bash") != 0)
        return error_set(err, ERROR_CONFIGURATION,
                         "there is a completion for bash only, not for \"%.60s\"", operand);
    if (options->command == COMMAND_HELP && operand && !options_command(operand))
        return error_set(err, ERROR_CONFIGURATION, "there is no command \"%.60s\"",
                         operand);
    return 0;
}

static int check(const struct parsing *parsing)
{
    const struct options *options = &parsing->options;
    if (options->help || options->version)
        return 0;
    if (!parsing->command)
        return error_set(parsing->err, ERROR_CONFIGURATION, "a command is needed");
    if (check_rows(parsing) != 0)
        return -1;
    if (options->raw && (options->json || options->no_wait))
        return error_set(parsing->err, ERROR_CONFIGURATION,
                         "--raw cannot stand beside --json or --no-wait");
    return check_operand(options, parsing->err);
}

int options_parse(int count, const char *const *words,
                  const char *(*get)(const char *variable), struct options *ret_options,
                  struct error *err)
{
    struct parsing parsing = {.count = count, .words = words, .err = err};
    if (take_words(&parsing) != 0 || fill_in(&parsing, get) != 0 || check(&parsing) != 0)
        return -1;
    *ret_options = parsing.options;
    return 0;
}
