#!/usr/bin/env bash
# Runs the tests that depend on time, ports or the driver ROUNDS times (10) in a row beside SPINNERS
# busy processes (4). With libfaketime (Debian: faketime) it also runs those of the binary with its
# clock seconds before a whole hour and before New Year. Stops its processes itself.
# TARGETS are the test targets, if not all of them.
# Usage: stress.sh [TEST_NAME_FILTER]...
set -uo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-10}
filters=("$@")
read -ra targets <<<"${TARGETS:-wrapper delivery receiver reload live gateway record collector audit}"
spinners=()
stop() { kill "${spinners[@]}" 2>/dev/null; }
trap stop EXIT
trap 'exit 130' INT TERM

if ! command -v python3 >/dev/null; then
    echo 'error: no Python, which finds the test executables: nothing is tested' >&2
    exit 1
fi
# The executables of these test targets. With the whole workspace, so that what `make test` built is used.
built=$(cargo test --workspace --locked --no-run --message-format json-render-diagnostics \
    "${targets[@]/#/--test=}") || exit
executables() {
    python3 -c '
import json, sys
for line in sys.stdin:
    it = json.loads(line)
    if it.get("executable") and it["profile"]["test"] and "test" in it["target"]["kind"]:
        print(it["manifest_path"].rsplit("/", 1)[0], it["executable"])' <<<"$built"
}

failures=0
# Runs one executable in its package directory, as cargo does: DIRECTORY EXECUTABLE [ARGUMENT]...
run() {
    local directory=$1 executable=$2
    shift 2
    (cd "$directory" && "$executable" --quiet "$@" "${filters[@]}") || {
        echo "FAILED: $executable $*"
        failures=$((failures + 1))
    }
}

for ((i = 0; i < ${SPINNERS:-4}; i++)); do
    # Ends by itself too, should this script be killed.
    timeout 4h sh -c 'while :; do :; done' &
    spinners+=($!)
done

for ((round = 1; round <= rounds; round++)); do
    echo "==> round $round of $rounds"
    while read -r directory executable; do
        run "$directory" "$executable"
    done < <(executables)
done

# The tests of the binary, whose support code adds PHASEMETER_TEST_ENV to its environment only.
library=$(ls /usr/lib/*/faketime/libfaketime.so.1 /usr/lib64/faketime/libfaketime.so.1 2>/dev/null)
if [ -z "$library" ]; then
    echo 'SKIPPED: faked clocks (no libfaketime): install faketime'
else
    # Short runs cross the hour from 59 seconds on, longer ones or a busy machine from 57.
    for clock in '2026-11-22 07:59:'{57,59} '2026-12-31 23:59:'{57,59}; do
        echo "==> clock of the binary at $clock"
        export PHASEMETER_TEST_ENV="LD_PRELOAD=$library;FAKETIME=@$clock;TZ=UTC;DONT_FAKE_MONOTONIC=1;FAKETIME_DONT_FAKE_MONOTONIC=1"
        filters=(run:: exports:: lost:: telemetry:: traces:: policy_reload::)
        while read -r directory executable; do
            case $executable in */live-*) run "$directory" "$executable" ;; esac
        done < <(executables)
        unset PHASEMETER_TEST_ENV
    done
fi

echo "$failures failures"
[ "$failures" = 0 ]
