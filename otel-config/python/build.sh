#!/bin/sh
# Builds the wheel from a binary that is built already. The same files give the same bytes.
# Usage: build.sh BINARY DIRECTORY
set -eu
binary=$(realpath "$1")
mkdir -p "$2"
directory=$(realpath "$2")
cd "$(dirname "$0")"
tools=${TEST_TOOLCHAINS:-$(../../.ci/toolchains wheel)}
# Prints the path.
PHASEMETER_BINARY=$binary "$tools/wheel/bin/hatchling" build --target wheel --directory "$directory"
