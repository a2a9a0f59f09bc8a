#!/bin/sh
# shellcheck disable=SC2034,SC2154
# Looks at one execution and prints what it sees. What that means is judged by the caller
# (execution/status.c), who also reads this answer (execution/look.c). The functions it
# begins with are those of look.sh.
#
# Arguments: NONCE REMOTE_DIR EXECUTION_ID ENCODING STDOUT_OFFSET STDOUT_MAX STDERR_OFFSET
# STDERR_MAX. REMOTE_DIR empty: the default below the home. ENCODING: raw or base64. An
# offset that is empty: that output is not wanted.
#
# Output bytes follow a line that says how many there are. Unless output is wanted, this
# runs no program and forks nothing.

nonce=$1 remote_dir=$2 execution_id=$3 encoding=$4
stdout_offset=$5 stdout_max=$6 stderr_offset=$7 stderr_max=$8

# output NAME OFFSET MAX. The size is read before the bytes and bounds them, so that a file
# that grows meanwhile gives one consistent piece.
output() {
    kind_of "$directory/$1"
    size=0 length=0
    case $kind in
    missing) ;;
    file)
        size=$(wc -c <"$directory/$1")
        size=${size##*[[:space:]]}
        ;;
    *) size=$kind ;;
    esac
    case $size in
    '' | *[!0-9]*)
        printf 'output-%s %s\n' "$kind" "$1"
        return
        ;;
    esac
    if [ "$2" -lt "$size" ]; then
        length=$((size - $2))
        [ "$length" -le "$3" ] || length=$3
    fi
    printf 'output %s %s %s\n' "$1" "$size" "$length"
    if [ "$length" -gt 0 ]; then
        if [ "$encoding" = base64 ]; then
            tail -c "+$(($2 + 1))" <"$directory/$1" | head -c "$length" | base64
        else
            tail -c "+$(($2 + 1))" <"$directory/$1" | head -c "$length"
        fi
    fi
    printf '\noutput-end\n'
}

begin_answer
if [ -z "$remote_dir" ]; then
    find_remote_dir
    printf 'home %s\n' "$home"
    [ -n "$remote_dir" ] || finish
fi
look_at_execution || finish

if [ -n "$stdout_offset$stderr_offset" ]; then
    need wc
    need tail
    need head
    [ "$encoding" = raw ] || need base64
fi
[ -z "$stdout_offset" ] || output stdout "$stdout_offset" "$stdout_max"
[ -z "$stderr_offset" ] || output stderr "$stderr_offset" "$stderr_max"
finish
