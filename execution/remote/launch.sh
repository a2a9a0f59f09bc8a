#!/bin/sh
# shellcheck disable=SC2154,SC3045,SC3028
# Runs one execution: the part of its launch.sh that is the same for all. Before it stand
# the settings (execution/launch.c): $working_directory, $cpu_seconds, $address_bytes,
# $file_bytes, $open_files, $timeout_ms, $grace_ms (empty: none), and the function workload,
# which becomes the program.
#
# Modes: `start MS` starts the launcher, detached, and waits until the program runs or MS are
# over: exit code 0 where it ran, 1 where it cannot (why is on standard error), 69 where the
# sandbox lacks something (its name is there), 75 where it took too long and was ended.
# Without arguments it is the launcher. `workload` becomes the program, `timer` sends a signal
# later. Nothing here names the execution or its directory: a copy in another execution's
# directory launches the same there.
#
# The record grammar, names and modes are those of docs/compatibility.md. Each file is made
# beside its place and moved there, so that a full disk leaves no half of one.
#
# Invariants:
# 1. Who starts the program holds a claim: the highest of attachd.launcher, .2, .3 and so on,
#    which names a live process. One that is taken over stays, its successor has the next
#    number. After making one, a launcher looks for a higher one; after finding one without a
#    name, at it once more: of two at once at least one gives way.
# 2. The program's shell writes the pid before it becomes the program, and does so only while
#    its parent holds the claim. So a launcher that was killed leaves no unknown program.
# 3. Only the launcher writes records, but for the first `starting` and what follows its end.

umask 022
directory=${0%/*}
execution_id=${directory##*/}
root=${directory%/.mastra/executions/*}
claims=$directory/attachd.launcher
nl='
'
# Not every sandbox has it.
null=/dev/null
[ -c "$null" ] || null=''

# Bytes are to be bytes here; the program is to have the locale that it would have had.
use_plain_locale() {
    locale=${LC_ALL+=$LC_ALL}
    LC_ALL=C
}

restore_locale() {
    LC_ALL=${locale#=}
    [ -n "$locale" ] || unset LC_ALL
}

# pause MS sets $slept to what that was: whole seconds, rounded up, where sleep knows no
# fractions, which it says at once. One that a signal ended says nothing of that.
sleeps_fractions=yes
pause() {
    fraction=000$(($1 % 1000))
    slept=$1
    if [ "$sleeps_fractions" = yes ]; then
        sleep "$(($1 / 1000)).${fraction#"${fraction%???}"}" 2>&-
        case $? in 0 | 129 | 1[3-9]?) return ;; esac
        sleeps_fractions=no
    fi
    slept=$((($1 + 999) / 1000 * 1000))
    sleep "$((slept / 1000))"
}

# uptime_ms sets $now, empty where the kernel does not tell.
uptime_ms() {
    now=''
    [ -r /proc/uptime ] || return
    IFS=' ' read -r now rest </proc/uptime
    fraction=${now#*.}
    now=$((${now%.*} * 1000 + 1$fraction * 10 - 1000))
}

# process_of PID sets $state, $parent, $start and $blank: what awk would call its 22nd field,
# which names with blanks shift. Empty where there is no such process to be seen.
process_of() {
    state='' parent='' start='' stat='' line=''
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
    state=${1-} parent=${2-} start=${20-}
}

# is_there PID: not where it has ended, reaped or not.
is_there() {
    process_of "$1"
    case $state in
    Z | X | x) return 1 ;;
    '') kill -0 "$1" 2>&- ;;
    esac
}

# put NAME TEXT: a file of the execution, whole or not at all. Made under a name of this
# process: there may be two launchers for a moment.
put() {
    printf '%s' "$2" >"$directory/$1.$$.attachd" &&
        { [ -z "$2" ] || [ -s "$directory/$1.$$.attachd" ]; } &&
        mv -f "$directory/$1.$$.attachd" "$directory/$1" && return 0
    rm -f "$directory/$1.$$.attachd"
    return 1
}

# forget_worker: forks only where there is something to take away.
forget_worker() {
    for file in "$directory/pid" "$directory/pid-start"; do
        [ -e "$file" ] || [ -h "$file" ] || continue
        rm -f "$directory/pid" "$directory/pid-start"
        return
    done
}

read_status() {
    status=''
    [ ! -f "$directory/status" ] || IFS= read -r status <"$directory/status"
}

# fail TEXT: the launch came to nothing.
fail() {
    text=$(printf '%.500s' "$1" | tr '|\r\n' '   ')
    put status "failed|$execution_id|launch|$text$nl"
    printf '%s\n' "$1" >&2
    exit 1
}

# ---- claims ----

read_boot() {
    boot=-
    [ ! -r /proc/sys/kernel/random/boot_id ] ||
        IFS= read -r boot </proc/sys/kernel/random/boot_id
}

# judge_claim FILE sets $owner and $claim: live, dead, or open, where no name is in it yet.
judge_claim() {
    owner='' owner_start='' owner_boot='' claim=open
    [ ! -f "$1" ] || IFS=' ' read -r owner owner_start owner_boot <"$1"
    [ -n "$owner_boot" ] || return
    claim=dead
    case $owner in *[!0-9]*) return ;; esac
    [ "$owner_boot" = "$boot" ] && is_there "$owner" || return
    case $owner_start in "$start" | -) claim=live ;; esac
}

# find_claim sets $number and $highest, the highest one's file, and judges it; $claim is none
# where there is none.
find_claim() {
    number=0 highest='' claim=none owner=''
    for file in "$claims"*; do
        [ -f "$file" ] || continue
        this=${file#"$claims"} this=${this#.} this=${this:-1}
        case $this in *[!0-9]*) continue ;; esac
        [ "$this" -le "$number" ] || number=$this highest=$file
    done
    [ -z "$highest" ] || judge_claim "$highest"
}

# take_claim: 0 where it is ours.
take_claim() {
    read_boot
    process_of "$$"
    me="$$ ${start:--} $boot"
    find_claim
    waited=0
    # Its writer may have died before it wrote.
    while [ "$claim" = open ] && [ "$waited" -lt 1000 ]; do
        pause 100
        waited=$((waited + slept))
        find_claim
    done
    [ "$claim" != live ] || return 1
    before=$highest mine=$((number + 1))
    own=$claims
    [ "$mine" -eq 1 ] || own=$claims.$mine
    (
        set -C
        printf '%s\n' "$me" >"$own"
    ) || return 1
    find_claim
    [ "$number" -eq "$mine" ] && [ "$owner" = "$$" ] || return 1
    [ -n "$before" ] || return 0
    judge_claim "$before"
    [ "$claim" = live ] || return 0
    rm -f "$own"
    return 1
}

drop_claims() {
    for file in "$claims"*; do rm -f "$file"; done
}

# ---- start ----

check_tools() {
    for tool in setsid sleep mv rm tr; do
        if ! hash "$tool" 2>&-; then
            printf 'MASTRA_WORKER_CAPABILITY:%s\n' "$tool" >&2
            exit 69
        fi
    done
}

# check_groups: what may be why a launcher ended without a trace. Not asked before, since it
# takes two programs.
check_groups() {
    # shellcheck disable=SC2016
    setsid sh -c 'kill -0 "-$$"' 2>&- && return
    read_status
    case $status in '' | "starting|"*) rm -f "$directory/status" ;; esac
    printf 'MASTRA_WORKER_CAPABILITY:process_groups\n' >&2
    exit 69
}

# check_place: what would make the launch fail, while there is somebody to be told.
check_place() {
    text=$(cd "$root/$working_directory" 2>&1) ||
        fail "The working directory cannot be entered: $text"
    # Never over the record of a launcher that was quicker; one that is empty yet is that of
    # another start at the same time.
    opened='' wrote=no
    set -C
    {
        opened=yes
        ! printf '%s\n' "starting|$execution_id" || wrote=yes
    } 2>&- >"$directory/status"
    set +C
    [ "$wrote" = no ] || [ ! -s "$directory/status" ] || return 0
    [ -n "$opened" ] || [ ! -e "$directory/status" ] || return 0
    text=$({ printf '%s\n' "starting|$execution_id" >"$directory/status.$$.attachd"; } 2>&1)
    rm -f "$directory/status" "$directory/status.$$.attachd"
    fail "The status cannot be written: $text"
}

# The launcher's session is its own before anything else happens in it: what ends the caller's
# group does not end it.
spawn() {
    {
        restore_locale
        exec setsid sh "$0"
    } <"${null:-$0}" >>"${null:-$directory/stderr}" 2>&1 &
    spawned=$!
    spawns=$((spawns + 1))
}

# end_tree PID: a launcher that does not listen, and first whatever it has started.
end_tree() {
    kill -STOP "$1"
    for file in /proc/[0-9]*; do
        process_of "${file#/proc/}"
        [ "$parent" != "$1" ] || kill -KILL "-${file#/proc/}" || kill -KILL "${file#/proc/}"
    done
    # Without /proc it is known by its file only.
    child=''
    [ -r /proc/self/stat ] || [ ! -f "$directory/pid" ] || read -r child <"$directory/pid"
    case $child in '' | *[!0-9]* | 0* | 1) ;; *) kill -KILL "-$child" ;; esac
    kill -KILL "$1"
}

# end_late: what did not start in time does not start later.
end_late() {
    find_claim
    [ "$claim" = live ] || owner=$spawned
    if [ -n "$owner" ] && is_there "$owner"; then
        target=$owner
        kill -TERM "$target"
        waited=0
        while is_there "$target" && [ "$waited" -lt $((grace_ms + 2000)) ]; do
            pause 50
            waited=$((waited + slept))
        done
        ! is_there "$target" || end_tree "$target"
    fi 2>&-
    read_status
    case $status in
    "exited|"* | "resource_exhausted|"*) exit 0 ;;
    "failed|"*) answer_by_status ;;
    esac
    put status "timed_out|$execution_id|startup$nl"
    forget_worker
    drop_claims
    exit 75
}

# answer_by_status: ends, unless the launch is still under way.
answer_by_status() {
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
}

start() {
    use_plain_locale
    check_tools
    read_boot
    uptime_ms
    began=$now waited=0 spawned='' spawns=0 step=5
    while :; do
        answer_by_status
        find_claim
        case $claim in
        none | dead | open)
            # Ours has not claimed yet, or has given way to one that then died.
            if [ -z "$spawned" ] || ! is_there "$spawned"; then
                answer_by_status
                [ "$spawns" -eq 0 ] || check_groups
                [ "$spawns" -lt 5 ] || fail 'The launcher ended without a record.'
                check_place
                spawn
            fi
            ;;
        esac
        uptime_ms
        [ -z "$now" ] || waited=$((now - began))
        [ "$waited" -lt "$1" ] || end_late
        pause "$step"
        [ "$step" -ge 30 ] || step=$((step + 5))
        [ -n "$now" ] || waited=$((waited + slept))
    done
}

# ---- the launcher ----

# after MS SIGNAL TARGET: sends it then. A session of its own, so that cancel_timer can end it
# with its sleep.
after() {
    setsid sh "$0" timer "$1" "$2" "$3" &
    timer=$!
}

# By KILL, since a shell that has just been forked can lose any other signal.
cancel_timer() {
    { kill -KILL "-$1" || kill -KILL "$1"; } 2>&-
}

# timer MS SIGNAL TARGET: TARGET may be a group. Its number may be somebody else's by then: it
# is signalled where its leader is the same, or while our launcher still keeps watch.
timer() {
    leader=${3#-}
    process_of "$leader"
    leader_start=$start
    process_of "$PPID"
    launcher_start=$start
    pause "$1"
    process_of "$leader"
    if [ "$start" != "$leader_start" ]; then
        process_of "$PPID"
        [ "$start" = "$launcher_start" ] || exit 0
    fi
    kill "$2" "$3" 2>&-
}

# end_child: TERM now and KILL when the grace is over.
end_child() {
    process_of "$child"
    case $state in Z | X | x) return 1 ;; esac
    { kill -TERM "-$child" || kill -TERM "$child"; } 2>&-
    after "$grace_ms" -KILL "-$child"
    killer=$timer
}

# Before the program runs a signal is kept: a shell that has just been forked could lose it.
on_term() {
    interrupted=yes
    if [ -z "$noted" ]; then
        early=yes
    elif [ -z "$ended_by" ]; then
        ! end_child || ended_by=term
    fi
}

on_late() {
    interrupted=yes
    [ -n "$ended_by" ] || ! end_child || ended_by=timeout
}

# signal_name CODE sets $name: SIGTERM for 143, nothing for what is no signal. Those that tell
# a limit have Linux' numbers where the shell has no names.
signal_name() {
    name=''
    [ "$1" -gt 128 ] && [ "$1" -le 159 ] || return
    name=$(kill -l $(($1 - 128)) 2>&-)
    case $name in
    '' | *[!A-Z0-9]* | [0-9]*)
        name=''
        case $1 in
        152) name=SIGXCPU ;;
        153) name=SIGXFSZ ;;
        esac
        ;;
    SIG*) ;;
    *) name=SIG$name ;;
    esac
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

# is_program: whether the child has taken the last shell's place. Arguments arrive without the
# NULs between them, which read drops.
is_program() {
    [ -f "$directory/pid" ] || return 1
    [ -r "/proc/$child/cmdline" ] || return 0
    line=''
    IFS= read -r line <"/proc/$child/cmdline"
    case $line in '' | *sh"$directory/launch.sh" | *sh"$directory/launch.sh"workload) return 1 ;; esac
}

# note_start: the token is what awk will read later, so it is taken once the program has its
# final name. That may hold blanks, and programs that compare tokens split there.
note_start() {
    total=0
    while [ "$total" -lt 3000 ] && is_there "$child" && ! is_program; do
        pause 10
        total=$((total + slept))
    done
    process_of "$child"
    case $state in Z | X | x) blank='' ;; esac
    put pid-start "${blank:+$blank$nl}"
}

# wait_for_child sets $code. A signal ends the wait early, and may also come just after its
# end: then the code is not to be asked for again, since the shell has forgotten the child.
wait_for_child() {
    code=''
    while :; do
        interrupted=no
        before=$code was_there=no
        ! kill -0 "$child" 2>&- || was_there=yes
        wait "$child"
        code=$?
        if [ "$was_there" = no ] && [ "$code" -eq 127 ] && [ -n "$before" ]; then
            code=$before
            return
        fi
        [ "$interrupted" = yes ] || return
    done
}

# give_up TEXT: the launcher's own failure.
give_up() {
    trap '' TERM INT USR1
    if [ -n "$child" ]; then
        noted=yes
        end_child && wait "$child"
        [ -z "$killer" ] || cancel_timer "$killer"
    fi
    forget_worker
    (fail "$1")
    drop_claims
    exit 1
}

# A launcher may have been killed, and its program live on.
find_worker() {
    worker=''
    [ ! -f "$directory/pid" ] || read -r worker <"$directory/pid"
    case $worker in '' | *[!0-9]* | 0* | 1) return 1 ;; esac
    is_there "$worker" || return 1
    token=''
    [ ! -f "$directory/pid-start" ] || read -r token <"$directory/pid-start"
    case $token in '' | "$start" | "$blank") ;; *) return 1 ;; esac
}

prepare() {
    read_status
    case $status in
    '' | "starting|"*) ;;
    *)
        drop_claims
        exit 0
        ;;
    esac
    if find_worker; then
        put status "running|$execution_id$nl"
        drop_claims
        exit 0
    fi
    forget_worker
    [ "$status" = "starting|$execution_id" ] || put status "starting|$execution_id$nl" ||
        give_up 'The status cannot be written.'
    if ! printf '' >"$directory/stdout" || ! printf '' >"$directory/stderr"; then
        give_up 'The output files cannot be made.'
    fi
    cd "$root/$working_directory" || give_up 'The working directory cannot be entered.'
}

launch() {
    use_plain_locale
    ended_by='' killer='' watchdog='' child='' early='' noted=''
    trap '' HUP
    trap on_term TERM INT
    trap on_late USR1
    # Without a group of its own it leaves no trace: the start asks why.
    kill -0 "-$$" 2>&- || exit 0
    take_claim || exit 0
    prepare
    input=$directory/stdin
    [ -f "$input" ] || input=${null:-$directory/stderr}
    if [ -n "$early" ]; then
        put status "cancelled|$execution_id|TERM$nl"
        drop_claims
        exit 143
    fi
    {
        restore_locale
        exec setsid sh "$0" workload
    } <"$input" >"$directory/stdout" 2>"$directory/stderr" &
    child=$!
    if ! note_start || [ ! -f "$directory/pid" ] || ! put status "running|$execution_id$nl"; then
        give_up 'The record of the execution cannot be written.'
    fi
    noted=yes
    if [ -n "$timeout_ms" ]; then
        after "$timeout_ms" -USR1 "$$"
        watchdog=$timer
    fi
    [ -z "$early" ] || on_term
    wait_for_child
    trap '' TERM INT USR1
    finish_launch
}

finish_launch() {
    [ -z "$watchdog" ] || cancel_timer "$watchdog"
    if [ -n "$killer" ]; then
        # What the program left in its group gets its grace too.
        waited=0
        while kill -0 "-$child" 2>&- && [ "$waited" -lt $((grace_ms + 500)) ]; do
            pause 50
            waited=$((waited + slept))
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
    forget_worker
    drop_claims
    exit "$code"
}

# ---- the program ----

# limit FLAG SOFT HARD: the soft one first, since it may not stand above the hard one. A hard
# limit that the sandbox has already, and that cannot be raised, does too.
limit() {
    [ -n "$2" ] || return 0
    ulimit -S "-$1" "$2" || exit 125
    ulimit -H "-$1" "$3" && return
    [ "$2" != "$3" ] && [ "$(ulimit -H "-$1")" -gt "$2" ] || exit 125
}

become() {
    put pid "$$" || exit 125
    read_boot
    find_claim
    [ "$owner" = "$PPID" ] || exit 125
    unit=512
    case ${BASH_VERSION:+${SHELLOPTS-}} in '' | *posix*) ;; *) unit=1024 ;; esac
    # The soft limit of time sends the signal that tells why; the hard one kills whoever
    # does not listen.
    limit t "$cpu_seconds" "$((${cpu_seconds:-0} + (${grace_ms:-0} + 999) / 1000 + 1))"
    limit v "${address_bytes:+$((address_bytes / 1024))}" "$((${address_bytes:-0} / 1024))"
    limit f "${file_bytes:+$((file_bytes / unit))}" "$((${file_bytes:-0} / unit))"
    limit n "$open_files" "$open_files"
    workload
}

case ${1-} in
start) start "$2" ;;
workload) become ;;
timer) timer "$2" "$3" "$4" ;;
*) launch ;;
esac
