/* The parser that follows the tables (option_rows.c). getopt_long is not used: it takes
 * abbreviations, which would make every new option a change of what scripts mean, and it
 * knows nothing of options that belong to some commands only. */
#include "ctl/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BIT(command) (1U << (command))

/* A command line that is being read. */
struct parsing {
    int count;
    int at;
    const char *const *words;
    const struct command_row *command; /* NULL: not named yet */
    const struct option_row *rows;
    size_t row_count;
    bool seen[OPTIONS_MAX_ROWS];
    struct options options;
    struct arena *arena;
    struct error *err;
};

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

/* There can be no more values than words. */
static int store_item(struct parsing *parsing, const struct option_row *row,
                      const char *value)
{
    struct options_list *list = member_of(&parsing->options, row);
    if (!list->items)
        list->items =
            arena_calloc(parsing->arena, (size_t)parsing->count, sizeof(*list->items));
    if (!list->items)
        return error_set_memory(parsing->err, "the command line");
    list->items[list->count++] = value;
    return 0;
}

static int store(struct parsing *parsing, const struct option_row *row, const char *value)
{
    struct options *options = &parsing->options;
    bool *flag = member_of(options, row);
    switch (row->kind) {
    case OPTION_TEXT:
        return store_text(row, value, options, parsing->err);
    case OPTION_NUMBER:
        return store_number(row, value, options, parsing->err);
    case OPTION_SETTING:
        return store_setting(row, value, options, parsing->err);
    case OPTION_LIST:
        return store_item(parsing, row, value);
    case OPTION_FLAG:
    default:
        *flag = true;
        return 0;
    }
}

/* The row of --NAME, --NAME=VALUE or -LETTER; row_count: none. */
static size_t find_row(const struct parsing *parsing, const char *word)
{
    const struct option_row *rows = parsing->rows;
    size_t i = 0;
    bool is_long = word[1] == '-';
    const char *name = word + 2;
    size_t bytes = is_long ? strcspn(name, "=") : 0;
    for (; i < parsing->row_count; i++) {
        if (is_long && strlen(rows[i].name) == bytes &&
            memcmp(rows[i].name, name, bytes) == 0)
            break;
        if (!is_long && rows[i].letter == word[1] && word[2] == '\0')
            break;
    }
    return i;
}

/* How much of a word an error quotes: behind an equals sign may be a secret. */
static int shown_bytes(const char *word)
{
    enum { SHOWN_MOST = 80 };
    size_t bytes = strcspn(word, "=");
    return bytes < SHOWN_MOST ? (int)bytes : SHOWN_MOST;
}

static int take_option(struct parsing *parsing, const char *word)
{
    size_t index = find_row(parsing, word);
    if (index == parsing->row_count)
        return error_set(parsing->err, ERROR_CONFIGURATION, "there is no option %.*s",
                         shown_bytes(word), word);
    const struct option_row *row = &parsing->rows[index];
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
    return store(parsing, row, value);
}

/* The command to be run in the sandbox, and its arguments: whatever they look like. */
static void take_command(struct parsing *parsing)
{
    struct options *options = &parsing->options;
    if (parsing->at == parsing->count)
        return;
    options->operand = parsing->words[parsing->at++];
    options->args = parsing->words + parsing->at;
    options->arg_count = (size_t)(parsing->count - parsing->at);
    parsing->at = parsing->count;
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
    if (parsing->command->takes_command)
        return error_set(parsing->err, ERROR_CONFIGURATION,
                         "the command that %s starts stands after --, and \"%.*s\" does "
                         "not",
                         parsing->command->name, shown_bytes(word), word);
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
            if (parsing->command && parsing->command->takes_command)
                take_command(parsing);
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
    for (size_t i = 0; i < parsing->row_count; i++) {
        const struct option_row *row = &parsing->rows[i];
        if (parsing->seen[i] || !row->otherwise)
            continue;
        const char *value = row->variable ? get(row->variable) : NULL;
        if (!value || value[0] == '\0')
            value = row->otherwise;
        if (store(parsing, row, value) != 0)
            return -1;
    }
    return 0;
}

static int check_rows(const struct parsing *parsing)
{
    const struct command_row *command = parsing->command;
    const struct option_row *rows = parsing->rows;
    for (size_t i = 0; i < parsing->row_count; i++) {
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

/* The artifact from one place, and the digest with the address. */
static int check_artifact(const struct options_launch *launch, struct error *err)
{
    if (!!launch->archive + !!launch->artifact_dir + !!launch->url != 1)
        return error_set(err, ERROR_CONFIGURATION,
                         "deploy needs one of --archive FILE, --artifact-dir NAME and "
                         "--url URL");
    if (!launch->url == !launch->sha256)
        return 0;
    return error_set(err, ERROR_CONFIGURATION,
                     "--url and --sha256 stand together or not at all");
}

static bool is_standard_input(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static int check_sources(const struct options_launch *launch, struct error *err)
{
    int readers = is_standard_input(launch->archive) +
                  is_standard_input(launch->stdin_file) +
                  is_standard_input(launch->input_file);
    for (size_t i = 0; i < launch->env_files.count; i++)
        readers += is_standard_input(launch->env_files.items[i]);
    if (readers > 1)
        return error_set(err, ERROR_CONFIGURATION,
                         "only one of the files can be -, standard input");
    if (launch->stdin_file && launch->input_file)
        return error_set(err, ERROR_CONFIGURATION,
                         "--stdin cannot stand beside --input: there is one input");
    if (!launch->input_file != !launch->input_path)
        return error_set(err, ERROR_CONFIGURATION,
                         "--input and --input-path stand together or not at all");
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
    if (options->command == COMMAND_DEPLOY &&
        check_artifact(&options->launch, parsing->err) != 0)
        return -1;
    if (check_sources(&options->launch, parsing->err) != 0)
        return -1;
    return check_operand(options, parsing->err);
}

int options_parse(int count, const char *const *words,
                  const char *(*get)(const char *variable), struct arena *arena,
                  struct options *ret_options, struct error *err)
{
    struct parsing parsing = {.count = count, .words = words, .arena = arena, .err = err};
    parsing.rows = options_rows(&parsing.row_count);
    if (take_words(&parsing) != 0 || fill_in(&parsing, get) != 0 || check(&parsing) != 0)
        return -1;
    *ret_options = parsing.options;
    return 0;
}
