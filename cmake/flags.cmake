# Every compiler flag of the project lives on this one target.
add_library(attachd_flags INTERFACE)

target_compile_features(attachd_flags INTERFACE c_std_17)
target_compile_definitions(attachd_flags INTERFACE _GNU_SOURCE)
target_include_directories(attachd_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(attachd_flags INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2
    -Wswitch-enum -Wcast-qual -Wundef
    -fno-omit-frame-pointer
    # A frame larger than a guard page would jump over it: tasks have small stacks.
    -fstack-clash-protection -fstack-protector-strong)

if(ATTACHD_WERROR)
    target_compile_options(attachd_flags INTERFACE -Werror)
endif()

if(ATTACHD_SANITIZE)
    target_compile_options(attachd_flags INTERFACE
        -fsanitize=${ATTACHD_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(attachd_flags INTERFACE -fsanitize=${ATTACHD_SANITIZE})
else()
    # Sanitizers put red zones into every frame, so the limit holds for plain builds; and for
    # what may run on a task's stack, not for programs with the property ATTACHD_LARGE_FRAMES.
    target_compile_options(attachd_flags INTERFACE
        $<$<NOT:$<BOOL:$<TARGET_PROPERTY:ATTACHD_LARGE_FRAMES>>>:-Wframe-larger-than=4096>)
    target_compile_options(attachd_flags INTERFACE
        $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
endif()

if(ATTACHD_COVERAGE)
    target_compile_options(attachd_flags INTERFACE --coverage)
    target_link_options(attachd_flags INTERFACE --coverage)
endif()

if(ATTACHD_FUZZ)
    target_compile_options(attachd_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(ATTACHD_TEST_HOOKS)
    target_compile_definitions(attachd_flags INTERFACE ATTACHD_TEST_HOOKS=1)
endif()

if(ATTACHD_SWITCH STREQUAL "ucontext")
    target_compile_definitions(attachd_flags INTERFACE ATTACHD_SWITCH_UCONTEXT=1)
endif()

# gcc spells extensions gnu17; the shipped build keeps assertions (they state what must be true).
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
