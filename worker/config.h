/* The configuration of attachd: an INI file, then environment variables over it.
 *
 * One table (config_options) names every setting: it drives the parser, the checks, --help
 * and the documentation's test. Providers are sections of their own: [provider NAME] with
 * `type` and that provider's settings. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/profile.h"
#include "queue/address.h"
#include "runtime/arena.h"
#include "runtime/attributes.h"
#include "runtime/error.h"
#include "runtime/log.h"

enum { CONFIG_MAX_BYTES = 1024 * 1024, CONFIG_MAX_PROFILES = 64 };

struct config {
    const char *redis_url;
    struct address address;
    const char *queue;
    int64_t lease_ms;
    int64_t reply_maxlen;
    int64_t dead_maxlen;
    int64_t record_ttl_ms;
    int64_t max_deliveries;
    int64_t slots;
    int64_t drain_ms;
    int64_t job_memory_bytes;
    const char *artifact_root;  /* "": none */
    const char *artifact_hosts; /* "": none */
    int64_t artifact_max_bytes;
    int64_t artifact_unpacked_max_bytes;
    const char *log_level_name;
    const char *log_format_name;
    enum log_level log_level;
    enum log_format log_format;
    const struct profile *profiles; /* those that jobs may name */
    size_t profile_count;
};

enum config_type { CONFIG_TEXT, CONFIG_NUMBER };

struct config_option {
    const char *section;
    const char *key;
    const char *variable; /* environment */
    enum config_type type;
    size_t offset;         /* of the member of struct config */
    const char *otherwise; /* the default, as text */
    int64_t least;
    int64_t most;
    const char *help;
};

const struct config_option *config_options(size_t *ret_count);

/* Reads `text` (NULL: no file), then the environment through `get`, fills what is missing
 * with defaults and checks everything. Texts live in the arena. -1 with ERROR_CONFIGURATION
 * whose message names `path`, the line, the section and key, or the variable. */
NODISCARD int config_parse(const char *text, const char *path,
                           const char *(*get)(const char *variable), struct arena *arena,
                           struct config *ret_config, struct error *err);

/* Reads a file and the process's environment. path NULL: the environment alone. */
NODISCARD int config_load(const char *path, struct arena *arena, struct config *ret_config,
                          struct error *err);

/* The profile that a job's sandbox.provider names; NULL: none. */
const struct profile *config_profile(const struct config *config, const char *name);
