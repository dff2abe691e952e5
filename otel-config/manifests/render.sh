#!/bin/sh
# Renders the manifests of this directory from the Helm chart, and the chart's README.md from its values.yaml. Needs helm
# and helm-docs.
# Usage: render.sh DIRECTORY README
set -eu
directory=$1 readme=$2
chart=$(cd "$(dirname "$0")/../chart" && pwd)

for name in agent agent-dra gateway; do
    {
        echo "# Rendered from otel-config/chart with ci/$name-values.yaml: make manifests."
        # What helps Helm only.
        helm template phasemeter "$chart" --namespace phasemeter --values "$chart/ci/$name-values.yaml" 2>/dev/null |
            grep --invert-match --extended-regexp '^# Source: |managed-by: Helm|helm.sh/chart:'
    } >"$directory/$name.yaml"
done
# helm-docs writes into the chart's directory, and follows no links.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp "$chart/Chart.yaml" "$chart/values.yaml" "$chart/README.md.gotmpl" "$copy"
helm-docs --log-level warning --chart-search-root "$copy" --output-file README.md --sort-values-order file >&2
cp "$copy/README.md" "$readme"
