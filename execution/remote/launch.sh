#!/bin/sh
# shellcheck disable=SC2154,SC3045,SC3028
# Runs one execution: the part of its launch.sh that is the same for all. Before it stand
# the settings (execution/launch.c): $working_directory, $cpu_seconds, $address_bytes,
# $file_bytes, $open_files, $timeout_ms, $grace_ms (empty: none), and the function workload,
# which becomes the program.
#
# Modes: `start MS` starts the launcher, detached, and waits until the program runs or MS are
# over: exit code 0 where it ran, 1 where it cannot (why is on standard error), 75 where it
# took too long and was ended. Without arguments it is the launcher. `workload` becomes the
# program. Nothing here names the execution or its directory: a copy in another execution's
# directory launches the same there.
#
# The record grammar, names and modes are those of docs/compatibility.md. Each file is made
# beside its place and moved there, so that a full disk leaves no half of one.

LC_ALL=C
umask 022
directory=${0%/*}
execution_id=${directory##*/}
root=${directory%/.mastra/executions/*}
nl='
'
# Not every sandbox has it.
null=/dev/null
[ -c "$null" ] || null=''

# duration_of MS sets $duration: exact where sleep knows fractions, else in whole seconds,
# rounded up.
if sleep 0.01 2>&-; then
    duration_of() {
        fraction=000$(($1 % 1000))
        duration=$(($1 / 1000)).${fraction#"${fraction%???}"}
    }
else
    duration_of() {
        duration=$((($1 + 999) / 1000))
    }
fi

pause() {
    duration_of "$1"
    sleep "$duration"
}

# after MS SIGNAL PID: sends it then. A session of its own, so that cancel_timer can end it with
# its sleep; by KILL, since a shell that has just been forked can lose any other signal.
after() {
    duration_of "$1"
    # shellcheck disable=SC2016
    setsid sh -c 'sleep "$1" && kill "$2" "$3"' sh "$duration" "$2" "$3" &
    timer=$!
}

cancel_timer() {
    kill -KILL "-$1" || kill -KILL "$1"
}

# uptime_ms sets $now, empty where the kernel does not tell.
uptime_ms() {
    now=''
    [ -r /proc/uptime ] || return
    IFS=' ' read -r now rest </proc/uptime
    now=${now%.*}${now#*.}0
}

# process_of PID sets $state, $start and $blank: what awk would call its 22nd field, which
# names with blanks shift. Empty where there is no such process to be seen.
process_of() {
    state='' start='' stat='' line=''
    blank=''
    [ -r "/proc/$1/stat" ] || return
    while IFS= read -r line || [ -n "$line" ]; do
        [ -n "$stat" ] || blank=$line
        stat=$stat$line$nl
        line=
    done <"/proc/$1/stat"
    set -f
    # shellcheck disable=SC2086
    set -- $blank
    blank=${22-}
    # shellcheck disable=SC2086
    set -- ${stat##*)}
    set +f
    state=${1-} start=${20-}
}

# put NAME TEXT: a file of the execution, whole or not at all.
put() {
    printf '%s' "$2" >"$directory/$1.attachd" && mv -f "$directory/$1.attachd" "$directory/$1" &&
        return 0
    rm -f "$directory/$1.attachd"
    return 1
}

read_status() {
    status=''
    [ -f "$directory/status" ] && IFS= read -r status <"$directory/status"
}

# fail TEXT: the launch came to nothing.
fail() {
    text=$(printf '%.500s' "$1" | tr '|\r\n' '   ')
    put status "failed|$execution_id|launch|$text$nl"
    rm -f "$directory/attachd.launcher"
    printf '%s\n' "$1" >&2
    exit 1
}

# launcher_is_live: by the identity that it left.
launcher_is_live() {
    owner='' owner_start='' owner_boot=''
    [ -f "$directory/attachd.launcher" ] || return 1
    read -r owner owner_start owner_boot <"$directory/attachd.launcher"
    read_boot
    case $owner in '' | *[!0-9]*) return 1 ;; esac
    [ "$owner_boot" = "$boot" ] || return 1
    if [ "$owner_start" = - ]; then
        kill -0 "$owner" 2>&-
        return
    fi
    process_of "$owner"
    case $state in '' | Z | X | x) return 1 ;; esac
    [ "$start" = "$owner_start" ]
}

read_boot() {
    boot=-
    [ -r /proc/sys/kernel/random/boot_id ] &&
        IFS= read -r boot </proc/sys/kernel/random/boot_id
}

# ---- start ----

# end_late: what did not start in time does not start later.
end_late() {
    if launcher_is_live; then
        kill -TERM "$owner"
        waited=0
        while launcher_is_live && [ "$waited" -lt $((grace_ms + 2000)) ]; do
            pause 100
            waited=$((waited + 100))
        done
        ! launcher_is_live || kill -KILL "$owner"
    fi
    read_status
    case $status in
    "starting|"* | "cancelled|"* | '') put status "timed_out|$execution_id|startup$nl" ;;
    esac
    rm -f "$directory/pid" "$directory/pid-start" "$directory/attachd.launcher"
    exit 75
}

wait_for_start() {
    uptime_ms
    began=$now waited=0
    while :; do
        read_status
        case $status in
        '' | "starting|"*) ;;
        "failed|"*)
            printf '%s\n' "${status#failed|*|launch|}" >&2
            exit 1
            ;;
        "timed_out|$execution_id|startup"*) exit 75 ;;
        *) exit 0 ;;
        esac
        uptime_ms
        [ -z "$now" ] || waited=$((now - began))
        [ "$waited" -lt "$1" ] || end_late
        pause 30
        [ -n "$now" ] || waited=$((waited + 30))
    done
}

start() {
    read_status
    case $status in
    '' | "failed|"* | "starting|"*) ;;
    *) wait_for_start "$1" ;;
    esac
    if ! launcher_is_live; then
        rm -f "$directory/attachd.launcher"
        text=$(cd "$root/$working_directory" 2>&1) ||
            fail "The working directory cannot be entered: $text"
        text=$(put status "starting|$execution_id$nl" 2>&1) ||
            fail "The status cannot be written: $text"
        setsid sh "$0" <"${null:-$0}" >>"${null:-$directory/stderr}" 2>&1 &
    fi
    wait_for_start "$1"
}

# ---- the launcher ----

# claim_launch: of two launchers one goes on, and none behind one that has ended.
claim_launch() {
    read_boot
    process_of "$$"
    (
        set -C
        printf '%s %s %s\n' "$$" "${start:--}" "$boot" >"$directory/attachd.launcher"
    ) || exit 0
    read_status
    case $status in
    "starting|"*) ;;
    *)
        rm -f "$directory/attachd.launcher"
        exit 0
        ;;
    esac
}

# end_child SIGNALS TERM now and KILL when the grace is over.
end_child() {
    process_of "$child"
    case $state in Z | X | x) return 1 ;; esac
    kill -TERM "-$child" || kill -TERM "$child"
    after "$grace_ms" -KILL "-$child"
    killer=$timer
}

on_term() {
    interrupted=yes
    if [ -z "$child" ]; then
        early=yes
        return
    fi
    [ -n "$ended_by" ] || ! end_child || ended_by=term
}

on_late() {
    interrupted=yes
    [ -n "$ended_by" ] || ! end_child || ended_by=timeout
}

# signal_name CODE sets $name: SIGTERM for 143, nothing for what is no signal.
signal_name() {
    name=''
    [ "$1" -gt 128 ] && [ "$1" -le 159 ] || return
    name=$(kill -l $(($1 - 128)) 2>&-)
    case $name in '' | *[!A-Z0-9]*) name='' ;; SIG*) ;; *) name=SIG$name ;; esac
}

# record_of CODE sets $record, the last status.
record_of() {
    signal_name "$1"
    record="exited|$execution_id|$1|$name"
    case $name in
    SIGXCPU)
        [ -z "$cpu_seconds" ] || record="resource_exhausted|$execution_id|cpu|$cpu_seconds|$name"
        ;;
    SIGXFSZ)
        [ -z "$file_bytes" ] ||
            record="resource_exhausted|$execution_id|file_size|$file_bytes|$name"
        ;;
    esac
    case $ended_by in
    term) record="cancelled|$execution_id|TERM" ;;
    timeout) record="timed_out|$execution_id|execution" ;;
    esac
    # Whoever cancels from outside says so himself.
    read_status
    case $status in "cancelled|"* | "timed_out|"*) record=$status ;; esac
}

# note_pid: the token is what awk will read once the program has taken the shell's place. Its
# name may hold blanks, and programs that compare tokens split there.
note_pid() {
    process_of "$child"
    put pid "$child" && put pid-start "${blank:+$blank$nl}" || return 1
    tries=0
    while [ "$tries" -lt 40 ] && [ -r "/proc/$child/cmdline" ]; do
        line=''
        IFS= read -r line <"/proc/$child/cmdline"
        case $line in *"$directory/launch.sh"*workload | '') ;; *) break ;; esac
        process_of "$child"
        case $state in '' | Z | X | x) break ;; esac
        tries=$((tries + 1))
        pause 10
    done
    token=$blank
    process_of "$child"
    case $state in '' | Z | X | x) return 0 ;; esac
    [ "$blank" = "$token" ] || put pid-start "$blank$nl"
    return 0
}

launch() {
    claim_launch
    ended_by='' killer='' watchdog='' child='' early=''
    if ! : >"$directory/stdout" || ! : >"$directory/stderr"; then
        fail 'The output files cannot be made.'
    fi
    input=$directory/stdin
    [ -f "$input" ] || input=${null:-$directory/stderr}
    cd "$root/$working_directory" || fail 'The working directory cannot be entered.'
    trap '' HUP
    trap on_term TERM INT
    trap on_late USR1
    setsid sh "$0" workload <"$input" >"$directory/stdout" 2>"$directory/stderr" &
    child=$!
    if ! note_pid || ! put status "running|$execution_id$nl"; then
        end_child
        wait "$child"
        rm -f "$directory/pid" "$directory/pid-start"
        fail 'The record of the execution cannot be written.'
    fi
    if [ -n "$timeout_ms" ]; then
        after "$timeout_ms" -USR1 "$$"
        watchdog=$timer
    fi
    [ -z "$early" ] || on_term
    while :; do
        interrupted=no
        wait "$child"
        code=$?
        [ "$interrupted" = yes ] || break
    done
    trap '' TERM INT USR1
    finish_launch
}

finish_launch() {
    [ -z "$watchdog" ] || cancel_timer "$watchdog"
    if [ -n "$killer" ]; then
        # What the program left in its group gets its grace too.
        waited=0
        while kill -0 "-$child" && [ "$waited" -lt $((grace_ms + 500)) ]; do
            pause 50
            waited=$((waited + 50))
        done
        cancel_timer "$killer"
    fi
    record_of "$code"
    tries=0
    # A full disk may be made room on: the exit code is not to be lost meanwhile.
    until put status "$record$nl"; do
        tries=$((tries + 1))
        [ "$tries" -lt 3600 ] || break
        pause 1000
        record_of "$code"
    done
    rm -f "$directory/pid" "$directory/pid-start" "$directory/attachd.launcher"
    exit "$code"
}

# ---- the program ----

# limit FLAG SOFT HARD
limit() {
    [ -n "$2" ] || return 0
    ulimit -S "-$1" "$2" && ulimit -H "-$1" "$3" && return
    exit 125
}

become() {
    trap - HUP TERM INT USR1 PIPE
    unit=512
    case ${BASH_VERSION:+${SHELLOPTS-}} in '' | *posix*) ;; *) unit=1024 ;; esac
    # The soft limit of time sends the signal that tells why; the hard one kills whoever
    # does not listen.
    limit t "$cpu_seconds" "$((${cpu_seconds:-0} + (grace_ms + 999) / 1000))"
    limit v "${address_bytes:+$((address_bytes / 1024))}" "$((${address_bytes:-0} / 1024))"
    limit f "${file_bytes:+$((file_bytes / unit))}" "$((${file_bytes:-0} / unit))"
    limit n "$open_files" "$open_files"
    workload
}

case ${1-} in
start) start "$2" ;;
workload) become ;;
*) launch ;;
esac
