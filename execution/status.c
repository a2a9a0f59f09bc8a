/* The state of an execution: reading the record, and weighing it against the process. */
#include "execution/status.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool terminal;
} states[] = {
#define STATUS_ROW(state, name, terminal) [state] = {name, terminal},
    STATUS_STATES(STATUS_ROW)
#undef STATUS_ROW
};

enum { FIELD_MAX = 5, PID_MIN = 2, PID_MAX = 4194304, SIGNAL_MAX = 64 };

#define LARGEST_LIMIT ((int64_t)9007199254740991) /* 2^53-1, JavaScript's safe integers */

const char *status_state_name(enum status_state state)
{
    assert((size_t)state < sizeof(states) / sizeof(states[0]));
    return states[state].name;
}

bool status_is_terminal(const struct status *status)
{
    assert((size_t)status->state < sizeof(states) / sizeof(states[0]));
    return states[status->state].terminal;
}

static struct status unknown(const char *reason)
{
    return (struct status){.state = STATUS_UNKNOWN, .reason = reason};
}

static struct status lost(const char *reason)
{
    return (struct status){.state = STATUS_LOST, .reason = reason};
}

/* Decimal digits only, without a leading zero, at most `largest`; -1: something else. */
static int64_t strict_number(const char *text, int64_t largest)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits] != '\0')
        return -1;
    if (text[0] == '0' && digits > 1)
        return -1;
    int64_t value = (int64_t)strtoll(text, NULL, 10);
    return value <= largest ? value : -1;
}

/* The fields of one status line; those that are not there are NULL. */
struct fields {
    const char *text[FIELD_MAX];
};

/* Cuts the line, which is changed, at its bars. */
static struct fields split(char *line)
{
    struct fields fields = {0};
    for (size_t i = 0; i < FIELD_MAX && line; i++)
        fields.text[i] = strsep(&line, "|");
    return fields;
}

static const char *not_empty(const char *text)
{
    return text && *text ? text : NULL;
}

/* The record says SIG15 for SIGTERM, and SIG72 of an exit code of 200, which is no signal
 * at all. Numbers without a name (the real-time signals) stay as recorded. Returns a text
 * in the arena or `text`; NULL in *ret_name where it is no signal. */
static int name_signal(const char *text, struct arena *arena, const char **ret_name)
{
    *ret_name = not_empty(text);
    if (!*ret_name || strncmp(text, "SIG", 3) != 0 ||
        text[3 + strspn(text + 3, "0123456789")] != '\0')
        return 0;
    int number = (int)strict_number(text + 3, SIGNAL_MAX);
    if (number < 1) {
        *ret_name = NULL;
        return 0;
    }
    const char *abbreviation = sigabbrev_np(number);
    if (!abbreviation)
        return 0;
    *ret_name = arena_printf(arena, "SIG%s", abbreviation);
    return *ret_name ? 0 : -1;
}

static int parse_exited(const struct fields *fields, struct arena *arena,
                        struct status *status)
{
    int64_t code = fields->text[2] ? strict_number(fields->text[2], 255) : -1;
    if (code < 0) {
        *status = unknown("unreadable");
        return 0;
    }
    status->has_exit_code = true;
    status->exit_code = (int)code;
    return name_signal(fields->text[3], arena, &status->signal);
}

static int parse_resource(const struct fields *fields, struct arena *arena,
                          struct status *status)
{
    static const struct {
        const char *resource;
        const char *signal;
    } resources[] = {{"cpu", "SIGXCPU"}, {"file_size", "SIGXFSZ"}};
    (void)arena;
    *status = unknown("unreadable");
    if (!fields->text[4])
        return 0;
    int64_t limit = strict_number(fields->text[3], LARGEST_LIMIT);
    for (size_t i = 0; limit > 0 && i < sizeof(resources) / sizeof(resources[0]); i++) {
        if (strcmp(fields->text[2], resources[i].resource) == 0 &&
            strcmp(fields->text[4], resources[i].signal) == 0)
            *status = (struct status){.state = STATUS_RESOURCE_EXHAUSTED,
                                      .resource = resources[i].resource,
                                      .limit = limit,
                                      .signal = resources[i].signal};
    }
    return 0;
}

static int parse_cancelled(const struct fields *fields, struct arena *arena,
                           struct status *status)
{
    (void)arena;
    status->signal = not_empty(fields->text[2]);
    return 0;
}

static int parse_phase(const struct fields *fields, const char *const *phases,
                       struct status *status)
{
    for (; *phases; phases++) {
        if (fields->text[2] && strcmp(fields->text[2], *phases) == 0) {
            status->phase = *phases;
            return 0;
        }
    }
    *status = unknown("unreadable");
    return 0;
}

static int parse_timed_out(const struct fields *fields, struct arena *arena,
                           struct status *status)
{
    static const char *const phases[] = {"startup", "execution", NULL};
    (void)arena;
    return parse_phase(fields, phases, status);
}

static int parse_failed(const struct fields *fields, struct arena *arena,
                        struct status *status)
{
    static const char *const phases[] = {"upload", "install", "launch", NULL};
    (void)arena;
    status->message = fields->text[3];
    return parse_phase(fields, phases, status);
}

static int parse_plain(const struct fields *fields, struct arena *arena,
                       struct status *status)
{
    (void)fields;
    (void)arena;
    (void)status;
    return 0;
}

/* The states that a file can hold; the fields behind the id are the parser's. It starts
 * with the state set, and gives unknown where they are wrong. */
static const struct {
    enum status_state state;
    int (*parse)(const struct fields *fields, struct arena *arena, struct status *status);
} grammar[] = {
    {STATUS_STARTING, parse_plain},      {STATUS_RUNNING, parse_plain},
    {STATUS_EXITED, parse_exited},       {STATUS_RESOURCE_EXHAUSTED, parse_resource},
    {STATUS_CANCELLED, parse_cancelled}, {STATUS_TIMED_OUT, parse_timed_out},
    {STATUS_FAILED, parse_failed},
};

static int parse_line(char *line, const char *execution_id, struct arena *arena,
                      struct status *ret_status)
{
    struct fields fields = split(line);
    for (size_t i = 0; i < sizeof(grammar) / sizeof(grammar[0]); i++) {
        if (strcmp(fields.text[0], status_state_name(grammar[i].state)) != 0)
            continue;
        if (!fields.text[1] || *fields.text[1] == '\0')
            break;
        if (strcmp(fields.text[1], execution_id) != 0) {
            *ret_status = unknown("foreign");
            return 0;
        }
        *ret_status = (struct status){.state = grammar[i].state};
        return grammar[i].parse(&fields, arena, ret_status);
    }
    *ret_status = unknown("unreadable");
    return 0;
}

int status_parse(const char *text, const char *execution_id, struct arena *arena,
                 struct status *ret_status)
{
    static const char blanks[] = " \t\r\n\v\f";
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]))
        length--;
    char *line = arena_text_n(arena, text, length);
    if (!line)
        return -1;
    if (strchr(line, '\n')) {
        *ret_status = unknown("unreadable");
        return 0;
    }
    struct status status = {0};
    if (parse_line(line, execution_id, arena, &status) != 0)
        return -1;
    *ret_status = status;
    return 0;
}

/* What the pid file's process turned out to be. */
enum process_verdict {
    PROCESS_LIVE,
    PROCESS_NO_PID_FILE,
    PROCESS_INVALID_PID,
    PROCESS_GONE,
    PROCESS_ZOMBIE,
    PROCESS_REUSED,
    PROCESS_REBOOTED
};

/* Whether text, without one CR at its end, equals other. */
static bool same_text(const char *text, size_t length, const char *other)
{
    return other && strlen(other) == length && memcmp(text, other, length) == 0;
}

static size_t length_without_cr(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && text[length - 1] == '\r' ? length - 1 : length;
}

static bool is_pid(const char *text)
{
    char digits[8] = "";
    size_t length = length_without_cr(text);
    if (length >= sizeof(digits))
        return false;
    memcpy(digits, text, length);
    return strict_number(digits, PID_MAX) >= PID_MIN;
}

static bool identity_differs(const struct observation *observation)
{
    const char *token = observation->token_text;
    size_t length = token ? length_without_cr(token) : 0;
    if (length == 0)
        return false;
    return !same_text(token, length, observation->start_time) &&
           !same_text(token, length, observation->blank_start_time);
}

/* Whether the machine is known to have been started anew since the launch. */
static bool has_rebooted(const struct observation *observation)
{
    return observation->claimed_boot && observation->boot &&
           strcmp(observation->claimed_boot, observation->boot) != 0;
}

static enum process_verdict judge_live(const struct observation *observation)
{
    return has_rebooted(observation) ? PROCESS_REBOOTED : PROCESS_LIVE;
}

static enum process_verdict judge_process(const struct observation *observation)
{
    if (!observation->pid_file_exists)
        return PROCESS_NO_PID_FILE;
    if (!observation->pid_text || !is_pid(observation->pid_text))
        return PROCESS_INVALID_PID;
    switch (observation->process_state) {
    case '\0':
        return observation->signalable ? judge_live(observation) : PROCESS_GONE;
    case 'Z':
    case 'X':
    case 'x':
        return PROCESS_ZOMBIE;
    default:
        return identity_differs(observation) ? PROCESS_REUSED : judge_live(observation);
    }
}

static const char *lost_reason(enum process_verdict process, enum status_state recorded)
{
    switch (process) {
    case PROCESS_NO_PID_FILE:
        return recorded == STATUS_STARTING ? "no_launcher" : "no_pid";
    case PROCESS_INVALID_PID:
        return "invalid_pid";
    case PROCESS_GONE:
        return "no_process";
    case PROCESS_ZOMBIE:
        return "zombie";
    case PROCESS_REUSED:
        return "pid_reused";
    case PROCESS_REBOOTED:
        return "rebooted";
    case PROCESS_LIVE:
        break;
    }
    assert(!"a live process is not lost");
    return NULL;
}

static int read_record(const struct observation *observation, const char *execution_id,
                       struct arena *arena, struct status *ret_record)
{
    if (observation->status_readable && observation->status_text)
        return status_parse(observation->status_text, execution_id, arena, ret_record);
    bool is_there = observation->directory_exists && observation->status_exists;
    *ret_record = unknown(is_there ? "unreadable" : "absent");
    return 0;
}

int status_judge(const struct observation *observation, const char *execution_id,
                 struct arena *arena, struct status *ret_status)
{
    struct status record;
    if (read_record(observation, execution_id, arena, &record) != 0)
        return -1;
    enum process_verdict process = judge_process(observation);
    if (process == PROCESS_LIVE) {
        *ret_status = (struct status){.state = STATUS_RUNNING};
        return 0;
    }
    bool is_other = process == PROCESS_REUSED || process == PROCESS_REBOOTED;
    if (record.state == STATUS_UNKNOWN && is_other)
        record = unknown("stale_process");
    bool is_open = record.state == STATUS_STARTING || record.state == STATUS_RUNNING;
    bool is_unknowable = record.state == STATUS_STARTING &&
                         process == PROCESS_NO_PID_FILE && !observation->has_proc;
    if (is_open && !observation->launcher_alive && !is_unknowable)
        record = lost(lost_reason(process, record.state));
    *ret_status = record;
    return 0;
}
