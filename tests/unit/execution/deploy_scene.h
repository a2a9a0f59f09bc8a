/* Deploys into a place, by its own shell: what the provider local does, but for the shell
 * and the programs, which are those of a folder of links, so that any of them can be
 * missing or stand for something else. In busybox' place all of them are busybox. */
#pragma once

#include "place.h"

#include "execution/deploy.h"
#include "providers/profile.h"
#include "runtime/span.h"

enum deploy_call { DEPLOY_COMMAND, DEPLOY_FILE };

struct deploy_scene;

struct deploy_sandbox {
    struct sandbox sandbox; /* first, as in every provider */
    struct deploy_scene *scene;
};

struct deploy_scene {
    /* What is asked for. */
    struct place *place;
    struct deploy_request request;
    struct span words[4]; /* of request.args */
    struct deploy_variable variable;
    struct span archive; /* empty: there is no artifact */
    const char *install_hash;

    /* What the sandbox is like. */
    bool takes_files; /* else uploads go by commands */
    bool hides_proc;
    bool is_nobody;          /* its commands do not run as root */
    size_t max_script_bytes; /* 0: as many as local */
    uint64_t max_file_bytes;
    /* Comes before each call: in a task, where no assertion may stand. */
    void (*before)(struct deploy_scene *scene, enum deploy_call call);
    void *arg;

    /* What came of it. */
    int returned;
    struct error err;
    struct attach_result result;
    int commands;
    int files;
    int calls; /* as the handle counts them: both */
    size_t longest_script;
    uint64_t took_ms;

    /* Its own. */
    char bin[128];
    char path[160];
    const char *environment[3];
    struct profile_setting setting;
    struct profile profile;
    struct provider provider;
    struct deploy_sandbox handle;
    struct sandbox *local;
};

/* A sandbox that takes files, and a request for the execution a1 of the job job-1: no
 * artifact, no input, and a program that says "out" and "err" and then sleeps. */
void deploy_scene_init(struct deploy_scene *scene, struct place *place);
/* The program is `sh -c command`. */
void deploy_scene_program(struct deploy_scene *scene, const char *command);
/* An artifact of run.sh, package.json and noise of so many bytes, which does not pack. */
void deploy_scene_pack(struct deploy_scene *scene, size_t noise_bytes);
void deploy_scene_input(struct deploy_scene *scene, const char *data);
void deploy_scene_install(struct deploy_scene *scene, const char *hash,
                          const char *command);
/* The execution `from` again, as `as`. */
void deploy_scene_again(struct deploy_scene *scene, const char *from, const char *as);

/* What is in the folder besides sh, NULL-ended. */
extern const char *const deploy_scene_tools[];
void deploy_scene_restore_tool(struct deploy_scene *scene, const char *tool);
void deploy_scene_forget_tool(struct deploy_scene *scene, const char *tool);
/* The tool does this first, in sh with the real tools. */
void deploy_scene_before_tool(struct deploy_scene *scene, const char *tool,
                              const char *command);

/* Before all tests of a program, for cmocka. */
int deploy_scene_setup(void **state);
/* A task: deploys, and fills what came of it. */
void deploy_scene_play(void *scene);
/* Runs a task to its end; its loop is empty then and no descriptor is left. */
void deploy_scene_task(void (*fn)(void *arg), void *arg);
void deploy_scene_run(struct deploy_scene *scene);

/* Looks at an execution with both outputs, and ends one. Each leaves in scene->calls how
 * many calls that took, and fails the test where it fails. */
void deploy_scene_look(struct deploy_scene *scene, const char *execution_id,
                       struct attach_result *ret_result);
void deploy_scene_cancel(struct deploy_scene *scene, const char *execution_id,
                         struct status *ret_status);

/* Waits until no process names the place, and reaps. */
void deploy_scene_end(struct deploy_scene *scene);

/* Fail the test where it is otherwise. */
#define expect_running(scene) expect_running_at(__LINE__, scene)
void expect_running_at(int line, struct deploy_scene *scene);
#define expect_refused(scene, code, text) expect_refused_at(__LINE__, scene, code, text)
void expect_refused_at(int line, struct deploy_scene *scene, enum error_code code,
                       const char *text);
/* No lock, no part of an upload, no file that a step was about to write, and no record
 * that is not a whole line. */
#define expect_clean(scene) expect_clean_at(__LINE__, scene)
void expect_clean_at(int line, struct deploy_scene *scene);
