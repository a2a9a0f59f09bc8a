/* A gzip file unpacked piece by piece, every checksum and length in it compared, and
 * nothing allowed after its end. */
#pragma once

#include "runtime/attributes.h"

#include <stddef.h>

#include "providers/provider.h"
#include "runtime/error.h"

struct gunzip;

/* source is lent. NULL: out of memory. */
struct gunzip *gunzip_new(const struct file_source *source);
void gunzip_free(struct gunzip *gunzip);

/* 1 with a piece, which lives until the next call; 0 at the end. -1: invalid_argument on
 * field artifact (no gzip, cut, damaged, followed by something), internal, or deploy_failed
 * where the source cannot be read. */
NODISCARD int gunzip_next(struct gunzip *gunzip, const unsigned char **ret_data,
                          size_t *ret_bytes, struct error *err);
