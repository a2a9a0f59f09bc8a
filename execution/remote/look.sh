#!/bin/sh
# shellcheck disable=SC2034,SC2154
# What the programs that look at an execution have in common: functions only, which stand
# before the program (cmake/embed.cmake). They print facts, which execution/look.c reads and
# execution/status.c judges.
#
# The program sets $nonce, $remote_dir and $execution_id before it calls them.
#
# Every fact is one line that begins with its tag, so that no file's content can pass for
# another fact. A looked-at file must be regular: opening a FIFO would wait for ever, a link
# could lead anywhere.
#
# These run no program and fork nothing: builtins alone cost a seventh of a script with
# three helpers, and work in an image without any tools. Standard error is closed (2>&-)
# where it would go to /dev/null, which some sandboxes do not have. Runs alike in dash, bash
# and busybox ash.

LC_ALL=C
set +eu
nl='
'
line_max=4096

# read_line sets $line. dash cannot stop inside a line and says so with status 2; there a
# huge line is read whole, and only the caller's timeout bounds it.
# shellcheck disable=SC3045
read -r -n 1 line <&- 2>&-
if [ $? -eq 2 ]; then
    read_line() {
        IFS= read -r line
    }
else
    # shellcheck disable=SC3045
    read_line() {
        IFS= read -r -n 4097 line
    }
fi

# What stands before the first mark and behind the last is not the answer.
begin_answer() {
    printf '\nattachd-begin %s\n' "$nonce"
}

finish() {
    printf 'attachd-end %s\n' "$nonce"
    exit 0
}

# find_home sets $home: without blanks around it, empty where it cannot be one line.
find_home() {
    home=${HOME:-${PWD-}}
    while :; do
        case $home in
        [[:space:]]*) home=${home#?} ;;
        *[[:space:]]) home=${home%?} ;;
        *) break ;;
        esac
    done
    case $home in *"$nl"*) home= ;; esac
}

# find_remote_dir: where $remote_dir is empty, sets $home and the default below it; fails
# where the home is not absolute.
find_remote_dir() {
    [ -z "$remote_dir" ] || return 0
    find_home
    case $home in /*) ;; *) return 1 ;; esac
    remote_dir=$home
    while [ "${remote_dir%/}" != "$remote_dir" ]; do remote_dir=${remote_dir%/}; done
    remote_dir=$remote_dir/mastra-app
}

# kind_of FILE: sets $kind.
kind_of() {
    kind=missing
    if [ -h "$1" ]; then
        kind=special
    elif [ -f "$1" ]; then
        kind='file'
        [ -r "$1" ] || kind=denied
    elif [ -e "$1" ]; then
        kind=special
    fi
}

# facts TAG FILE LINES: what FILE is and its first LINES lines; the first stays in $first.
facts() {
    first='' line='' count=0
    kind_of "$2"
    printf '%s %s\n' "$1" "$kind"
    [ "$kind" = file ] || return
    while read_line || [ -n "$line" ]; do
        if [ "$count" -ge "$3" ] || [ "${#line}" -gt "$line_max" ]; then
            printf '%s-rest\n' "$1"
            break
        fi
        printf '%s-line %s\n' "$1" "$line"
        [ "$count" -gt 0 ] || first=$line
        count=$((count + 1))
        line=
    done <"$2"
}

# attachd leaves a file beside each execution that it launches, which names the boot of the
# machine: start times count from there, and come again after the next. Sets $rebooted.
look_at_boot() {
    rebooted=no claimed='' line='' count=0
    kind_of "$directory/attachd"
    [ "$kind" = file ] || return
    while read_line || [ -n "$line" ]; do
        case $line in 'boot '*) claimed=${line#boot } ;; esac
        line='' count=$((count + 1))
        [ "$count" -lt 16 ] || break
    done <"$directory/attachd"
    case $claimed in '' | *[!0-9a-f-]*) return ;; esac
    printf 'claim-boot %.64s\n' "$claimed"
    file=/proc/sys/kernel/random/boot_id
    [ -r "$file" ] || return
    IFS= read -r line <"$file"
    printf 'boot %s\n' "$line"
    [ "$line" = "$claimed" ] || rebooted=yes
}

# read_process PID sets $state (empty: no such process), $parent, $group, $session and $start.
#
# The program of a process may be called anything, with blanks, newlines and parentheses:
# the fields begin after the last one. What awk makes of the line stays in $blank, since
# that is what Mastra's launcher recorded.
read_process() {
    stat='' line='' blank=''
    [ -r "/proc/$1/stat" ] && while read_line || [ -n "$line" ]; do
        [ -n "$stat" ] || blank=$line
        stat=$stat$line$nl
        line=
    done <"/proc/$1/stat"
    set -f
    # Splitting at blanks is what is wanted here.
    # shellcheck disable=SC2086
    set -- $blank
    blank=${22-}
    # shellcheck disable=SC2086
    set -- ${stat##*)}
    set +f
    state=${1-} parent=${2-} group=${3-} session=${4-} start=${20-}
}

# Sets $live by the rules of status_judge.
look_at_process() {
    read_process "$pid"
    [ -z "$state" ] || printf 'process %s %s %s\n' "$state" "${start:--}" "${blank:--}"
    signalable=no
    kill -0 "$pid" 2>&- && signalable=yes
    printf 'signalable %s\n' "$signalable"
    case $state in
    '') live=$signalable ;;
    Z | X | x) ;;
    *)
        case $token in
        '' | "$start" | "$blank") live=yes ;;
        esac
        ;;
    esac
    [ "$rebooted" = no ] || live=no
}

# The arguments of a process arrive without the NULs between them, which read drops. A
# launcher of this id in another directory is somebody else's; -ef sees through links and
# other spellings of the path. Sets $launcher and, of a launcher that lives, $file.
find_launcher() {
    launcher=no
    for file in /proc/[0-9]*/cmdline; do
        [ -r "$file" ] || continue
        text='' line='' count=0
        while read_line || [ -n "$line" ]; do
            text=${text:+$text$nl}$line
            line='' count=$((count + 1))
            [ "$count" -lt 64 ] || break
        done <"$file"
        case $text in
        *sh"$directory/launch.sh") launcher=yes ;;
        *"/.mastra/executions/$execution_id/launch.sh")
            # shellcheck disable=SC3013
            [ "/${text#*sh/}" -ef "$directory/launch.sh" ] && launcher=yes
            ;;
        esac
        [ "$launcher" = no ] || break
    done
}

# need TOOL: without that program there is no more to the answer.
need() {
    hash "$1" 2>&- && return
    printf 'missing-tool %s\n' "$1"
    finish
}

# look_at_execution: all facts but the output. Sets $directory, $record (the first line of the
# status), $pid, $token, $proc, $live and $launcher (yes or no), and $kind: directory, or what
# stands there instead; then it fails.
look_at_execution() {
    record='' pid='' token='' live=no launcher=no
    directory=$remote_dir/.mastra/executions/$execution_id
    kind=missing
    if [ -h "$directory" ]; then
        kind=special
    elif [ -d "$directory" ]; then
        kind=directory
        [ -x "$directory" ] || kind=denied
    elif [ -e "$directory" ]; then
        kind=special
    else
        # Not there, or behind a directory that we may not enter: not the same answer.
        ancestor=$directory
        while [ -n "$ancestor" ] && [ ! -d "$ancestor" ]; do ancestor=${ancestor%/*}; done
        [ -x "${ancestor:-/}" ] || kind=denied
    fi
    printf 'directory %s\n' "$kind"
    [ "$kind" = directory ] || return 1

    # A /proc of another pid namespace says nothing about our pids.
    proc=no
    if [ -r /proc/self/stat ]; then
        IFS= read -r line </proc/self/stat
        [ "${line%% *}" = "$$" ] && proc=yes
    fi
    printf 'proc %s\n' "$proc"

    facts status "$directory/status" 2
    record=$first
    facts pid "$directory/pid" 1
    pid=${first%[[:cntrl:]]}
    facts token "$directory/pid-start" 1
    token=${first%[[:cntrl:]]}
    look_at_boot

    # Only what can be a pid is looked at: the file is writable by the workload, and kill takes
    # 0 and negative numbers for groups. This shell itself is not the worker either.
    case $pid in
    '' | *[!0-9]* | 0* | ????????* | "$$") ;;
    *) [ "$pid" -ge 2 ] && [ "$pid" -le 4194304 ] && look_at_process ;;
    esac

    # The launcher writes the final status after the worker's death and ends after that. So the
    # status is read again once no launcher was seen: then it is final.
    case $live$record in
    no*starting\|* | no*running\|*)
        if [ "$proc" = yes ]; then
            find_launcher
            printf 'launcher %s\n' "$launcher"
        fi
        facts status "$directory/status" 2
        record=$first
        ;;
    esac
    kind=directory
}
