/* Where Redis is: one URL of the configuration, taken apart and checked.
 *
 *   redis://[user[:password]@]host[:port][/db]
 *   unix://[[user]:password@]/path/to/socket[?db=N]
 */
#pragma once

#include <stdbool.h>

#include "runtime/attributes.h"
#include "runtime/error.h"

struct address {
    bool is_unix;
    char host[256]; /* a name or a numeric address, IPv6 without brackets */
    int port;
    char path[108]; /* of the socket; sun_path's size */
    char user[128]; /* empty: none */
    char password[512];
    int db;
};

/* Parses a URL. ERROR_CONFIGURATION on failure; the message never holds the password. */
NODISCARD int address_parse(const char *url, struct address *ret_address,
                            struct error *err);

/* The address for people, without user and password: host:port or
 * unix:path, and the database. */
void address_describe(const struct address *address, char *text, unsigned size);
