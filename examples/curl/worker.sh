#!/bin/sh
# A worker of Windlass with nothing but curl and a shell.
#
#   ./worker.sh TASK COMMAND [ARGUMENT…]
#
# It claims jobs of TASK one at a time and runs COMMAND for each, with the job as JSON on its
# standard input. COMMAND exits with 0 and prints the job's output, as JSON, or nothing; any other
# exit code fails the attempt, and what it wrote to standard error is the reason.
#
# WINDLASS_REST is the server (http://127.0.0.1:8080), WINDLASS_TOKEN a worker's token, and
# WINDLASS_LEASE the seconds after which another worker may have the job if this one dies (60).

set -u
[ $# -ge 2 ] || { echo "usage: $0 TASK COMMAND [ARGUMENT…]" >&2; exit 2; }
task=$1; shift
server=${WINDLASS_REST:-http://127.0.0.1:8080}
lease=${WINDLASS_LEASE:-60}
folder=$(mktemp -d) || exit 1
calling='' renewing='' running='' claim=''

# The token is in a file and not among the arguments, which every user of the machine can see.
umask 077
[ -z "${WINDLASS_TOKEN:-}" ] || echo "header = \"Authorization: Bearer $WINDLASS_TOKEN\"" > "$folder/curl"
[ -e "$folder/curl" ] || : > "$folder/curl"

# post PATH: posts standard input as JSON, and prints the answer; fails where that is a refusal.
# It becomes curl, so call it in a subshell or in the background: a signal then reaches curl itself.
post() {
    exec curl --silent --show-error --fail-with-body --config "$folder/curl" \
        --header 'Content-Type: application/json' --data-binary @- "$server$1"
}

# settle BODY: an answer that is lost is asked for again, because settling twice is safe.
settle() {
    until printf '{"outcomes":[{"lease":"%s",%s}]}' "$claim" "$1" |
        (post /v1/claims/settle) > "$folder/answer"
    do
        # A refusal is an answer, and no reason to try again.
        grep -q '"status":4' "$folder/answer" && return 1
        sleep 1
    done
}

renew() {
    trap 'kill "$nap" 2> /dev/null; exit' TERM
    while :; do
        sleep "$((lease / 3 + 1))" & nap=$!
        wait "$nap"
        printf '{"leases":["%s"],"lease":%s}' "$claim" "$lease" | (post /v1/claims/renew) > /dev/null
    done
}

# Standard input as the inside of a JSON string: its end, on one line.
quoted() {
    tail -c 2000 | tr '\n\t' '  ' | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g'
}

# read_claim: the lease in an answer to a claim, if there was a job.
read_claim() {
    claim=$(sed -n 's/^{"claims":\[{"lease":"\([^"]*\)".*/\1/p' "$folder/claims")
}

# What was claimed and is not settled goes back, and its attempt is not used.
leave() {
    trap '' TERM INT
    if [ -n "$calling" ]; then kill "$calling" 2> /dev/null; wait "$calling"; read_claim; fi
    if [ -n "$running" ]; then kill "$running" 2> /dev/null; wait "$running"; fi
    if [ -n "$renewing" ]; then kill "$renewing" 2> /dev/null; wait "$renewing"; fi
    if [ -n "$claim" ]; then settle '"outcome":"abandon"'; fi
    rm -rf "$folder"
    exit 0
}
trap leave TERM INT

while :; do
    # The answer comes as soon as there is a job, or after half a minute without one.
    printf '{"tasks":["%s"],"lease":%s,"wait":30}' "$task" "$lease" > "$folder/ask"
    post /v1/claims < "$folder/ask" > "$folder/claims" &
    calling=$!
    wait "$calling" || { calling=''; cat "$folder/claims" >&2; sleep 1; continue; }
    read_claim
    calling=''
    [ -n "$claim" ] || continue

    renew & renewing=$!
    sed 's/^{"claims":\[{"lease":"[^"]*","job"://; s/}\]}$//' "$folder/claims" > "$folder/job"
    "$@" < "$folder/job" > "$folder/output" 2> "$folder/error" &
    running=$!
    wait "$running"; code=$?
    running=''
    kill "$renewing" 2> /dev/null; wait "$renewing" 2> /dev/null; renewing=''

    if [ "$code" -eq 0 ]; then
        output=$(cat "$folder/output")
        settle "\"outcome\":\"completed\",\"output\":${output:-null}" ||
            settle '"outcome":"failed","error":"the command printed what is no JSON"'
    else
        settle "\"outcome\":\"failed\",\"error\":\"exit code $code: $(quoted < "$folder/error")\""
    fi
    claim=''
    echo "job $(sed 's/^{"id":\([0-9]*\).*/\1/' "$folder/job"): exit code $code"
done
