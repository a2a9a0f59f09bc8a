#!/bin/sh
# shellcheck disable=SC2034,SC2154
# Makes room for an execution and claims its id for one job.
#
# Arguments: NONCE REMOTE_DIR EXECUTION_ID JOB_ID FROM_ID CLAIM_SECONDS STALE CPU ADDRESS_SPACE
# FILE_SIZE OPEN_FILES TOOL ... REMOTE_DIR empty: the default. FROM_ID: the execution whose
# launch is to be run again; empty: none. STALE: see lock.sh. A limit that is empty is none.
#
# Answers "remote-dir" and "result": no-home, ready (the id is this job's, nothing has begun), launched (by this job,
# the facts follow), foreign (somebody else's), busy (see "lock"), no-launch (FROM_ID has no
# launch that could be run again), missing (see "tool"), failed (see "phase", "what",
# "message").
# Behind look.sh, lock.sh, claim.sh, preflight.sh.

nonce=$1 remote_dir=$2 execution_id=$3 job=$4 from=$5 claim_seconds=$6 stale=$7
limits="$8|$9|${10}|${11}"
shift 7
cpu=$1 address_space=$2 file_size=$3 open_files=$4
shift 4
answer='' phase=upload trouble=''
trap '' PIPE

if [ "$limits" != '|||' ]; then
    preflight "$cpu" "$address_space" "$file_size" "$open_files" || exit 1
fi
need_tools mkdir rmdir rm mv "$@"

if ! find_remote_dir; then
    say result no-home
    answer_and_end
fi
say remote-dir "$remote_dir"
directory=$remote_dir/.mastra/executions/$execution_id
identify

if [ -n "$from" ]; then
    recorded=$remote_dir/.mastra/executions/$from/launch.sh
    first='' second=''
    if [ -f "$recorded" ] && [ ! -h "$recorded" ] && [ -r "$recorded" ]; then
        {
            read_line
            read_line
            second=$line
        } <"$recorded"
    fi
    case $second in
    '# attachd launch'*) ;;
    *)
        say result no-launch
        answer_and_end
        ;;
    esac
fi

# The directory is the claim: whoever else finds it without a claim of ours in it leaves it
# alone. What stands in the way of the parents is told by mkdir's own words.
made=no
if [ ! -d "$directory" ]; then
    if [ ! -d "${directory%/*}" ]; then
        trouble=$(mkdir -p "${directory%/*}" 2>&1)
    fi
    if text=$(mkdir -m 700 "$directory" 2>&1); then
        made=yes
    elif [ ! -d "$directory" ]; then
        fail upload 'create worker execution namespace' "${trouble:-$text}"
        answer_and_end
    fi
fi

take_execution
look_at_execution >&2
read_claim

outcome=ready
if [ -z "$claim_job" ]; then
    # A directory of the original has no claim. One that holds no launch yet may be a deploy of
    # the original that is still at work, or one that failed; ours are claimed when made.
    [ "$made" = yes ] || outcome=foreign
    if [ -z "$record" ] && [ ! -e "$directory/launch.sh" ]; then outcome=ready; fi
elif [ "$claim_job" != "$job" ]; then
    # Somebody else's that failed, or whose time is up without a beginning, is free again.
    if is_launched; then
        outcome=foreign
    elif [ -z "$record" ]; then
        now=$(date +%s 2>&1)
        case $now$claim_until in
        '' | *[!0-9]*) outcome=foreign ;;
        *) [ -n "$claim_until" ] && [ "$now" -gt "$claim_until" ] || outcome=foreign ;;
        esac
    fi
elif is_launched; then
    outcome=launched
fi

if [ "$outcome" = ready ]; then
    # What an earlier try has left; of a directory just made there is none.
    if [ "$made" = no ]; then
        sweep
        rm -f "$directory/status" "$directory/stdout" "$directory/stderr" \
            "$directory"/attachd.launcher*
    fi
    if ! write_claim "$claim_seconds"; then
        fail upload 'claim worker execution' "$trouble"
        outcome=''
    fi
fi
leave_execution
if [ -z "$outcome" ]; then
    # Nothing of ours is to stand in the way of the next try.
    [ "$made" = no ] || rmdir "$directory" 2>&-
    answer_and_end
fi
say result "$outcome"
[ "$outcome" != launched ] || show_facts
answer_and_end
