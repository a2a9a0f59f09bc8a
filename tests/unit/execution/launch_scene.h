/* Launches of the execution a1 of a place, by real shells: `sh` is the place's shell, and
 * the programs are those of a folder of links, so that any of them can be missing. */
#pragma once

#include "place.h"

#include "execution/launch.h"

enum { SCENE_STARTUP_MS = 60 * 1000, SCENE_GRACE_MS = 300 };

struct scene {
    struct place *place;
    struct launch_request request;
    const char *words[8]; /* of request.args */
    char bin[128];
    bool hides_proc;
    bool grants_grace; /* the request's own grace stands */
    char standard_error[2048];
};

/* A directory for a1, and all programs that launch.sh needs. The workload is `sh -c
 * command`. */
void scene_init(struct scene *scene, struct place *place, const char *command);
/* The program itself, with up to 7 arguments. */
void scene_program(struct scene *scene, const char *const *words);
void scene_forget_tool(struct scene *scene, const char *tool);
/* Writes launch.sh of the execution. */
void scene_write(struct scene *scene);
/* `sh DIR/launch.sh start MS`, its exit code, -1 where a signal ended it. */
int scene_start(struct scene *scene, int startup_ms);
/* The same, not waited for. */
pid_t scene_spawn(struct scene *scene, int startup_ms);
/* Writes, starts, waits for everything that was started. */
int scene_run(struct scene *scene);

bool has_file(struct place *place, const char *name);
/* The whole file, in the place's arena; fails the test where it is not there. */
const char *text_of_file(struct place *place, const char *name);
/* Fails the test where the file says something else. */
#define expect_file(place, name, wanted) expect_file_at(__LINE__, place, name, wanted)
void expect_file_at(int line, struct place *place, const char *name, const char *wanted);
/* Waits until the file says that, for a minute. */
void await_file(struct place *place, const char *name, const char *wanted);
/* Processes whose command line holds the text. */
int count_processes(const char *text);
