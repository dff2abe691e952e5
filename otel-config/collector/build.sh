#!/bin/sh
# Prints the path of the Collector that builder.yaml describes. Builds it the first time, into the
# user's cache directory, keyed by its inputs. Needs Go 1.26. If OTELCOL is set, prints that.
#
# go.mod and go.sum pin all modules. After changing the manifest, copy the two that
# `builder --config builder.yaml --skip-compilation` writes.
set -eu

# Must match the version of the components.
builder=go.opentelemetry.io/collector/cmd/builder@v0.161.0

if [ -n "${OTELCOL:-}" ]; then
    echo "$OTELCOL"
    exit
fi
here=$(cd "$(dirname "$0")" && pwd)
key=$(cd "$here" && cat build.sh builder.yaml go.mod go.sum | sha256sum | cut -c -16)
directory=${XDG_CACHE_HOME:-$HOME/.cache}/phasemeter/otelcol/$key

if [ ! -x "$directory/otelcol" ]; then
    if ! command -v go >/dev/null; then
        echo "$0: no Go: install Go 1.26, or set OTELCOL=/path/to/otelcol" >&2
        exit 69
    fi
    mkdir -p "$directory"
    # Each build has its own directory: builds may run concurrently, and an interrupted one leaves
    # nothing behind.
    work=$(mktemp -d "$directory/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cp "$here/builder.yaml" "$work"
    cd "$work"
    # Static, so that it runs on any Linux.
    export CGO_ENABLED=0
    GOBIN=$work go install "$builder" >&2
    ./builder --config builder.yaml --skip-get-modules --skip-compilation >&2
    cp "$here/go.mod" "$here/go.sum" build
    # Prometheus' service discovery is left out: the SDKs of all clouds are half of the source.
    (cd build && go build -mod=readonly -tags remove_all_sd -trimpath -ldflags='-s -w' -o otelcol .) >&2
    mv build/otelcol "$directory"
fi
echo "$directory/otelcol"
