#!/bin/sh
# Unpacks the libraries of the image for another architecture than this machine's, with their entries in dpkg's database.
# They are Debian's packages of the release that this machine has, with its updates. Needs apt, and not root.
# Usage: libraries.sh ARCHITECTURE DIRECTORY
set -eu
architecture=$1 root=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$root/var/lib/dpkg"
: >"$work/status"
# With lists of its own: those of the machine may lack the architecture.
cat >"$work/apt.conf" <<END
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State "$work";
Dir::State::status "$work/status";
Dir::Cache "$work";
END
export APT_CONFIG="$work/apt.conf"
apt-get --quiet=2 update
: >"$root/var/lib/dpkg/status"
(cd "$work" && apt-get --quiet=2 download libc6 libgcc-s1)
for package in "$work"/*.deb; do
    dpkg-deb --extract "$package" "$root"
    { dpkg-deb --field "$package" && printf 'Status: install ok installed\n\n'; } >>"$root/var/lib/dpkg/status"
done
