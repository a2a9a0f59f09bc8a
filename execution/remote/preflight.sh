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

# can_limit FLAG SOFT HARD: in a shell of its own, as launch.sh does it.
can_limit() {
    (
        ulimit -S "-$1" "$2" && [ "$(ulimit -S "-$1")" = "$2" ] || exit
        ulimit -H "-$1" "$3" && [ "$(ulimit -H "-$1")" = "$3" ] && exit
        [ "$2" != "$3" ] && [ "$(ulimit -H "-$1")" -gt "$2" ]
    ) 2>&-
}

# can_tell NAME NUMBER: whether launch.sh knows that signal by its number: where the shell has
# no names, Linux' number does.
can_tell() {
    signal=1
    while [ "$signal" -lt 32 ]; do
        case $(kill -l "$signal" 2>&-) in "$1" | "SIG$1") return 0 ;; esac
        signal=$((signal + 1))
    done
    case $(kill -l "$2" 2>&-) in '' | [0-9]*) ;; *) return 1 ;; esac
}

preflight() {
    if [ "$(uname -s 2>&-)" != Linux ] || [ ! -r /proc/self/stat ]; then
        lacks linux_proc
        return
    fi
    # shellcheck disable=SC2016
    if ! hash setsid 2>&- || ! setsid sh -c 'kill -0 "-$$"' 2>&-; then
        lacks process_groups
        return
    fi
    unit=512
    case ${BASH_VERSION:+${SHELLOPTS-}} in '' | *posix*) ;; *) unit=1024 ;; esac
    if [ -n "$1" ] && ! can_limit t "$1" $(($1 + 1)); then
        lacks cpu_time
    elif [ -n "$2" ] && { [ "$2" -lt 1024 ] || ! can_limit v $(($2 / 1024)) $(($2 / 1024)); }; then
        lacks address_space
    elif [ -n "$3" ] && { [ "$3" -lt "$unit" ] || ! can_limit f $(($3 / unit)) $(($3 / unit)); }; then
        lacks file_size
    elif [ -n "$4" ] && ! can_limit n "$4" "$4"; then
        lacks open_files
    elif [ -n "$1" ] && ! can_tell XCPU 24; then
        lacks cpu_signal
    elif [ -n "$3" ] && ! can_tell XFSZ 25; then
        lacks file_size_signal
    fi
}
