#!/bin/sh
# Says where the Collector is that builder.yaml describes. Builds it first where it is not there yet:
# into target/collector/, in a folder named by the manifest's digest. Needs Go; OTELCOL=/path/to/otelcol
# takes one that is there.
set -eu

# The builder has the version of the components.
builder=go.opentelemetry.io/collector/cmd/builder@v0.161.0

if [ -n "${OTELCOL:-}" ]; then
    echo "$OTELCOL"
    exit
fi
cd "$(dirname "$0")/../.."
manifest=otel-config/collector/builder.yaml
folder=$PWD/target/collector/$(sha256sum "$manifest" | cut -c -16)

if [ ! -x "$folder/otelcol" ]; then
    if ! command -v go >/dev/null; then
        echo "$0: this needs Go 1.26; or name a Collector that is there: OTELCOL=/path/to/otelcol" >&2
        exit 69
    fi
    mkdir -p "$folder"
    # A folder of its own: it may be built twice at a time, and an interrupted build leaves nothing.
    work=$(mktemp -d "$folder/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cp "$manifest" "$work"
    cd "$work"
    # Without C it runs on any Linux.
    export CGO_ENABLED=0
    GOBIN=$work go install "$builder" >&2
    ./builder --config builder.yaml >&2
    mv build/otelcol "$folder"
fi
echo "$folder/otelcol"
