#!/bin/sh
# Prints the path of the Jaeger that go.mod names (2.13.0: its modules are numbered as version 1). Builds it the first
# time, into the user's cache directory, keyed by go.mod and go.sum. Needs Go 1.26. If JAEGER is set, prints that.
set -eu

if [ -n "${JAEGER:-}" ]; then
    echo "$JAEGER"
    exit
fi
cd "$(dirname "$0")"
key=$(cat go.mod go.sum build.sh | sha256sum | cut -c -16)
directory=${XDG_CACHE_HOME:-$HOME/.cache}/phasemeter/jaeger/$key

if [ ! -x "$directory/jaeger" ]; then
    if ! command -v go >/dev/null; then
        echo "$0: no Go: install Go 1.26, or set JAEGER=/path/to/jaeger" >&2
        exit 69
    fi
    mkdir -p "$directory"
    # Builds may run concurrently, and an interrupted one leaves nothing behind.
    work=$(mktemp -d "$directory/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # Its web page is not part of the module.
    CGO_ENABLED=0 go build -ldflags='-s -w' -o "$work/jaeger" github.com/jaegertracing/jaeger/cmd/jaeger >&2
    mv "$work/jaeger" "$directory"
fi
echo "$directory/jaeger"
