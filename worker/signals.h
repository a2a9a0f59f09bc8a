/* The signals a worker listens to: TERM and INT drain (the second one ends at once), USR1
 * lists the tasks. */
#pragma once

#include "runtime/attributes.h"
#include "runtime/error.h"

struct worker;

NODISCARD int signals_begin(struct worker *worker, struct error *err);
void signals_end(struct worker *worker);
