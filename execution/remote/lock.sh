#!/bin/sh
# shellcheck disable=SC2034,SC2154
# Functions of programs that hold locks. A lock is a directory of the original's name, so that
# its deploys and ours exclude each other: who makes it has it.
#
# Ours hold files owner.1, owner.2, ...: the last names the processes that hold the lock, one
# "PID START BOOT" a line. Taking over from a dead owner is making the next file, which
# succeeds for one taker only; the directory never goes away meanwhile. A live owner is seen
# in /proc. Where it cannot be seen there (no /proc, another pid namespace, another host on a
# shared disk), the owner's heartbeat tells: the caller watches $lock_seen, and asks for a
# takeover once that has stood still for some seconds. A lock of the original says nothing of
# its owner and is never taken over.
#
# Needs read_line and friends of look.sh. Nothing here goes to /dev/null, which some sandboxes
# do not have.

# identify: sets $boot and $me, this shell's identity.
identify() {
    boot=''
    if [ -r /proc/sys/kernel/random/boot_id ]; then
        IFS= read -r boot </proc/sys/kernel/random/boot_id
    fi
    process_of "$$"
    me="$$ ${start:--} ${boot:--}"
}

# process_of PID: sets $state and $start, empty where there is no such process to be seen.
process_of() {
    state='' start='' stat='' line=''
    [ -r "/proc/$1/stat" ] || return
    while read_line || [ -n "$line" ]; do
        stat=$stat$line
        line=
    done <"/proc/$1/stat"
    set -f
    # shellcheck disable=SC2086
    set -- ${stat##*)}
    set +f
    state=${1-} start=${20-}
}

# is_live PID START BOOT
is_live() {
    case $1 in '' | *[!0-9]*) return 1 ;; esac
    [ "$3" = "${boot:--}" ] && [ "$2" != - ] || return 1
    process_of "$1"
    case $state in '' | Z | X | x) return 1 ;; esac
    [ "$start" = "$2" ]
}

# lock_look DIR: sets $lock_number, $lock_seen (one line that changes while the owner lives)
# and $lock_live (yes; no: not to be seen here; foreign: of the original).
lock_look() {
    lock_number=0 lock_live=no lock_seen=''
    while [ -e "$1/owner.$((lock_number + 1))" ]; do lock_number=$((lock_number + 1)); done
    if [ "$lock_number" -gt 0 ]; then
        while IFS=' ' read -r lock_pid lock_start lock_boot; do
            lock_seen="$lock_seen $lock_pid $lock_start $lock_boot"
            if is_live "$lock_pid" "$lock_start" "$lock_boot"; then lock_live=yes; fi
        done <"$1/owner.$lock_number"
    elif [ "$(find "$1" -prune -perm 711 2>&1)" != "$1" ]; then
        # Not the mode that ours are made with.
        lock_live=foreign
    fi
    lock_beat=''
    [ -r "$1/beat" ] && IFS= read -r lock_beat <"$1/beat"
    lock_seen="$lock_number:$lock_beat:$lock_seen"
}

# why_unwritten FILE TEXT: prints TEXT, or more of the reason where there is any: for a full
# disk some shells' own printf says no more than "I/O error", and what failed may have given a
# page or two back since.
why_unwritten() {
    if reason=$({ printf '%65536s' x | cat >"$1.probe"; } 2>&1); then reason=$2; fi
    rm -f "$1.probe"
    printf '%s' "${reason:-$2}"
}

# lock_claim DIR NUMBER: 0 where the owner file is ours now.
lock_claim() {
    set -C
    printf '%s\n' "$me" 2>&- >"$1/owner.$2"
    lock_failed=$?
    set +C
    [ "$lock_failed" -ne 0 ] || return 0
    lock_error=$(why_unwritten "$1/owner" 'The owner file cannot be made.')
    # An owner file that a full disk left empty would stand for somebody.
    if [ -f "$1/owner.$2" ] && [ ! -s "$1/owner.$2" ]; then rm -f "$1/owner.$2"; fi
    return 1
}

# lock_try DIR STALE: 0: it is ours. 1: somebody has it, see lock_look. 2: it cannot be made,
# see $lock_error. STALE: the $lock_seen that has stood still; empty: none has.
lock_try() {
    for lock_round in 1 2 3; do
        if lock_error=$(umask 066 && mkdir "$1" 2>&1); then
            lock_claim "$1" 1 && return 0
            rmdir "$1" 2>&-
            return 2
        fi
        [ -d "$1" ] && break
        [ "$lock_round" -lt 3 ] || return 2
    done
    lock_look "$1"
    [ "$lock_live" = no ] && [ -n "$2" ] && [ "$2" = "$lock_seen" ] || return 1
    lock_claim "$1" $((lock_number + 1)) && return 0
    lock_look "$1"
    return 1
}

# lock_briefly DIR STALE: as lock_try, but where there is no room for a name it is held without,
# which is good for a moment only: nobody can tell that its owner lives.
lock_briefly() {
    lock_try "$1" "$2"
    case $? in
    0) return 0 ;;
    1) return 1 ;;
    *) lock_error=$(umask 066 && mkdir "$1" 2>&1) ;;
    esac
}

# lock_share DIR PID: a lock of ours is held by that process too.
lock_share() {
    lock_look "$1"
    process_of "$2"
    printf '%s\n%s %s %s\n' "$me" "$2" "${start:--}" "${boot:--}" >"$1/owner.new" 2>&- &&
        mv -f "$1/owner.new" "$1/owner.$lock_number"
}

# lock_beats DIR: begins the heartbeat of a lock of ours, which ends with this shell or with
# the lock. Sets $lock_beater.
lock_beats() {
    (
        beat=0
        while kill -0 "$$" && [ -d "$1" ]; do
            beat=$((beat + 1))
            printf '%s\n' "$beat" >"$1/beat"
            sleep 1
        done
    ) <&- >&- 2>&- &
    lock_beater=$!
}

# lock_release DIR BEATER [FILE ...]: BEATER empty where there is no heartbeat. The files go
# first, while the lock is held.
lock_release() {
    if [ -n "$2" ]; then
        # A shell that has just been forked can lose any other signal.
        kill -KILL "$2" 2>&-
        wait "$2" 2>&-
    fi
    lock_left=$1
    shift 2
    rm -rf "$@" "$lock_left"
}
