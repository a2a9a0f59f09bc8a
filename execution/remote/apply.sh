#!/bin/sh
# shellcheck disable=SC2034,SC2154
# Makes an execution out of what was uploaded, and starts it: under the execution's lock the
# launch program and the input are cut out of the bundle, the artifact is extracted under the
# artifact lock, the dependencies are installed under the install lock, and the launch is run.
# Every step may be run again by another try of the same job.
#
# Arguments: NONCE REMOTE_DIR EXECUTION_ID JOB_ID STALE FROM_ID CLAIM_SECONDS BUNDLE PARTS
# LAUNCH_BYTES INPUT_BYTES ARTIFACT_BYTES INPUT_PATH INSTALL_HASH INSTALL_COMMAND
# INSTALL_SECONDS STARTUP_MS. FROM_ID: take the launch of that execution; empty: it is in the
# bundle. PARTS: files that the bundle came in, BUNDLE.0 and so on; 0: there is none.
# INPUT_BYTES: -1: no input. ARTIFACT_BYTES 0: nothing to extract. INPUT_PATH: where below the
# remote directory the input goes; empty: to standard input. INSTALL_HASH empty: nothing to
# install.
#
# Answers "result": launched (the facts follow), busy (see "lock"), foreign, upload (there is
# no such bundle any more), missing, failed, incapable (see "message").
# Behind look.sh, lock.sh, claim.sh.

nonce=$1 remote_dir=$2 execution_id=$3 job=$4 stale=$5 from=$6 claim_seconds=$7
shift 7
bundle_name=$1 parts=$2 launch_bytes=$3 input_bytes=$4 artifact_bytes=$5 input_path=$6
shift 6
install_hash=$1 install_command=$2 install_seconds=$3 startup_ms=$4
answer='' phase=upload install_child='' inner_lock='' inner_beater='' trouble=''
trap '' PIPE

directory=$remote_dir/.mastra/executions/$execution_id
bundle=$directory/bundle.attachd.$bundle_name.0
marker=$remote_dir/.mastra-install-hash

# pause: a tenth of a second where sleep knows such, else a second.
pause() {
    sleep 0.1 2>&- || sleep 1
}

leave_inner() {
    [ -z "$inner_lock" ] || lock_release "$inner_lock" "$inner_beater"
    inner_lock='' inner_beater=''
}

# stop_install: nothing of an installation outlives its lock.
stop_install() {
    [ -n "$install_child" ] || return
    kill -TERM "-$install_child" 2>&-
    tries=0
    while kill -0 "-$install_child" 2>&- && [ "$tries" -lt 10 ]; do
        tries=$((tries + 1))
        pause
    done
    kill -KILL "-$install_child" 2>&-
    install_child=''
}

# Whoever ends this shell wants its locks back.
interrupted() {
    trap '' TERM INT HUP
    stop_install
    leave_inner
    leave_execution
    exit 143
}

# take_inner LOCK NAME LABEL: a lock of the whole remote directory, or the end with who has it.
take_inner() {
    lock_try "$1" "$stale"
    case $? in
    0)
        inner_lock=$1
        lock_beats "$1"
        inner_beater=$lock_beater
        ;;
    1)
        say result busy
        say lock "$2 $lock_live $lock_seen"
        leave_execution
        answer_and_end
        ;;
    *)
        fail "$phase" "acquire $3 lock" "$lock_error"
        give_up "$phase" "$lock_error"
        ;;
    esac
}

# join_parts: uploads that came in several files become one. 1: it is not whole.
join_parts() {
    part=0
    while [ $((part += 1)) -lt "$parts" ]; do
        # An earlier round, which a lock then ended, has joined it.
        [ -f "${bundle%.0}.$part" ] || continue
        if ! trouble=$({ cat "${bundle%.0}.$part" >>"$bundle"; } 2>&1); then
            fail upload 'join worker upload' "$trouble"
            give_up upload "$trouble"
        fi
        rm -f "${bundle%.0}.$part"
    done
    stdin_bytes=$input_bytes
    [ "$stdin_bytes" -ge 0 ] || stdin_bytes=0
    artifact_at=$((launch_bytes + stdin_bytes))
    [ -f "$bundle" ] &&
        [ "$(($(wc -c <"$bundle")))" -eq $((artifact_at + artifact_bytes)) ]
}

# rm_stale FILE: so that what is made next has a mode of its own.
rm_stale() {
    if [ -e "$1" ] || [ -h "$1" ]; then rm -f "$1"; fi
}

# copy_range FROM BYTES: out of the bundle, which is long enough.
copy_range() {
    if [ "$1" -eq 0 ]; then
        head -c "$2" "$bundle"
    elif [ "$2" -gt 0 ]; then
        tail -c "+$(($1 + 1))" "$bundle" | head -c "$2"
    fi
}

# cut FILE FROM BYTES MODE: a file out of the bundle, whole or not at all.
cut() {
    trouble=$({
        rm_stale "$1.attachd" && umask 077 && copy_range "$2" "$3" >"$1.attachd" &&
            [ "$(($(wc -c <"$1.attachd")))" -eq "$3" ] &&
            { [ "$4" = 600 ] || chmod "$4" "$1.attachd"; } && mv -f "$1.attachd" "$1"
    } 2>&1) && return 0
    rm -f "$1.attachd"
    trouble=$(why_unwritten "$directory/room" "${trouble:-It could not be written whole.}")
    fail upload "write ${1##*/}" "$trouble"
    give_up upload "$trouble"
}

extract() {
    take_inner "$remote_dir/.mastra-artifact-lock" artifact 'worker artifact'
    mode=$(stat -c %a "$remote_dir" 2>&-)
    # Not as the archive's owners: their numbers mean other people here.
    trouble=$({ tail -c "+$((artifact_at + 1))" "$bundle" | tar -xzof - -C "$remote_dir"; } 2>&1)
    code=$?
    [ "$code" -eq 0 ] || trouble=$trouble$nl$(why_unwritten "$directory/room" '')
    case $mode in '' | *[!0-7]*) ;; *) chmod "$mode" "$remote_dir" 2>&- ;; esac
    leave_inner
    if [ "$code" -ne 0 ]; then
        say exit-code "$code"
        fail upload 'extract worker artifact' "$trouble"
        give_up upload "$trouble"
    fi
}

copy_launch() {
    trouble=$({
        cp "$remote_dir/.mastra/executions/$from/launch.sh" "$directory/launch.sh.attachd" &&
            chmod 700 "$directory/launch.sh.attachd" &&
            mv -f "$directory/launch.sh.attachd" "$directory/launch.sh"
    } 2>&1) && return 0
    fail launch 'copy the recorded launch' "$trouble"
    give_up launch "$trouble"
}

# unpack: everything that comes out of the bundle, once; where a lock made the caller come
# again, the note says so.
unpack() {
    note=''
    [ -f "$directory/stage.attachd" ] && IFS= read -r note <"$directory/stage.attachd"
    [ "$note" != "$bundle_name" ] || return 0
    if [ -n "$from" ]; then copy_launch; fi
    if [ "$parts" -gt 0 ]; then
        if ! join_parts; then
            leave_execution
            say result upload
            answer_and_end
        fi
        [ "$launch_bytes" -eq 0 ] || cut "$directory/launch.sh" 0 "$launch_bytes" 700
        [ "$artifact_bytes" -eq 0 ] || extract
        if [ "$input_bytes" -ge 0 ]; then
            cut "${input_path:+$remote_dir/}${input_path:-$directory/stdin}" "$launch_bytes" \
                "$input_bytes" 600
        fi
        # Before anything is started: whoever comes after a start takes nothing away.
        rm -f "$bundle"
    fi
    # Only a lock lets the caller come again, and only then is there somebody to read the note.
    [ -n "$install_hash" ] || return 0
    if ! write_text "$directory/stage.attachd" "$bundle_name$nl"; then
        fail upload 'note the upload' "$trouble"
        give_up upload "$trouble"
    fi
}

# is_installed: the original's marker alone proves nothing, it writes it after failures too.
is_installed() {
    first='' second=''
    [ -f "$marker" ] && [ -f "$marker.attachd" ] || return 1
    IFS= read -r first <"$marker"
    IFS= read -r second <"$marker.attachd"
    [ "$first" = "$install_hash" ] && [ "$second" = "$install_hash" ]
}

# run_install: sets $code; 124 where its time was up.
run_install() {
    log=$directory/install.attachd
    # shellcheck disable=SC2016
    setsid sh -c 'cd "$1" || exit; eval "$2"' sh "$remote_dir" "$install_command" >"$log" 2>&1 &
    install_child=$!
    lock_share "$inner_lock" "$install_child"
    (
        count=0
        while [ "$count" -lt "$install_seconds" ]; do
            sleep 1
            count=$((count + 1))
        done
        : >"$directory/late.attachd"
        kill -TERM "-$install_child"
        sleep 2
        kill -KILL "-$install_child"
    ) <&- >&- 2>&- &
    guard=$!
    wait "$install_child"
    code=$?
    kill -KILL "$guard" 2>&-
    wait "$guard" 2>&-
    stop_install
    if [ -f "$directory/late.attachd" ]; then code=124; fi
    rm -f "$directory/late.attachd"
}

install() {
    phase=install
    take_inner "$remote_dir/.mastra-install-lock" install 'dependency install'
    if ! is_installed; then
        rm -f "$marker" "$marker.attachd"
        run_install
        text=$(tail -n 20 "$log" 2>&1)
        [ "$code" -eq 0 ] || text=$text$nl$(why_unwritten "$directory/room" '')
        if [ "$code" -eq 0 ] && ! { write_text "$marker" "$install_hash" &&
            write_text "$marker.attachd" "$install_hash"; }; then
            code=1 text=$trouble
        fi
        rm -f "$log"
        if [ "$code" -ne 0 ]; then
            leave_inner
            [ "$code" -ne 124 ] || say late yes
            say exit-code "$code"
            fail install 'install worker dependencies' "$text"
            give_up install "exit code $code"
        fi
    fi
    leave_inner
}

start() {
    phase=launch
    # Its boot is that of the start, which identifies the process later.
    if [ "$claim_boot" != "$boot" ] && ! write_claim "$claim_seconds"; then
        fail launch 'claim worker execution' "$trouble"
        give_up launch "$trouble"
    fi
    text=$(
        trap - PIPE TERM INT HUP
        exec sh "$directory/launch.sh" start "$startup_ms" 2>&1
    )
    code=$?
    case $code in
    0 | 75) return ;;
    69)
        say result incapable
        say_lines message "$text"
        give_up launch "$text"
        ;;
    *)
        reason=$(why_unwritten "$directory/room" '')
        text=$text${reason:+$nl$reason}
        say exit-code "$code"
        fail launch 'launch worker execution' "$text"
        give_up launch "$text"
        ;;
    esac
}

trap interrupted TERM INT HUP
identify
take_execution
read_claim
if [ "$claim_job" != "$job" ]; then
    leave_execution
    say result foreign
    answer_and_end
fi
look_at_execution >&2
if ! is_launched; then
    unpack
    [ -z "$install_hash" ] || install
    start
fi
lock_release "$directory/attachd.lock" "$execution_beater" \
    "$directory/stage.attachd" "${bundle%.0}".*
say result launched
show_facts
answer_and_end
