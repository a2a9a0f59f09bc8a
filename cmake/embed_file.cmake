# Writes OUTPUT, a C file that holds the program of SOURCE (files, "|" between them) under the
# name SYMBOL. See embed.cmake.
# Lines that are nothing but a comment stay here: a script travels with every command, and the
# shell that gets it would read them each time.
string(REPLACE "|" ";" sources "${SOURCE}")
set(text "")
foreach(source ${sources})
    file(READ ${source} part)
    string(APPEND text "${part}")
endforeach()
if(SOURCE MATCHES "\\.lua$")
    string(REGEX REPLACE "\n[ \t]*--[^\n]*" "" text "${text}")
else()
    # Nor is indentation needed; so no here-documents in these.
    string(REGEX REPLACE "\n[ \t]*#[^\n]*" "" text "\n${text}")
    string(REGEX REPLACE "\n[ \t]+" "\n" text "${text}")
endif()
string(REGEX REPLACE "\n\n+" "\n" text "${text}")
string(REGEX REPLACE "^\n" "" text "${text}")
file(WRITE ${OUTPUT}.text "${text}")
file(READ ${OUTPUT}.text hex HEX)
file(SHA1 ${OUTPUT}.text sha1)
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
