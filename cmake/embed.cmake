# attachd_embed(TARGET FILE SYMBOL [FIRST ...]): compiles FILE, less its comment lines and behind
# the files FIRST that programs have in common, into TARGET as
#   const char SYMBOL[];  NUL-terminated        const size_t SYMBOL_size;  without the NUL
#   const char SYMBOL_sha1[];  lower-case hex   (what Redis calls the script)
# so that programs in other languages stay files of their language.
function(attachd_embed target file symbol)
    set(sources)
    foreach(part ${ARGN} ${file})
        list(APPEND sources ${CMAKE_CURRENT_SOURCE_DIR}/${part})
    endforeach()
    list(JOIN sources "|" source)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
    add_custom_command(
        OUTPUT ${output}
        COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DOUTPUT=${output} -DSYMBOL=${symbol}
                -P ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
        DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
        VERBATIM)
    target_sources(${target} PRIVATE ${output})
endfunction()
