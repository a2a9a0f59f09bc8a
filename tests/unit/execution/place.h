/* Where the programs that run in sandboxes are tried: a folder for each shell, with an
 * execution laid out in it, real processes, and the looking at it. Blocking, outside tasks.
 * Whatever fails fails the test. */
#pragma once

#include "support.h"

#include <stdbool.h>
#include <sys/types.h>

#include "execution/look.h"
#include "execution/status.h"
#include "runtime/buffer.h"

enum { PLACE_SCRIPT_MAX = 128 * 1024, PLACE_ANSWER_MAX = 8 * 1024 * 1024 };

struct shell {
    const char *name;
    const char *argv[3]; /* before -c */
};

/* One sandbox: a folder of its own, and how to look into it. */
struct place {
    const struct shell *shell;
    struct arena *arena;
    char root[64];
    char remote_dir[96];
    char directory[160]; /* the execution's */
    const char *environment[3];
    char path[192]; /* of the environment, where it is not the usual one */
    struct look_request request;
    const char *change; /* shell that happens in the middle of the look; NULL: nothing */
    bool is_confined;   /* may neither fork nor run a program but the shell */
    int signal;         /* that ended the shell, 0: none */
    struct look look;
    struct error err;
    struct status status;
};

void place_init(struct place *place, const struct shell *shell);
void place_done(struct place *place);

/* The scenario in a place of each shell; checks that no child and no descriptor is left. */
void in_each_shell(void (*scenario)(struct place *place));

/* Files of the execution a1. */
void make_directory(struct place *place);
void path_of(struct place *place, const char *name, char path[256]);
void put_bytes(struct place *place, const char *name, const void *data, size_t size);
void put(struct place *place, const char *name, const char *text);
void put_number(struct place *place, const char *name, long long value);
void put_token(struct place *place, long long value);

/* What the place's shell prints for the script, up to the end of its standard output. */
void run_script(struct place *place, const char *script, struct buffer *answer);

/* Runs it with a standard output that nobody reads. */
void run_unheard(struct place *place, const char *script);

/* Reads and judges what a program printed. The result is look_parse's. */
int read_answer(struct place *place, const struct buffer *answer);

/* Runs the attach program, reads and judges. */
int look(struct place *place);

/* Fails the test where state or reason are others than wanted. */
void expect_status(int line, struct place *place, enum status_state wanted,
                   const char *wanted_reason);

/* Looks, and does the same. */
#define expect(place, wanted, reason) expect_at(__LINE__, place, wanted, reason)
void expect_at(int line, struct place *place, enum status_state wanted,
               const char *wanted_reason);

/* A child of that name that waits for its end; has its name when this returns. */
pid_t start_sleeper(const char *name);
/* KILL, and reaps it. */
void end_process(pid_t pid);
/* A pid that names nothing: its process has just been reaped. */
pid_t dead_pid(void);
/* A process that has ended and that nobody has reaped yet. */
pid_t start_zombie(void);
void read_stat(pid_t pid, char *text, size_t size);
/* Field 22 of its stat, the true one. */
long long start_time(pid_t pid);
pid_t parent_of(pid_t pid);

/* tests/fixtures/start-execution: a1, whose workload is `sh -c command`. */
void start_execution(struct place *place, const char *command);
/* The pid file's. */
pid_t read_pid(struct place *place);
/* Reaps whatever was left to this process, until nothing is. */
void reap_all(void);

/* For cmocka: orphans become this process' children; after a test that failed half-way, its
 * children end, and what they leave behind. */
int adopt_orphans(void **state);
int end_children(void **state);
