#!/bin/sh
# Prints the path of the Prometheus that go.mod names. Builds it and promtool, which is put beside it, the
# first time, into the user's cache directory, keyed by go.mod and go.sum. Needs Go 1.26. If PROMETHEUS is set, prints that.
set -eu

if [ -n "${PROMETHEUS:-}" ]; then
    echo "$PROMETHEUS"
    exit
fi
cd "$(dirname "$0")"
key=$(cat go.mod go.sum build.sh | sha256sum | cut -c -16)
directory=${XDG_CACHE_HOME:-$HOME/.cache}/phasemeter/prometheus/$key

if [ ! -x "$directory/prometheus" ]; then
    if ! command -v go >/dev/null; then
        echo "$0: no Go: install Go 1.26, or set PROMETHEUS=/path/to/prometheus" >&2
        exit 69
    fi
    mkdir -p "$directory"
    # Builds may run concurrently, and an interrupted one leaves nothing behind.
    work=$(mktemp -d "$directory/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # Without service discovery, which is most of its dependencies. Its web page is not built.
    for program in promtool prometheus; do
        CGO_ENABLED=0 go build -tags remove_all_sd -o "$work/$program" \
            "github.com/prometheus/prometheus/cmd/$program" >&2
        mv "$work/$program" "$directory"
    done
fi
echo "$directory/prometheus"
