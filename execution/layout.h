/* The contract inside the sandbox, shared with Mastra's deployer: paths, names, and the
 * rules for what a producer may ask for. docs/compatibility.md has the differences. */
#pragma once

#include <stdbool.h>

#include "runtime/arena.h"
#include "runtime/error.h"

#define LAYOUT_DEFAULT_DIRECTORY    "mastra-app" /* below $HOME, or the working directory */
#define LAYOUT_EXECUTIONS_DIRECTORY ".mastra/executions"

enum { LAYOUT_EXECUTION_ID_MAX = 128, LAYOUT_REMOTE_DIR_MAX = 4096 };

/* ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$ */
bool layout_is_execution_id(const char *text);

/* 0, or invalid_argument on field execution_id with the message callers match on. NULL is
 * refused like an empty one. */
int layout_check_execution_id(const char *text, struct error *err);

/* NULL is fine (the default). Else an absolute path of at most 4096 bytes without a `..`
 * segment; 0 or invalid_argument on field remote_dir. */
int layout_check_remote_dir(const char *path, struct error *err);

/* 0 where value is finite and above zero. Else invalid_argument on `field` (ours), with the
 * message callers match on: "NAME must be greater than zero.", NAME being the original's
 * name (terminationGraceMs, ...). */
int layout_check_above_zero(const char *field, const char *name, double value,
                            struct error *err);

/* The directory below a home as a sandbox printed it: blanks around it and slashes at its
 * end removed, /mastra-app appended. invalid_argument on field remote_dir where nothing is
 * left or it is not absolute. remote/look.sh does the same for itself, so as to need one
 * command only. */
int layout_remote_dir(const char *home, struct arena *arena, const char **ret_dir,
                      struct error *err);
