#!/bin/sh
# shellcheck disable=SC3045,SC3028
# preflight CPU_SECONDS ADDRESS_BYTES FILE_BYTES OPEN_FILES: whether the sandbox can hold an
# execution to these limits; one that is empty is not wanted. Where it cannot, the name of
# what is missing is printed as the original does, and the function fails. What counts is
# that launch.sh can set them: that root could raise them again is no reason to refuse.

lacks() {
    printf 'MASTRA_WORKER_CAPABILITY:%s\n' "$1" >&2
    return 1
}

# can_limit FLAG VALUE: in a shell of its own, which then still runs a program.
can_limit() {
    (
        ulimit -S "-$1" "$2" && ulimit -H "-$1" "$2" && [ "$(ulimit -S "-$1")" = "$2" ] &&
            [ "$(ulimit -H "-$1")" = "$2" ]
    ) 2>&-
}

preflight() {
    if [ "$(uname -s 2>&-)" != Linux ] || [ ! -r /proc/self/stat ]; then
        lacks linux_proc
        return
    fi
    # shellcheck disable=SC2016
    if [ -z "$(command -v setsid)" ] || ! setsid sh -c 'kill -0 "-$$"' 2>&-; then
        lacks process_groups
        return
    fi
    unit=512
    case ${BASH_VERSION:+${SHELLOPTS-}} in '' | *posix*) ;; *) unit=1024 ;; esac
    if [ -n "$1" ] && ! can_limit t "$1"; then
        lacks cpu_time
    elif [ -n "$2" ] && { [ "$2" -lt 1024 ] || ! can_limit v $(($2 / 1024)); }; then
        lacks address_space
    elif [ -n "$3" ] && { [ "$3" -lt "$unit" ] || ! can_limit f $(($3 / unit)); }; then
        lacks file_size
    elif [ -n "$4" ] && ! can_limit n "$4"; then
        lacks open_files
    elif [ -n "$1" ] && [ "$(kill -l 24 2>&-)" != XCPU ] && [ "$(kill -l 24 2>&-)" != SIGXCPU ]; then
        lacks cpu_signal
    elif [ -n "$3" ] && [ "$(kill -l 25 2>&-)" != XFSZ ] && [ "$(kill -l 25 2>&-)" != SIGXFSZ ]; then
        lacks file_size_signal
    fi
}
