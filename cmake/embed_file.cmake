# Writes OUTPUT, a C file that holds SOURCE's bytes under the name SYMBOL. See embed.cmake.
file(READ ${SOURCE} hex HEX)
file(SHA1 ${SOURCE} sha1)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <stddef.h>

extern const char ${SYMBOL}[];
extern const size_t ${SYMBOL}_size;
extern const char ${SYMBOL}_sha1[];

const char ${SYMBOL}[] = {
${bytes}0};
const size_t ${SYMBOL}_size = sizeof(${SYMBOL}) - 1;
const char ${SYMBOL}_sha1[] = \"${sha1}\";
")
