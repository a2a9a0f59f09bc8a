/* The command line of attachctl: one table of commands, one of options (option_rows.c).
 * Parsing, the help texts and the completion of shells all follow these two tables. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"

enum command {
    COMMAND_NONE,
    COMMAND_ATTACH,
    COMMAND_STATUS,
    COMMAND_READ_OUTPUT,
    COMMAND_DEPLOY,
    COMMAND_RELAUNCH,
    COMMAND_CANCEL,
    COMMAND_LOGS,
    COMMAND_STOP,
    COMMAND_DESTROY,
    COMMAND_INFO,
    COMMAND_ENQUEUE,
    COMMAND_PROVIDERS,
    COMMAND_COMPLETION,
    COMMAND_HELP,
};

enum { OPTIONS_MAX_SETTINGS = 32, OPTIONS_MAX_ROWS = 64 };

struct command_row {
    const char *name;
    const char *operand; /* as help shows it; NULL: takes none */
    const char *summary; /* one line */
    enum command command;
    bool operand_required;
    bool takes_command; /* the operand, and all words behind it, stand after two hyphens */
};

enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_SETTING, OPTION_LIST };

struct option_row {
    const char *name; /* without the two hyphens */
    char letter;      /* the short form; 0: none */
    enum option_kind kind;
    const char *argument; /* as help shows it; NULL for flags */
    unsigned commands;    /* bits 1 << enum command: where it may stand */
    unsigned required;    /* the same: where it must stand */
    size_t member;        /* offset in struct options */
    int64_t least;        /* numbers */
    int64_t most;
    const char *const *values; /* texts: the only ones taken, NULL-ended; NULL: any */
    const char *variable;      /* of the environment, read where the option is absent */
    const char *otherwise;     /* the default of texts; NULL: none */
    const char *help;
};

struct options_setting {
    const char *name; /* not terminated: name_bytes long */
    size_t name_bytes;
    const char *value;
};

/* The values of an option that may be repeated, in their order; the array is the arena's.
 */
struct options_list {
    const char **items;
    size_t count;
};

/* What stands in jobs that launch something. Numbers: 0 is absent. */
struct options_launch {
    const char *archive;
    const char *artifact_dir;
    const char *url;
    const char *sha256;
    struct options_list env; /* hold secrets, as the files do: not to be shown */
    struct options_list env_files;
    const char *working_directory;
    const char *install_command;
    const char *stdin_file;
    const char *input_file;
    const char *input_path;
    const char *from;
    int64_t input_limit_bytes;
    int64_t cpu_seconds;
    int64_t memory_bytes;
    int64_t file_size_bytes;
    int64_t open_files;
    int64_t install_timeout_ms;
    int64_t startup_timeout_ms;
    int64_t execution_timeout_ms;
};

/* Texts are lent from the command line, the environment and the tables; NULL: absent. */
struct options {
    enum command command;
    const char *operand;
    const char *const *args; /* what stands behind the operand that is a command */
    size_t arg_count;
    struct options_launch launch;
    const char *redis_url;
    const char *queue;
    const char *provider;
    const char *sandbox;
    const char *execution_id;
    const char *remote_dir;
    const char *stream;
    const char *job_id;
    struct options_setting settings[OPTIONS_MAX_SETTINGS];
    size_t setting_count;
    int64_t offset;
    int64_t max_bytes;  /* 0: absent */
    int64_t timeout_ms; /* 0: absent */
    int64_t grace_ms;   /* 0: absent */
    int64_t attempts;   /* 0: absent */
    int64_t delay_ms;   /* 0: absent */
    bool follow;
    bool read;
    bool wake;
    bool raw;
    bool no_wait;
    bool quiet;
    bool json;
    bool help;
    bool version;
};

const struct command_row *options_commands(size_t *ret_count);
const struct option_row *options_rows(size_t *ret_count);
/* The row of that name; NULL: there is none. */
const struct command_row *options_command(const char *name);

/* Reads a command line (words beside the program's name) and, through `get`, the
 * environment. Of a line that asks for help or the version, nothing but the words is
 * checked. ERROR_CONFIGURATION, with a message that names what is wrong, and never holds
 * what may be a secret; internal where memory ran out. */
NODISCARD int options_parse(int count, const char *const *words,
                            const char *(*get)(const char *variable), struct arena *arena,
                            struct options *ret_options, struct error *err);
