/* For local.c and the files beside it: the handle of a directory. */
#pragma once

#include "providers/provider.h"

/* In the directory of a sandbox that was stopped; empty. */
#define LOCAL_STOPPED_MARK ".attachd-stopped"

struct local {
    struct sandbox sandbox;
    const char *root;
    const char *id;
    const char *const *env; /* NULL-ended; the first is mark */
    const char *mark;       /* ATTACHD_SANDBOX=ROOT/ID: in every command's environment, by
                               which what it left running is found */
};

void local_close_fd(const int *fd);
#define fd_scoped __attribute__((cleanup(local_close_fd)))

/* A descriptor (O_PATH) of the sandbox's directory, or -1. */
int local_open_directory(const struct local *local, struct error *err);

/* Whether the sandbox was stopped. */
bool local_is_stopped(int directory_fd);

/* The processes that bear the mark. TERM and a grace: 0 with how many are left after it. */
SUSPENDS int local_ask_to_end(const struct local *local, int *ret_left, struct error *err);

/* KILL: 0 once none is left. */
SUSPENDS int local_kill(const struct local *local, struct error *err);

/* The one, then, where any is left, the other. */
SUSPENDS int local_end_processes(const struct local *local, struct error *err);

/* Gives the directory a name that no sandbox can have. 0 or errno. */
int local_rename_to_gone(const struct local *local);

/* Removes all of this sandbox that has such a name. Errors: provider_unavailable, which
 * names what cannot be removed; those of the task. */
SUSPENDS int local_remove_gone(const struct local *local, struct error *err);

/* The members of the provider that local_lifecycle.c has. */
SUSPENDS int local_wake(struct sandbox *sandbox, struct error *err);
SUSPENDS int local_stop(struct sandbox *sandbox, struct error *err);
SUSPENDS int local_destroy(struct sandbox *sandbox, struct error *err);
