/* What can be asked for: the table of commands and the table of options, in the order in
 * which help shows them. */
#include "ctl/options.h"

#include <assert.h>
#include <string.h>

#include "queue/job.h"

enum { TIMEOUT_MOST_MS = 24 * 60 * 60 * 1000 };
#define EXACT_MOST   ((int64_t)1 << 53) /* what a worker's numbers hold without rounding */

#define BIT(command) (1U << (command))

enum {
    ON_LAUNCH = BIT(COMMAND_DEPLOY) | BIT(COMMAND_RELAUNCH),
    ON_GRACE = ON_LAUNCH | BIT(COMMAND_CANCEL),
    ON_LOOK = BIT(COMMAND_ATTACH) | BIT(COMMAND_STATUS) | BIT(COMMAND_READ_OUTPUT),
    ON_EFFECTS = ON_GRACE | BIT(COMMAND_STOP) | BIT(COMMAND_DESTROY),
    ON_EXECUTION = ON_GRACE | ON_LOOK | BIT(COMMAND_LOGS),
    /* One job, with one answer. */
    ON_JOB = ON_EFFECTS | ON_LOOK | BIT(COMMAND_INFO) | BIT(COMMAND_ENQUEUE),
    ON_SANDBOX = ON_EXECUTION | ON_EFFECTS | BIT(COMMAND_INFO),
    ON_QUEUE = ON_JOB | BIT(COMMAND_LOGS),
    ANYWHERE = ~0U >> 1,
};

static const struct command_row commands[] = {
    {"attach", NULL,
     "find an execution in a sandbox: handle, status and, with --read, its output",
     COMMAND_ATTACH, false, false},
    {"status", NULL, "the status of an execution", COMMAND_STATUS, false, false},
    {"read-output", NULL, "a piece of an execution's standard output or error",
     COMMAND_READ_OUTPUT, false, false},
    {"logs", NULL, "the outputs of an execution as they are, or as they come (--follow)",
     COMMAND_LOGS, false, false},
    {"deploy", "-- COMMAND [ARG ...]",
     "put an artifact into a sandbox, install what it needs and start a command in it",
     COMMAND_DEPLOY, true, true},
    {"relaunch", NULL, "start the command of an earlier deploy again, as a new execution",
     COMMAND_RELAUNCH, false, false},
    {"cancel", NULL, "end an execution", COMMAND_CANCEL, false, false},
    {"stop", NULL, "end what runs in a sandbox and stop it; what it holds is kept",
     COMMAND_STOP, false, false},
    {"destroy", NULL, "end what runs in a sandbox and take it away for good",
     COMMAND_DESTROY, false, false},
    {"info", NULL, "the provider's own view of a sandbox, without running a command in it",
     COMMAND_INFO, false, false},
    {"enqueue", "FILE.msgpack|-",
     "put a job from a file (or standard input) on the queue as it is", COMMAND_ENQUEUE,
     true, false},
    {"providers", NULL, "the kinds of providers and what each can do; asks nobody",
     COMMAND_PROVIDERS, false, false},
    {"completion", "bash",
     "print the completion for a shell: source <(attachctl completion bash)",
     COMMAND_COMPLETION, true, false},
    {"help", "[COMMAND]", "this text, or that of one command", COMMAND_HELP, false, false},
};

static const char *const streams[] = {"stdout", "stderr", NULL};

#define AT(member) offsetof(struct options, member)
#define FLAG(name, letter, commands, member, help)                                         \
    {                                                                                      \
        name, letter, OPTION_FLAG, NULL, commands, 0, AT(member), 0, 0, NULL, NULL, NULL,  \
            help                                                                           \
    }
#define TEXT(name, argument, commands, required, member, values, help)                     \
    {                                                                                      \
        name, 0, OPTION_TEXT, argument, commands, required, AT(member), 0, 0, values,      \
            NULL, NULL, help                                                               \
    }
#define LIST(name, argument, commands, member, help)                                       \
    {                                                                                      \
        name, 0, OPTION_LIST, argument, commands, 0, AT(member), 0, 0, NULL, NULL, NULL,   \
            help                                                                           \
    }
#define NUMBER(name, argument, commands, member, least, most, help)                        \
    {                                                                                      \
        name, 0, OPTION_NUMBER, argument, commands, 0, AT(member), least, most, NULL,      \
            NULL, NULL, help                                                               \
    }
#define VARIABLE(name, argument, commands, member, variable, otherwise, help)              \
    {                                                                                      \
        name, 0, OPTION_TEXT, argument, commands, 0, AT(member), 0, 0, NULL, variable,     \
            otherwise, help                                                                \
    }
/* Of a deploy; where several options say the same in their own way, options.c has the rule.
 */
#define DEPLOY(name, argument, member, help)                                               \
    TEXT(name, argument, BIT(COMMAND_DEPLOY), 0, launch.member, NULL, help)
#define LIMIT(name, member, help)                                                          \
    NUMBER(name, "N", BIT(COMMAND_DEPLOY), launch.member, 1, EXACT_MOST, help)

static const struct option_row rows[] = {
    TEXT("provider", "P", ON_SANDBOX, ON_SANDBOX, provider, NULL,
         "the provider, by the name that the workers know it by"),
    TEXT("sandbox", "ID", ON_SANDBOX, ON_SANDBOX, sandbox, NULL,
         "the provider's own identity of the sandbox"),
    {"set", 0, OPTION_SETTING, "KEY=VALUE", ON_SANDBOX, 0, AT(settings), 0, 0, NULL, NULL,
     NULL, "a further key of the sandbox's descriptor; may be repeated"},
    TEXT("execution-id", "E", ON_SANDBOX, ON_EXECUTION, execution_id, NULL,
         "the execution"),
    TEXT("from", "E", BIT(COMMAND_RELAUNCH), BIT(COMMAND_RELAUNCH), launch.from, NULL,
         "the execution whose command, arguments, environment and limits are taken"),
    TEXT("remote-dir", "D", ON_EXECUTION, 0, remote_dir, NULL,
         "the application's directory in the sandbox (default: found there)"),
    FLAG("wake", 0, ON_EXECUTION, wake, "a stopped sandbox may be started"),
    DEPLOY("archive", "FILE|-", archive,
           "the artifact: a .tar.gz here (- is standard input)"),
    DEPLOY("artifact-dir", "NAME", artifact_dir,
           "the artifact: a directory below the workers' artifact_root"),
    DEPLOY("url", "URL", url,
           "the artifact: a .tar.gz at a host on the workers' list artifact_hosts"),
    DEPLOY("sha256", "HEX", sha256, "the digest of what --url leads to"),
    LIST("env", "NAME[=VALUE]", BIT(COMMAND_DEPLOY), launch.env,
         "a variable for the command; without a value, that of attachctl's own "
         "environment, so that it stands in no process list; may be repeated"),
    LIST("env-file", "FILE|-", BIT(COMMAND_DEPLOY), launch.env_files,
         "variables from a file: lines NAME=VALUE or NAME, # begins a comment; --env wins"),
    DEPLOY("working-directory", "DIR", working_directory,
           "where the command runs, below the artifact's root (default: there)"),
    DEPLOY("install-command", "TEXT", install_command,
           "run by sh where the artifact has a package.json (default: npm install "
           "--omit=dev)"),
    TEXT("stdin", "FILE|-", ON_LAUNCH, 0, launch.stdin_file, NULL,
         "what the command reads as its standard input"),
    TEXT("input", "FILE|-", ON_LAUNCH, 0, launch.input_file, NULL,
         "a file for the command, put at --input-path"),
    TEXT("input-path", "PATH", ON_LAUNCH, 0, launch.input_path, NULL,
         "where --input goes, below the artifact's root"),
    NUMBER("input-limit-bytes", "N", ON_LAUNCH, launch.input_limit_bytes, 1, EXACT_MOST,
           "a larger input is refused (default: 16777216)"),
    LIMIT("cpu-seconds", cpu_seconds, "processor time of the command, at most"),
    LIMIT("memory-bytes", memory_bytes, "its address space, at most"),
    LIMIT("file-size-bytes", file_size_bytes, "the largest file that it may write"),
    LIMIT("open-files", open_files, "files that it may hold open at a time"),
    LIMIT("install-timeout-ms", install_timeout_ms,
          "for the installation, and for other deploys' locks (default: 600000)"),
    NUMBER("startup-timeout-ms", "N", ON_LAUNCH, launch.startup_timeout_ms, 1, EXACT_MOST,
           "what has not started by then is ended (default: 10000)"),
    LIMIT("execution-timeout-ms", execution_timeout_ms,
          "what runs longer is ended (default: it may)"),
    NUMBER("grace-ms", "N", ON_GRACE, grace_ms, 1, EXACT_MOST,
           "between TERM and KILL, where an execution is ended (default: 5000)"),
    NUMBER("attempts", "N", BIT(COMMAND_DESTROY), attempts, 1, JOB_DESTROY_MAX_ATTEMPTS,
           "how often it is tried (default: 3)"),
    NUMBER("delay-ms", "N", BIT(COMMAND_DESTROY), delay_ms, 1, JOB_DESTROY_MAX_DELAY_MS,
           "the pause between two attempts (default: 250)"),
    FLAG("follow", 'f', BIT(COMMAND_LOGS), follow,
         "go on until the execution has ended and all of its output is written"),
    FLAG("read", 0, BIT(COMMAND_ATTACH), read, "read both outputs too, from their start"),
    TEXT("stream", "stdout|stderr", BIT(COMMAND_READ_OUTPUT), 0, stream, streams,
         "which output (default: stdout)"),
    NUMBER("offset", "N", BIT(COMMAND_READ_OUTPUT), offset, 0, INT64_MAX,
           "the first byte wanted (default: 0)"),
    NUMBER("max-bytes", "N", BIT(COMMAND_READ_OUTPUT), max_bytes, 1, JOB_READ_MAX_BYTES,
           "how many bytes at most (default: 1048576)"),
    FLAG("raw", 0, BIT(COMMAND_READ_OUTPUT) | BIT(COMMAND_LOGS), raw,
         "write the bytes of the output and nothing else, unescaped (logs: on a terminal "
         "too)"),
    TEXT("job-id", "ID", ON_EFFECTS, 0, job_id, NULL,
         "the job's id (default: a new one); asked again with the same, nothing is done "
         "twice, and the answer is that of the first time"),
    NUMBER("timeout-ms", "N", ON_QUEUE, timeout_ms, 1, TIMEOUT_MOST_MS,
           "how long the job may take and its answer is waited for (default: 30000; 10000 "
           "for logs, of each look; 900000 for deploy and relaunch; for enqueue: what the "
           "job says)"),
    FLAG("no-wait", 0, ON_JOB, no_wait, "print the job's id and do not wait"),
    FLAG("quiet", 'q', ON_LAUNCH | BIT(COMMAND_ENQUEUE) | BIT(COMMAND_LOGS), quiet,
         "do not tell on standard error how far the job is, or how an execution ended"),
    FLAG("json", 0, ON_JOB | BIT(COMMAND_PROVIDERS), json,
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

static_assert((int)OPTION_ROWS <= OPTIONS_MAX_ROWS, "OPTIONS_MAX_ROWS is to grow");

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
