/* Whole files, as the command line names them. */
#pragma once

#include "runtime/attributes.h"
#include "runtime/buffer.h"
#include "runtime/error.h"

/* Appends all of the file, or for "-" of standard input. Negative with configuration, and
 * -EMSGSIZE where the buffer cannot hold it; or with internal. */
NODISCARD int file_read(const char *path, struct buffer *out, struct error *err);
