#!/bin/sh
# Adds one job and waits for its end, with nothing but curl.
#
#   ./add.sh TASK PAYLOAD        ./add.sh resize '{"width": 100}'
#
# It prints the job once it has finished, and exits with 0 if it has completed. WINDLASS_REST and
# WINDLASS_TOKEN are as for worker.sh.

set -u
[ $# -eq 2 ] || { echo "usage: $0 TASK PAYLOAD" >&2; exit 2; }
server=${WINDLASS_REST:-http://127.0.0.1:8080}

call() {
    # The token goes through standard input, because arguments are seen by every user.
    printf '%s' "${WINDLASS_TOKEN:+header = \"Authorization: Bearer $WINDLASS_TOKEN\"}" |
        curl --silent --show-error --fail-with-body --config - "$@"
}

# Under its own key the request may be sent again where the answer is lost, and adds one job.
key="add-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
job=$(call --retry 10 --retry-connrefused --header "Idempotency-Key: $key" \
    --header 'Content-Type: application/json' \
    --data-binary "{\"task\": \"$1\", \"payload\": $2}" "$server/v1/jobs") ||
    { echo "$job" >&2; exit 1; }
id=$(printf '%s' "$job" | sed 's/^{"id":\([0-9]*\).*/\1/')

while :; do
    # 200: it has finished; 202: it has not, so wait on.
    job=$(call --write-out '\n%{http_code}' "$server/v1/jobs/$id/result?wait=30") ||
        { echo "$job" >&2; exit 1; }
    case $job in
        *"
200") job=${job%?200}; break ;;
    esac
done
printf '%s\n' "$job"
printf '%s' "$job" | grep -q '"state":"completed"'
