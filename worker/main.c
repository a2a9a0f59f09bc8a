/* attachd: reads its configuration, runs a worker until it is told to stop. */
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/provider.h"
#include "runtime/arena.h"
#include "runtime/log.h"
#include "worker/config.h"
#include "worker/kill_hook.h"
#include "worker/worker.h"

enum { EXIT_USAGE = 2, TRIM_BYTES = 256 * 1024 * 1024, PAD_BYTES = 16 * 1024 * 1024 };

struct arguments {
    const char *config_path;
    const char *log_format;
    const char *log_level;
    bool check_config;
};

static void print_help(void)
{
    size_t count = 0;
    const struct config_option *options = config_options(&count);
    (void)printf(
        "usage: attachd [--config FILE] [--check-config] [--log-format logfmt|json]\n"
        "               [--log-level debug|info|warn|error] [--help] [--version]\n\n"
        "Takes jobs off a Redis stream, looks at executions in sandboxes, answers on a\n"
        "reply stream. Start as many as there is work for.\n\n"
        "  --config FILE     read settings from an INI file (-c)\n"
        "  --check-config    check the settings, print the main ones, and end\n"
        "  --log-format F    logfmt or json, on standard error; wins over [log] format\n"
        "  --log-level L     the least level that is logged; wins over [log] level\n"
        "  --help            print this text and end (-h)\n"
        "  --version         print the version and end (-V)\n\n"
        "Settings, in the file and in the environment (which wins):\n\n");
    for (size_t i = 0; i < count; i++)
        (void)printf("  [%s] %s = %s\n      %s: %s\n", options[i].section, options[i].key,
                     options[i].otherwise, options[i].variable, options[i].help);
    (void)printf(
        "  [provider NAME] type = TYPE, and the provider's own settings\n"
        "      ATTACHD_LOCAL_ROOT: root of a provider named local, which runs commands\n"
        "      on this host in the directories below it; without a root there is none\n\n"
        "Signals: TERM and INT drain and end, a second one ends at once; USR1 logs every\n"
        "task with its job, step and age.\n"
        "Exit status: 0 at the end of a drain; 1 it could not begin, or a second signal\n"
        "ended it; 2 the command line or the configuration is wrong.\n");
}

/* Whether the process goes on; else *ret_status is its exit status. */
static bool parse_arguments(int argc, char **argv, struct arguments *arguments,
                            int *ret_status)
{
    static const struct option long_options[] = {
        {"config", required_argument, NULL, 'c'},
        {"check-config", no_argument, NULL, 'k'},
        {"log-format", required_argument, NULL, 'f'},
        {"log-level", required_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "c:hV", long_options, NULL)) != -1) {
        switch (option) {
        case 'c':
            arguments->config_path = optarg;
            break;
        case 'k':
            arguments->check_config = true;
            break;
        case 'f':
            arguments->log_format = optarg;
            break;
        case 'l':
            arguments->log_level = optarg;
            break;
        case 'h':
            print_help();
            *ret_status = EXIT_SUCCESS;
            return false;
        case 'V':
            (void)printf("attachd %s\n", ATTACHD_VERSION);
            *ret_status = EXIT_SUCCESS;
            return false;
        default:
            (void)fprintf(stderr, "attachd: see attachd --help\n");
            *ret_status = EXIT_USAGE;
            return false;
        }
    }
    if (optind == argc)
        return true;
    (void)fprintf(stderr, "attachd: unexpected argument %s; see attachd --help\n",
                  argv[optind]);
    *ret_status = EXIT_USAGE;
    return false;
}

static void print_config(const struct config *config)
{
    char address[512];
    address_describe(&config->address, address, sizeof(address));
    (void)printf("redis      %s\nqueue      %s\nlease      %lld ms\nslots      %lld\n",
                 address, config->queue, (long long)config->lease_ms,
                 (long long)config->slots);
    for (size_t i = 0; i < config->profile_count; i++)
        (void)printf("provider   %s (type %s)\n", config->profiles[i].name,
                     config->profiles[i].provider->name);
    (void)printf("the configuration is fine\n");
}

/* The two log settings of the command line win over file and environment. */
static int apply_log(const struct arguments *arguments, struct config *config,
                     struct error *err)
{
    if (arguments->log_level &&
        !log_level_from_name(arguments->log_level, &config->log_level))
        return error_set(err, ERROR_CONFIGURATION,
                         "--log-level: debug, info, warn or error");
    if (arguments->log_format) {
        config->log_format = LOG_FORMAT_LOGFMT;
        if (strcmp(arguments->log_format, "json") == 0)
            config->log_format = LOG_FORMAT_JSON;
        else if (strcmp(arguments->log_format, "logfmt") != 0)
            return error_set(err, ERROR_CONFIGURATION, "--log-format: logfmt or json");
    }
    log_set_level(config->log_level);
    log_set_format(config->log_format);
    return 0;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct config config;
    struct worker worker;
    struct error err = {0};
    int status = EXIT_SUCCESS;
    if (!parse_arguments(argc, argv, &arguments, &status))
        return status;
    arena_scoped struct arena *arena = arena_new((size_t)4 * CONFIG_MAX_BYTES);
    if (!arena || config_load(arguments.config_path, arena, &config, &err) != 0 ||
        apply_log(&arguments, &config, &err) != 0) {
        (void)fprintf(stderr, "attachd: %s\n", err.message);
        return EXIT_USAGE;
    }
    if (arguments.check_config) {
        print_config(&config);
        return EXIT_SUCCESS;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    /* A worker's memory breathes with its jobs: giving it back and taking it again costs.
     */
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    (void)mallopt(M_TOP_PAD, PAD_BYTES);
#ifdef ATTACHD_TEST_HOOKS
    kill_hook_begin();
#endif
    if (worker_run(&worker, &config, &err) == 0)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "attachd: %s\n", err.message);
    return EXIT_FAILURE;
}
