#!/bin/sh
# shellcheck disable=SC2034,SC2154
# Ends one execution: TERM, a time of grace, KILL; then writes down that it was cancelled,
# unless something else became of it. The functions it begins with are those of look.sh.
#
# Arguments: NONCE REMOTE_DIR EXECUTION_ID GRACE, in hundredths of a second.
#
# It prints what it sees, as attach.sh does; `again` stands before each further look, and
# the last one counts. Whoever asked may be gone meanwhile: that does not stop it half way.

trap '' HUP PIPE
nonce=$1 remote_dir=$2 execution_id=$3 grace=$4
pause=0.1 now=0

# Sets $now, in hundredths of a second. Without a clock the pauses are counted.
tell_time() {
    if [ -r /proc/uptime ]; then
        IFS=' .' read -r seconds hundredths line </proc/uptime
        now=$((seconds * 100 + 1$hundredths - 100))
    elif [ "$pause" = 1 ]; then
        now=$((now + 100))
    else
        now=$((now + 10))
    fi
}

# Not every sleep takes fractions.
wait_a_little() {
    if ! sleep "$pause" 2>&-; then
        pause=1
        sleep 1 2>&-
    fi
    tell_time
}

look_again() {
    printf 'again\n'
    look_at_execution
}

# What is there now is the answer.
answer() {
    look_again
    finish
}

# Whether the record says that there is something to end.
is_open() {
    case ${record%[[:cntrl:]]}'|' in
    "starting|$execution_id|"* | "running|$execution_id|"*) return 0 ;;
    esac
    return 1
}

# Whether there may be something to end: a worker, or a launcher that could start one.
is_endable() {
    [ "$live" = no ] || return 0
    is_open || return 1
    [ "$proc$launcher" != yesno ]
}

# Whether the record is an end that is not of our making.
is_final() {
    case ${record%[[:cntrl:]]}'|' in
    "exited|$execution_id|143|"* | "exited|$execution_id|137|"*) return 1 ;;
    "exited|$execution_id|"* | "resource_exhausted|$execution_id|"*) return 0 ;;
    "cancelled|$execution_id|"* | "timed_out|$execution_id|"*) return 0 ;;
    "failed|$execution_id|"*) return 0 ;;
    esac
    return 1
}

# Only the worker itself is signalled: of that start time or, where none was recorded, while
# the record is open. And nothing that this shell hangs on, whatever the pid file says. Sets
# $verdict: right, wrong, or gone, where it has ended since it was looked at.
verify() {
    verdict=wrong
    read_process "$$"
    case $pid in "$parent" | "$group" | "$session") return ;; esac
    read_process "$pid"
    case $proc$state in yes | yes[ZXx])
        verdict=gone
        return
        ;;
    esac
    if [ -z "$token" ]; then
        ! is_open || verdict=right
    elif [ "$token" = "$start" ] || [ "$token" = "$blank" ]; then
        verdict=right
    fi
}

# remains PID START: whether that process, or another of its group, lives. A process of
# another start time took the pid after the whole group had ended. Zombies keep a group, so
# its members are looked at where they can be.
remains() {
    read_process "$1"
    case $state in
    '' | Z | X | x) ;;
    *)
        [ "$start" = "$2" ]
        return
        ;;
    esac
    if [ "$proc" = no ]; then
        kill -0 "-$1" 2>&- || kill -0 "$1" 2>&-
        return
    fi
    kill -0 "-$1" 2>&- || return 1
    for file in /proc/[0-9]*; do
        read_process "${file#/proc/}"
        case $group$state in "$1"[!ZXx]) return 0 ;; esac
    done
    return 1
}

# Which of $targets (PID:START ...) remain.
any_remains() {
    remaining=
    for target in $targets; do
        remains "${target%:*}" "${target#*:}" && remaining="$remaining $target"
    done
    targets=$remaining
    [ -n "$targets" ]
}

# signal NAME TARGET: its group, or where it has none itself.
signal() {
    kill "-$1" "-${2%:*}" 2>&- || kill "-$1" "${2%:*}" 2>&-
}

# Waits until nothing remains; KILL at the end of the grace. Fails where something outlives
# even that.
end_targets() {
    limit=$deadline
    while any_remains; do
        if [ "$now" -ge "$limit" ]; then
            [ "$limit" -le "$deadline" ] || return 1
            for target in $targets; do signal KILL "$target"; done
            limit=$((now + 100))
        fi
        wait_a_little
    done
    return 0
}

# The launcher writes the status once its worker has ended, and removes the pid last. Looked
# for before the record is read: once none was seen, that is final.
await_launcher() {
    limit=$((now + 200))
    while :; do
        [ "$proc" = no ] || find_launcher
        read_record
        is_open || [ -e "$directory/pid" ] || return
        [ "$proc$launcher" != yesno ] || return
        [ "$now" -lt "$limit" ] || return
        wait_a_little
    done
}

# Fails where the end is not of our making, or none.
end_worker() {
    targets=$pid:$start
    if signal TERM "$targets"; then
        end_targets
    else
        await_launcher
        return 1
    fi
}

# A launcher without a worker that we know of: it is stopped, so that it starts nothing more,
# then what it has started ends, and it itself. Nothing may end us in between.
end_launcher() {
    launcher_pid=${file#/proc/} launcher_pid=${launcher_pid%/cmdline}
    trap '' TERM
    kill -STOP "$launcher_pid" 2>&- || return
    limit=$((now + 100))
    while read_process "$launcher_pid" && [ -n "$state" ] && [ "$state" != T ]; do
        [ "$now" -lt "$limit" ] || break
        wait_a_little
    done
    targets=$launcher_pid:$start
    for file in /proc/[0-9]*; do
        read_process "${file#/proc/}"
        if [ "$parent" = "$launcher_pid" ]; then
            targets="$targets ${file#/proc/}:$start"
            signal TERM "${file#/proc/}"
        fi
    done
    kill -TERM "$launcher_pid" 2>&-
    kill -CONT "$launcher_pid" 2>&-
    trap - TERM
    end_targets
}

read_record() {
    record='' line=''
    kind_of "$directory/status"
    [ "$kind" = file ] || return
    read_line <"$directory/status"
    record=$line
}

# Through a name of our own, since others write too; and only what stands there whole.
write_cancelled() {
    temporary=$directory/status.$nonce line=
    printf 'cancelled|%s|TERM\n' "$execution_id" >"$temporary"
    [ -f "$temporary" ] && read_line <"$temporary"
    if [ "$line" = "cancelled|$execution_id|TERM" ]; then
        mv -f "$temporary" "$directory/status"
    else
        rm -f "$temporary"
        return 1
    fi
}

# On a full disk the files that go may give the room that is needed.
record_end() {
    read_record
    case $kind in file | missing) ;; *) return ;; esac
    is_final || write_cancelled
    failed=$?
    rm -f "$directory/pid" "$directory/pid-start"
    [ "$failed" -eq 0 ] || write_cancelled
}

begin_answer
if [ -z "$remote_dir" ]; then
    find_remote_dir
    printf 'home %s\n' "$home"
    [ -n "$remote_dir" ] || finish
fi
look_at_execution || finish
is_endable || finish
need sleep
need mv
need rm
tell_time

# It may be just starting, or just ending.
limit=$((now + 100))
while [ "$live" = no ] && [ "$now" -lt "$limit" ]; do
    wait_a_little
    look_again || finish
    is_endable || finish
done

deadline=$((now + grace))
if [ "$live" = yes ]; then
    verify
    case $verdict in
    right) end_worker || answer ;;
    gone)
        await_launcher
        answer
        ;;
    *) finish ;;
    esac
    await_launcher
elif [ "$launcher" = no ]; then
    finish
fi
if [ "$launcher" = yes ] && { is_open || [ -e "$directory/pid" ]; }; then
    end_launcher || answer
fi
record_end
answer
