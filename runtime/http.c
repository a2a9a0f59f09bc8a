/* HTTP over libcurl's multi interface. */
#include "runtime/http.h"

void http_pool_free(struct http_pool *pool)
{
    (void)pool;
}
