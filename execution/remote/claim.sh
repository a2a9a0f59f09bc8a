#!/bin/sh
# shellcheck disable=SC2034,SC2154
# Functions of programs that act on one execution for one job.
#
# What they answer, apart from the facts of look.sh, is lines "NONCE KEY VALUE". Nothing is
# printed before the work is done: a caller that has gone is no reason to stop half way.

# say KEY VALUE
say() {
    answer="$answer$nonce $1 $2$nl"
}

# say_lines KEY TEXT: the end of TEXT, a line each.
say_lines() {
    text=$2
    while [ "${#text}" -gt 2000 ]; do
        case $text in
        *"$nl"*) text=${text#*"$nl"} ;;
        *) text=$(printf '%.2000s' "$text") ;;
        esac
    done
    set -f
    IFS=$nl
    for line in $text; do say "$1" "$line"; done
    unset IFS
    set +f
}

# answer_and_end: prints the answer, the facts where they are wanted, and ends.
answer_and_end() {
    printf '\n%s' "$answer"
    exit 0
}

# show_facts: what look.sh sees of the execution, framed as look.c reads it.
show_facts() {
    begin_answer
    look_at_execution
    printf 'attachd-end %s\n' "$nonce"
}

# fail PHASE WHAT TEXT: what went wrong for good, in a step that changed nothing to stay.
fail() {
    say result failed
    say phase "$1"
    say what "$2"
    say_lines message "$3"
}

# need_tools NAME ...: ends with the name of the first that is missing.
need_tools() {
    for tool; do
        # Forks nothing, where $(command -v ...) would.
        hash "$tool" 2>&- && continue
        say result missing
        say tool "$tool"
        answer_and_end
    done
}

# write_text FILE TEXT: whole or not at all; $trouble says why not.
write_text() {
    trouble='It could not be written.'
    printf '%s' "$2" 2>&- >"$1.attachd" && trouble=$(mv -f "$1.attachd" "$1" 2>&1) && return 0
    rm -f "$1.attachd"
    trouble=$(why_unwritten "$1" "$trouble")
    return 1
}

# take_execution: the execution's own lock, or the end with who has it.
take_execution() {
    lock_try "$directory/attachd.lock" "$stale"
    case $? in
    0)
        lock_beats "$directory/attachd.lock"
        execution_beater=$lock_beater
        ;;
    1)
        say result busy
        say lock "execution $lock_live $lock_seen"
        answer_and_end
        ;;
    *) end_without_room "$lock_error" ;;
    esac
}

# end_without_room TEXT: ends where no lock can be held. What was uploaded makes room; a lock
# without a name is enough to look, or to give up.
end_without_room() {
    trouble=$1
    read_claim
    if [ "$claim_job" = "$job" ]; then
        rm -f "$directory"/bundle.attachd.*
        if lock_briefly "$directory/attachd.lock" "$stale"; then
            execution_beater=''
            read_claim
            look_at_execution >&2
            if [ "$claim_job" = "$job" ] && ! is_launched; then
                fail "$phase" 'lock the execution' "$trouble"
                give_up "$phase" "$trouble"
            fi
            leave_execution
            if [ "$claim_job" = "$job" ]; then
                say result launched
                show_facts
                answer_and_end
            fi
        fi
    fi
    fail "$phase" 'lock the execution' "$trouble"
    answer_and_end
}

leave_execution() {
    lock_release "$directory/attachd.lock" "$execution_beater"
}

# read_claim: sets $claim_job, $claim_boot and $claim_until from the claim, empty where there
# is none.
read_claim() {
    claim_job='' claim_boot='' claim_until='' line=''
    [ -f "$directory/attachd" ] && [ ! -h "$directory/attachd" ] || return
    while read_line; do
        case $line in
        'job '*) claim_job=${line#job } ;;
        'boot '*) claim_boot=${line#boot } ;;
        'until '*) claim_until=${line#until } ;;
        esac
    done <"$directory/attachd"
}

# write_claim SECONDS: for so long nobody else may take the execution's id.
write_claim() {
    now=$(date +%s 2>&1)
    case $now in
    '' | *[!0-9]*) claim_until='' ;;
    *) claim_until=$((now + $1)) ;;
    esac
    write_text "$directory/attachd" "job $job${nl}boot $boot$nl${claim_until:+until $claim_until$nl}"
}

# sweep: takes away what an earlier try of a deploy has left, but for the claim.
sweep() {
    rm -f "$directory"/bundle.attachd.* "$directory/launch.sh" "$directory/stdin" \
        "$directory"/*.attachd
}

# is_launched: whether the record or a live process says that this execution has begun.
# Needs the look's $record and $live. A deploy that failed before its program ran left nothing
# to keep; one that did not start in time was ended.
is_launched() {
    [ "$live" = yes ] && return 0
    case $record in
    '' | "failed|$execution_id|"*) return 1 ;;
    "starting|$execution_id"*)
        # A launcher that died before it started anything.
        [ "$proc" = no ] || [ "$launcher" = yes ] || [ -n "$pid" ]
        ;;
    "timed_out|$execution_id|startup"*) [ "$claim_job" = "$job" ] ;;
    *) return 0 ;;
    esac
}

# give_up PHASE TEXT: what a failed deploy leaves is its record, or nothing at all where there
# is no room for one; the id is free again either way. Ends the program.
give_up() {
    sweep
    text=$(printf '%.300s' "$2" | tr '|\r\n' '   ')
    if ! write_text "$directory/status" "failed|$execution_id|$1|$text$nl"; then
        rm -f "$directory/status" "$directory/attachd" "$directory/stdout" "$directory/stderr"
    fi
    leave_execution
    rmdir "$directory" 2>&-
    answer_and_end
}
