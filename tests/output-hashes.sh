#!/usr/bin/env bash
# Prints the hash of each output of a binary over all fixtures: reports as text and JSON, OTLP, bills, and the
# demo. A change of structure alone changes none:
#
#     tests/output-hashes.sh BEFORE > before; tests/output-hashes.sh AFTER > after; diff before after
#
# Directories after the binary are read too. Both binaries must be called `phasemeter`, which is the name of the service.
set -euo pipefail
binary=$(realpath "$1")
further=("${@:2}")
cd "$(dirname "$0")/fixtures"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OTEL_SDK_DISABLED=true NO_COLOR=1
context=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01

# hash NAME ARGUMENTS...: runs the binary, and prints the hash of its outputs and its exit status.
hash() {
    local name=$1 status=0
    shift
    "$binary" "$@" > "$work/out" 2> "$work/err" || status=$?
    printf '%s %s %s\n' "$(cat "$work/out" "$work/err" | sha256sum | cut -c1-16)" "$status" "$name"
}

hash demo demo
# Each log beside its mapping, if it has one.
find . "${further[@]}" -type f \( -name '*.csv' -o -name '*.prom' -o -name '*.txt' -o -name '*.jsonl' -o -name '*.gz' \) | sort |
while read -r log; do
    hash "$log text" audit "$log" --explain
    hash "$log otlp" audit "$log" --format json --traceparent "$context" --otlp-file "$work/otlp" --metrics all
    cp "$work/out" "$work/report.json"
    [ -e "$work/otlp" ] && printf '%s - %s\n' "$(sha256sum < "$work/otlp" | cut -c1-16)" "$log otlp-file"
    rm -f "$work/otlp"
    [ -s "$work/report.json" ] || continue
    cd "$work"
    hash "$log bill" bill report.json
    hash "$log bill json" bill report.json --format json
    hash "$log focus" bill report.json --format focus
    hash "$log compare" compare report.json report.json
    cd - > /dev/null
done
