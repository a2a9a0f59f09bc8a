/* Decoding headers: every field is checked, nothing is guessed. */
#include "execution/tar_header.h"

#include <string.h>

/* Offsets and sizes of POSIX's fields. */
enum {
    NAME_AT = 0,
    NAME_BYTES = 100,
    MODE_AT = 100,
    MODE_BYTES = 8,
    SIZE_AT = 124,
    SIZE_BYTES = 12,
    SUM_AT = 148,
    SUM_BYTES = 8,
    KIND_AT = 156,
    LINK_AT = 157,
    LINK_BYTES = 100,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_BYTES = 155
};

bool tar_block_is_zero(const unsigned char block[TAR_BLOCK_BYTES])
{
    return block[0] == 0 && memcmp(block, block + 1, TAR_BLOCK_BYTES - 1) == 0;
}

/* Octal digits between blanks or NULs; nothing at all is zero. */
static bool read_octal(const unsigned char *field, size_t size, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t i = 0;
    while (i < size && field[i] == ' ')
        i++;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
        number = number * 8 + (uint64_t)(field[i] - '0'); /* 12 digits: 36 bits */
    for (; i < size; i++) {
        if (field[i] != ' ' && field[i] != '\0')
            return false;
    }
    *ret_number = number;
    return true;
}

/* Octal, or GNU's binary form: the first byte 0x80, then a big-endian number. */
static bool read_number(const unsigned char *field, size_t size, uint64_t *ret_number)
{
    if (field[0] != 0x80)
        return read_octal(field, size, ret_number);
    uint64_t number = 0;
    for (size_t i = 1; i < size; i++) {
        if (number >> 55)
            return false;
        number = number << 8 | field[i];
    }
    *ret_number = number;
    return true;
}

/* The sum over all bytes, its own field counted as blanks. Old tars summed signed bytes,
 * and every tar accepts that. */
static bool sum_is_right(const unsigned char *block)
{
    uint64_t wanted = 0;
    int64_t plain = 0;
    int64_t with_sign = 0;
    if (!read_octal(block + SUM_AT, SUM_BYTES, &wanted))
        return false;
    for (int i = 0; i < TAR_BLOCK_BYTES; i++) {
        bool is_sum = i >= SUM_AT && i < SUM_AT + SUM_BYTES;
        plain += is_sum ? ' ' : block[i];
        with_sign += is_sum ? ' ' : (signed char)block[i];
    }
    return (int64_t)wanted == plain || (int64_t)wanted == with_sign;
}

static const struct {
    char type;
    enum tar_kind kind;
} kinds[] = {
    {'0', TAR_FILE},      {'\0', TAR_FILE},     {'7', TAR_FILE}, {'1', TAR_HARDLINK},
    {'2', TAR_SYMLINK},   {'5', TAR_DIRECTORY}, {'x', TAR_PAX},  {'g', TAR_PAX_GLOBAL},
    {'L', TAR_LONG_NAME}, {'K', TAR_LONG_LINK},
};

static const char *read_kind(char type, enum tar_kind *ret_kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].type == type) {
            *ret_kind = kinds[i].kind;
            return NULL;
        }
    }
    switch (type) {
    case '3':
    case '4':
        return "is a device";
    case '6':
        return "is a FIFO";
    case 'S':
        return "is stored as a sparse file; pack without --sparse";
    default:
        return "is of a kind that not every tar knows";
    }
}

static void copy_text(char *text, const unsigned char *field, size_t size)
{
    size_t bytes = strnlen((const char *)field, size);
    memcpy(text, field, bytes);
    text[bytes] = '\0';
}

/* Only POSIX has the prefix. GNU keeps times there for incremental archives, and then not
 * every tar takes them for what they are. */
static const char *read_name(const unsigned char *block, struct tar_header *header)
{
    bool is_posix = memcmp(block + MAGIC_AT, "ustar", 6) == 0;
    size_t used = 0;
    if (is_posix && block[PREFIX_AT] != '\0') {
        copy_text(header->name, block + PREFIX_AT, PREFIX_BYTES);
        used = strlen(header->name);
        header->name[used++] = '/';
    }
    copy_text(header->name + used, block + NAME_AT, NAME_BYTES);
    copy_text(header->link, block + LINK_AT, LINK_BYTES);
    if (!is_posix && block[PREFIX_AT] != '\0')
        return "has a header that not every tar reads alike";
    return NULL;
}

const char *tar_header_read(const unsigned char block[TAR_BLOCK_BYTES],
                            struct tar_header *ret_header)
{
    struct tar_header header = {0};
    uint64_t mode = 0;
    if (!sum_is_right(block))
        return "has a damaged header";
    const char *wrong = read_name(block, &header);
    if (!wrong && (!read_number(block + SIZE_AT, SIZE_BYTES, &header.bytes) ||
                   !read_number(block + MODE_AT, MODE_BYTES, &mode)))
        wrong = "has a damaged header";
    if (!wrong)
        wrong = read_kind((char)block[KIND_AT], &header.kind);
    header.mode = (unsigned)(mode & 07777);
    *ret_header = header; /* also where it is wrong: its name is told */
    return wrong;
}

/* ---- pax ---- */

/* One record's length and the blank after it; 0: not what POSIX says. */
static size_t read_length(const char *records, size_t bytes, size_t *ret_skip)
{
    size_t length = 0;
    size_t i = 0;
    for (; i < bytes && i < 9 && records[i] >= '0' && records[i] <= '9'; i++)
        length = length * 10 + (size_t)(records[i] - '0');
    if (i == 0 || i >= bytes || records[i] != ' ' || length > bytes || length < i + 4 ||
        records[length - 1] != '\n')
        return 0;
    *ret_skip = i + 1;
    return length;
}

static bool read_decimal(const char *text, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits] != '\0')
        return false;
    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (uint64_t)(text[i] - '0');
    *ret_number = number;
    return true;
}

/* name and value are NUL-terminated; other names are times, owners and attributes. */
static const char *take_record(const char *name, const char *value, size_t value_bytes,
                               struct tar_pax *pax)
{
    if (strncmp(name, "GNU.sparse.", 11) == 0)
        return "is stored as a sparse file; pack without --sparse";
    bool is_path = strcmp(name, "path") == 0;
    bool is_link = strcmp(name, "linkpath") == 0;
    bool is_size = strcmp(name, "size") == 0;
    if (!is_path && !is_link && !is_size)
        return NULL;
    if (strlen(value) != value_bytes)
        return "has a name with a NUL byte";
    if (value_bytes == 0)
        return "has no name";
    if (is_path)
        pax->path = value;
    if (is_link)
        pax->link = value;
    if (is_size) {
        pax->has_bytes = true;
        if (!read_decimal(value, &pax->bytes))
            return "has a damaged pax header";
    }
    return NULL;
}

const char *tar_pax_read(char *records, size_t bytes, struct tar_pax *ret_pax)
{
    struct tar_pax pax = {0};
    while (bytes > 0) {
        size_t skip = 0;
        size_t length = read_length(records, bytes, &skip);
        char *equals = length ? memchr(records + skip, '=', length - skip) : NULL;
        if (!equals || memchr(records + skip, '\0', (size_t)(equals - records) - skip))
            return "has a damaged pax header";
        *equals = '\0';
        records[length - 1] = '\0';
        size_t value_bytes = length - 1 - (size_t)(equals + 1 - records);
        const char *wrong = take_record(records + skip, equals + 1, value_bytes, &pax);
        if (wrong)
            return wrong;
        records += length;
        bytes -= length;
    }
    *ret_pax = pax;
    return NULL;
}
