#!/bin/sh
# shellcheck disable=SC2034,SC2154
# Gives an execution up whose upload failed: takes away what arrived, and records why.
#
# Arguments: NONCE REMOTE_DIR EXECUTION_ID JOB_ID MESSAGE. Answers "result": failed where it
# was this job's and had not begun, else kept or busy.
# Behind look.sh, lock.sh, claim.sh.

nonce=$1 remote_dir=$2 execution_id=$3 job=$4
answer='' phase=upload trouble='' stale=''
trap '' PIPE

directory=$remote_dir/.mastra/executions/$execution_id
identify
take_execution
read_claim
look_at_execution >&2
if [ "$claim_job" != "$job" ] || is_launched; then
    leave_execution
    say result kept
    answer_and_end
fi
say result failed
give_up upload "$5"
