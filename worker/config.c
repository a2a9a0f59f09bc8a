/* Reading the configuration. inih splits lines; what they mean is decided here. */
#include "worker/config.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/provider.h"
#include "providers/registry.h"
#include "queue/job.h"

/* inih's own bound on a line; a longer one would be split in two without a word. */
enum { LINE_MAX_BYTES = 198, VALUE_MAX_BYTES = 4096 };

#define TEXT(section, key, variable, member, otherwise, help)                              \
    {                                                                                      \
        section, key, variable, CONFIG_TEXT, offsetof(struct config, member), otherwise,   \
            0, 0, help                                                                     \
    }
#define NUMBER(section, key, variable, member, otherwise, least, most, help)               \
    {                                                                                      \
        section, key, variable, CONFIG_NUMBER, offsetof(struct config, member), otherwise, \
            least, most, help                                                              \
    }

static const struct config_option options[] = {
    TEXT("redis", "url", "ATTACHD_REDIS_URL", redis_url, "redis://127.0.0.1:6379/0",
         "where Redis is: redis://[user:password@]host:port/db or unix:///path?db=N"),
    TEXT("queue", "name", "ATTACHD_QUEUE", queue, "default",
         "the queue's name; the keys are attachd:{NAME}:jobs and so on"),
    NUMBER("queue", "lease_ms", "ATTACHD_LEASE_MS", lease_ms, "30000", 300, 3600000,
           "how long a job may go without a sign of life of its worker before another "
           "takes it"),
    NUMBER("queue", "reply_maxlen", "ATTACHD_REPLY_MAXLEN", reply_maxlen, "100000", 1,
           1000000000, "about how many replies a reply stream keeps"),
    NUMBER("queue", "dead_maxlen", "ATTACHD_DEAD_MAXLEN", dead_maxlen, "100000", 1,
           1000000000, "about how many dead letters are kept"),
    NUMBER("queue", "record_ttl_ms", "ATTACHD_RECORD_TTL_MS", record_ttl_ms, "3600000",
           1000, 604800000, "how long the outcome of a job id is remembered"),
    NUMBER("queue", "max_deliveries", "ATTACHD_MAX_DELIVERIES", max_deliveries, "3", 1, 100,
           "how many workers may die over a job before it is a crash loop"),
    NUMBER("worker", "slots", "ATTACHD_SLOTS", slots, "64", 1, 65536,
           "how many jobs this process runs at a time"),
    NUMBER("worker", "drain_ms", "ATTACHD_DRAIN_MS", drain_ms, "25000", 0, 3600000,
           "after SIGTERM: how long running jobs may take to end"),
    NUMBER("worker", "job_memory_bytes", "ATTACHD_JOB_MEMORY_BYTES", job_memory_bytes,
           "134217728", 8388608, 1099511627776,
           "the most memory that one job may use, its body not counted"),
    TEXT("deploy", "artifact_root", "ATTACHD_ARTIFACT_ROOT", artifact_root, "",
         "absolute path of the directory below which jobs may name artifacts"),
    TEXT("deploy", "artifact_hosts", "ATTACHD_ARTIFACT_HOSTS", artifact_hosts, "",
         "hosts that artifacts may be fetched from: HOST or HOST:PORT, between blanks or "
         "commas"),
    NUMBER("deploy", "artifact_max_bytes", "ATTACHD_ARTIFACT_MAX_BYTES", artifact_max_bytes,
           "268435456", 1, 1099511627776, "the largest artifact, as .tar.gz"),
    NUMBER("deploy", "artifact_unpacked_max_bytes", "ATTACHD_ARTIFACT_UNPACKED_MAX_BYTES",
           artifact_unpacked_max_bytes, "2147483648", 1, 1099511627776,
           "the largest artifact when it is unpacked"),
    TEXT("log", "level", "ATTACHD_LOG_LEVEL", log_level_name, "info",
         "debug, info, warn or error"),
    TEXT("log", "format", "ATTACHD_LOG_FORMAT", log_format_name, "logfmt",
         "logfmt or json"),
};

enum { OPTION_COUNT = sizeof(options) / sizeof(options[0]) };

static const char PROVIDER_PREFIX[] = "provider ";
static const char LOCAL_ROOT_VARIABLE[] = "ATTACHD_LOCAL_ROOT";

/* A section [provider NAME] as it is being read. */
struct draft {
    const char *name;
    const char *type;
    struct profile_setting settings[32];
    size_t setting_count;
};

struct parsing {
    struct arena *arena;
    const char *values[OPTION_COUNT]; /* as text */
    struct draft drafts[CONFIG_MAX_PROFILES];
    size_t draft_count;
    struct error *err;
    bool failed;
};

const struct config_option *config_options(size_t *ret_count)
{
    *ret_count = OPTION_COUNT;
    return options;
}

static int find_option(const char *section, const char *key)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (strcmp(options[i].section, section) == 0 && strcmp(options[i].key, key) == 0)
            return i;
    }
    return -1;
}

/* The draft of that name; a new one where there is none. NULL: too many, or no memory. */
static struct draft *draft_of(struct parsing *parsing, const char *name)
{
    for (size_t i = 0; i < parsing->draft_count; i++) {
        if (strcmp(parsing->drafts[i].name, name) == 0)
            return &parsing->drafts[i];
    }
    if (parsing->draft_count == CONFIG_MAX_PROFILES)
        return NULL;
    struct draft *draft = &parsing->drafts[parsing->draft_count];
    *draft = (struct draft){.name = arena_text(parsing->arena, name)};
    if (!draft->name)
        return NULL;
    parsing->draft_count++;
    return draft;
}

/* Sets or replaces a setting of a provider. */
static int set_setting(struct parsing *parsing, struct draft *draft, const char *key,
                       const char *value)
{
    const char *copy = arena_text(parsing->arena, value);
    if (!copy)
        return error_set_memory(parsing->err, "the configuration");
    if (strcmp(key, "type") == 0) {
        draft->type = copy;
        return 0;
    }
    for (size_t i = 0; i < draft->setting_count; i++) {
        if (strcmp(draft->settings[i].name, key) == 0) {
            draft->settings[i].value = copy;
            return 0;
        }
    }
    if (draft->setting_count == sizeof(draft->settings) / sizeof(draft->settings[0]))
        return error_set(parsing->err, ERROR_CONFIGURATION,
                         "too many settings in [provider %s]", draft->name);
    const char *name = arena_text(parsing->arena, key);
    if (!name)
        return error_set_memory(parsing->err, "the configuration");
    draft->settings[draft->setting_count++] = (struct profile_setting){name, copy};
    return 0;
}

static int take_line(struct parsing *parsing, const char *section, const char *key,
                     const char *value)
{
    size_t prefix = sizeof(PROVIDER_PREFIX) - 1;
    if (strncmp(section, PROVIDER_PREFIX, prefix) == 0) {
        const char *name = section + prefix;
        if (!job_is_name(name, strlen(name)))
            return error_set(
                parsing->err, ERROR_CONFIGURATION,
                "\"%.60s\" is no name for a provider (letters, digits, . _ : -)", name);
        struct draft *draft = draft_of(parsing, name);
        if (!draft)
            return error_set(parsing->err, ERROR_CONFIGURATION, "more than %d providers",
                             CONFIG_MAX_PROFILES);
        return set_setting(parsing, draft, key, value);
    }
    int option = find_option(section, key);
    if (option < 0)
        return error_set(parsing->err, ERROR_CONFIGURATION,
                         "there is no setting \"%.60s\" in section [%.60s]", key, section);
    parsing->values[option] = arena_text(parsing->arena, value);
    return parsing->values[option] ? 0
                                   : error_set_memory(parsing->err, "the configuration");
}

/* inih's handler: 1 goes on, 0 marks the line as wrong. Only the first wrong line is told.
 */
static int on_line(void *user, const char *section, const char *key, const char *value)
{
    struct parsing *parsing = user;
    if (parsing->failed)
        return 0;
    if (take_line(parsing, section, key, value) == 0)
        return 1;
    parsing->failed = true;
    return 0;
}

/* What inih would take in another way than its writer meant: an indented line goes on with
 * the setting above it, and after a broken section head the lines below belong nowhere. */
static const char *line_fault(const char *line, size_t bytes)
{
    size_t blanks = strspn(line, " \t");
    bool is_blank = blanks >= bytes || line[blanks] == '\r';
    if (blanks > 0 && !is_blank && line[blanks] != ';' && line[blanks] != '#')
        return "a line must not begin with blanks";
    if (line[0] == '[' && !memchr(line, ']', bytes))
        return "the section's head has no closing bracket";
    return NULL;
}

static int check_lines(const char *text, const char *path, struct error *err)
{
    int number = 1;
    for (const char *line = text; *line; number++) {
        size_t bytes = strcspn(line, "\n");
        const char *wrong = line_fault(line, bytes);
        if (wrong)
            return error_set(err, ERROR_CONFIGURATION, "%s:%d: %s", path, number, wrong);
        if (bytes > LINE_MAX_BYTES)
            return error_set(err, ERROR_CONFIGURATION,
                             "%s:%d: the line is longer than %d bytes", path, number,
                             LINE_MAX_BYTES);
        line += bytes + (line[bytes] == '\n');
    }
    return 0;
}

static int parse_file(struct parsing *parsing, const char *text, const char *path)
{
    char place[300];
    if (check_lines(text, path, parsing->err) != 0)
        return -1;
    int line = ini_parse_string(text, on_line, parsing);
    if (line == 0)
        return 0;
    (void)snprintf(place, sizeof(place), "%.250s:%d", path, line);
    if (!parsing->failed)
        (void)error_set(parsing->err, ERROR_CONFIGURATION,
                        "neither a [section] nor a name = value");
    return error_wrap(parsing->err, place);
}

static int take_environment(struct parsing *parsing,
                            const char *(*get)(const char *variable))
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const char *value = get(options[i].variable);
        if (!value)
            continue;
        if (strlen(value) > VALUE_MAX_BYTES)
            return error_set(parsing->err, ERROR_CONFIGURATION,
                             "%s is longer than %d bytes", options[i].variable,
                             VALUE_MAX_BYTES);
        parsing->values[i] = arena_text(parsing->arena, value);
        if (!parsing->values[i])
            return error_set_memory(parsing->err, "the configuration");
    }
    const char *root = get(LOCAL_ROOT_VARIABLE);
    if (!root)
        return 0;
    struct draft *draft = draft_of(parsing, "local");
    if (!draft)
        return error_set(parsing->err, ERROR_CONFIGURATION, "more than %d providers",
                         CONFIG_MAX_PROFILES);
    return set_setting(parsing, draft, "root", root);
}

static int wrong_value(const struct parsing *parsing, int i, const char *what)
{
    const struct config_option *option = &options[i];
    return error_set(parsing->err, ERROR_CONFIGURATION, "[%s] %s (%s): %s", option->section,
                     option->key, option->variable, what);
}

static int store_number(const struct parsing *parsing, int i, const char *text,
                        int64_t *member)
{
    const struct config_option *option = &options[i];
    char what[96];
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && number >= option->least &&
        number <= option->most) {
        *member = number;
        return 0;
    }
    (void)snprintf(what, sizeof(what), "must be a whole number from %lld to %lld",
                   (long long)option->least, (long long)option->most);
    return wrong_value(parsing, i, what);
}

static int store_values(const struct parsing *parsing, struct config *config)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const char *text = parsing->values[i] ? parsing->values[i] : options[i].otherwise;
        char *member = (char *)config + options[i].offset;
        if (options[i].type == CONFIG_TEXT)
            *(const char **)(void *)member = text;
        else if (store_number(parsing, i, text, (int64_t *)(void *)member) != 0)
            return -1;
    }
    return 0;
}

static int check_values(const struct parsing *parsing, struct config *config)
{
    struct error *err = parsing->err;
    if (address_parse(config->redis_url, &config->address, err) != 0)
        return error_wrap(err, "[redis] url (ATTACHD_REDIS_URL)");
    if (!job_is_name(config->queue, strlen(config->queue)))
        return error_set(err, ERROR_CONFIGURATION,
                         "[queue] name (ATTACHD_QUEUE): 1 to 128 letters, digits, dots, "
                         "underscores, colons or hyphens, a letter or digit first");
    if (!log_level_from_name(config->log_level_name, &config->log_level))
        return error_set(err, ERROR_CONFIGURATION,
                         "[log] level (ATTACHD_LOG_LEVEL): debug, info, warn or error");
    bool json = strcmp(config->log_format_name, "json") == 0;
    if (!json && strcmp(config->log_format_name, "logfmt") != 0)
        return error_set(err, ERROR_CONFIGURATION,
                         "[log] format (ATTACHD_LOG_FORMAT): logfmt or json");
    config->log_format = json ? LOG_FORMAT_JSON : LOG_FORMAT_LOGFMT;
    if (config->artifact_root[0] && config->artifact_root[0] != '/')
        return error_set(err, ERROR_CONFIGURATION,
                         "[deploy] artifact_root (ATTACHD_ARTIFACT_ROOT): must be an "
                         "absolute path");
    return 0;
}

/* A type without settings serves under its own name, unless a section has taken that name
 * or the type cannot do without settings. */
static int add_defaults(struct parsing *parsing)
{
    size_t count = 0;
    const struct provider *const *providers = registry_all(&count);
    for (size_t i = 0; i < count; i++) {
        const struct profile bare = {.name = providers[i]->name, .provider = providers[i]};
        struct error unused = {0};
        if (providers[i]->check_profile && providers[i]->check_profile(&bare, &unused) != 0)
            continue;
        if (!draft_of(parsing, providers[i]->name))
            return error_set(parsing->err, ERROR_CONFIGURATION, "more than %d providers",
                             CONFIG_MAX_PROFILES);
    }
    return 0;
}

static bool takes_setting(const struct provider *provider, const char *name)
{
    for (const char *const *known = provider->settings; known && *known; known++) {
        size_t bytes = strlen(*known);
        bool is_prefix = (*known)[bytes - 1] == '.';
        if (is_prefix ? strncmp(*known, name, bytes) == 0 : strcmp(*known, name) == 0)
            return true;
    }
    return false;
}

/* A misspelt setting must not be passed over in silence. */
static int check_setting_names(const struct profile *profile, struct error *err)
{
    for (size_t i = 0; i < profile->setting_count; i++) {
        if (!takes_setting(profile->provider, profile->settings[i].name))
            return error_set(err, ERROR_CONFIGURATION,
                             "provider type %s has no setting \"%.60s\"",
                             profile->provider->name, profile->settings[i].name);
    }
    return 0;
}

static int make_profile(const struct parsing *parsing, const struct draft *draft,
                        struct profile *ret_profile)
{
    char place[160];
    const char *type = draft->type ? draft->type : draft->name;
    (void)snprintf(place, sizeof(place), "[provider %s]", draft->name);
    const struct provider *provider = registry_find(type);
    if (!provider) {
        (void)error_set(
            parsing->err, ERROR_CONFIGURATION,
            "there is no provider type \"%.60s\" (attachctl providers lists them)", type);
        return error_wrap(parsing->err, place);
    }
    struct profile profile = {.name = draft->name,
                              .provider = provider,
                              .settings = draft->settings,
                              .setting_count = draft->setting_count};
    profile.settings = arena_copy(parsing->arena, draft->settings,
                                  draft->setting_count * sizeof(draft->settings[0]));
    if (!profile.settings)
        return error_set_memory(parsing->err, "the configuration");
    if (check_setting_names(&profile, parsing->err) != 0)
        return error_wrap(parsing->err, place);
    if (provider->check_profile && provider->check_profile(&profile, parsing->err) != 0)
        return error_wrap(parsing->err, place);
    *ret_profile = profile;
    return 0;
}

static int make_profiles(struct parsing *parsing, struct config *config)
{
    if (add_defaults(parsing) != 0)
        return -1;
    struct profile *profiles =
        arena_calloc(parsing->arena, parsing->draft_count, sizeof(*profiles));
    if (!profiles)
        return error_set_memory(parsing->err, "the configuration");
    for (size_t i = 0; i < parsing->draft_count; i++) {
        if (make_profile(parsing, &parsing->drafts[i], &profiles[i]) != 0)
            return -1;
    }
    config->profiles = profiles;
    config->profile_count = parsing->draft_count;
    return 0;
}

int config_parse(const char *text, const char *path,
                 const char *(*get)(const char *variable), struct arena *arena,
                 struct config *ret_config, struct error *err)
{
    struct parsing *parsing = calloc(1, sizeof(*parsing));
    struct config config = {0};
    if (!parsing)
        return error_set_memory(err, "the configuration");
    parsing->arena = arena;
    parsing->err = err;
    int failed = text ? parse_file(parsing, text, path) : 0;
    if (!failed)
        failed = take_environment(parsing, get);
    if (!failed)
        failed = store_values(parsing, &config);
    if (!failed)
        failed = check_values(parsing, &config);
    if (!failed)
        failed = make_profiles(parsing, &config);
    if (!failed)
        *ret_config = config;
    free(parsing);
    return failed;
}

static const char *from_environment(const char *variable)
{
    return getenv(variable);
}

static void file_cleanup(FILE **file)
{
    if (*file)
        (void)fclose(*file);
}

int config_load(const char *path, struct arena *arena, struct config *ret_config,
                struct error *err)
{
    if (!path)
        return config_parse(NULL, NULL, from_environment, arena, ret_config, err);
    __attribute__((cleanup(file_cleanup))) FILE *file = fopen(path, "re");
    if (!file)
        return error_set(err, ERROR_CONFIGURATION, "cannot read %.200s: %s", path,
                         strerror(errno));
    char *text = arena_alloc(arena, CONFIG_MAX_BYTES + 1);
    if (!text)
        return error_set_memory(err, "the configuration");
    size_t bytes = fread(text, 1, CONFIG_MAX_BYTES + 1, file);
    if (ferror(file))
        return error_set(err, ERROR_CONFIGURATION, "cannot read %.200s", path);
    if (bytes > CONFIG_MAX_BYTES)
        return error_set(err, ERROR_CONFIGURATION, "%.200s is larger than %d bytes", path,
                         CONFIG_MAX_BYTES);
    text[bytes] = '\0';
    if (strlen(text) != bytes)
        return error_set(err, ERROR_CONFIGURATION, "%.200s holds a NUL byte", path);
    return config_parse(text, path, from_environment, arena, ret_config, err);
}

const struct profile *config_profile(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->profile_count; i++) {
        if (strcmp(config->profiles[i].name, name) == 0)
            return &config->profiles[i];
    }
    return NULL;
}
