/* local: directories on the worker's own host. */
#include "providers/provider.h"

extern const struct provider provider_local;
const struct provider provider_local = {
    .name = "local",
    .summary = "directories below a configured root on the worker's own host"};
