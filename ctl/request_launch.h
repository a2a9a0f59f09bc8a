/* The keys of jobs that launch something, as options and what they carry say them. */
#pragma once

#include <stddef.h>

#include <msgpack.h>

#include "ctl/options.h"
#include "ctl/payload.h"

/* Packs them (pack.h); what the options leave out stays out. */
size_t request_launch_pack(msgpack_packer *packer, const struct options *options,
                           const struct payload *payload);
