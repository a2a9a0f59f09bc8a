# The libraries of docs/architecture.md, found by pkg-config.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.88)
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis>=1.2)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive>=3.6)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(INIH REQUIRED IMPORTED_TARGET inih)

# Debian 12 calls it msgpack, Debian 13 msgpack-c.
pkg_search_module(MSGPACK REQUIRED IMPORTED_TARGET msgpack-c msgpack)
# Debian 13's file names its directories relative to nothing ("include"): the headers are where
# the compiler looks anyway, and CMake refuses a path that does not exist.
set(MSGPACK_DIRECTORIES ${MSGPACK_INCLUDE_DIRS})
list(FILTER MSGPACK_DIRECTORIES INCLUDE REGEX "^/")
set_target_properties(PkgConfig::MSGPACK PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${MSGPACK_DIRECTORIES}")

if(ATTACHD_SWITCH STREQUAL "boost")
    # Only the two C entry points are used; the static archive needs no C++ runtime.
    find_library(BOOST_CONTEXT libboost_context.a REQUIRED)
endif()
