#!/bin/sh
# Assembles the root directory of the image: the binary, what it and the driver's library load, and what a program
# expects of a system. Needs Debian or a derivative, of the architecture of the binary.
# Usage: root.sh BINARY DIRECTORY
# Files of a release beside the binary, such as its bill of materials, are added.
set -eu
binary=$1 root=$2
here=$(cd "$(dirname "$0")" && pwd)

# Arguments: mode, file, path in the image.
add() { install -D -m "$1" "$2" "$root/$3"; }

umask 022
add 755 "$binary" usr/bin/phasemeter
documents=usr/share/doc/phasemeter
add 644 "$here/../../LICENSE" $documents/LICENSE
for document in "$(dirname "$binary")"/phasemeter.*.json; do
    if [ -e "$document" ]; then add 644 "$document" "$documents/${document##*/}"; fi
done

# The loader is at the path that programs name. The other libraries are in the directory of the architecture, where
# the loader finds them, and NVIDIA's container runtime puts the driver's if the system is Debian.
loader=$(ldd "$binary" | sed -n 's/^\t\(\/[^ ]*\) .*/\1/p')
libraries=$(ldd "$binary" | sed -n 's/.* => \(.*\)\/libc\.so\.6 .*/\1/p')
add 755 "$loader" "${loader#/}"
# The driver's library needs libdl, libpthread and librt by name: since glibc 2.34 they are empty.
for library in libc.so.6 libm.so.6 libgcc_s.so.1 libdl.so.2 libpthread.so.0 librt.so.1; do
    add 644 "$libraries/$library" "${libraries#/}/$library"
done

# Roots of trust, for backends with TLS.
add 644 /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ca-certificates.crt
# NVIDIA's container runtime looks for this file.
for file in /etc/debian_version /etc/os-release; do
    if [ -e $file ]; then add 644 $file "${file#/}"; fi
done
# Scanners for vulnerabilities look here for the packages of an image without a package manager.
for package in libc6 libgcc-s1 ca-certificates; do
    if status=$(dpkg-query --status $package 2>/dev/null); then
        mkdir -p "$root/var/lib/dpkg/status.d"
        echo "$status" >"$root/var/lib/dpkg/status.d/$package"
    fi
done

cat >"$root/etc/passwd" <<END
root:x:0:0:root:/:/sbin/nologin
phasemeter:x:65532:65532:phasemeter:/nonexistent:/sbin/nologin
END
cat >"$root/etc/group" <<END
root:x:0:
phasemeter:x:65532:
END
chmod 644 "$root/etc/passwd" "$root/etc/group"
# Paths of volumes, so that they exist in a root that is read-only.
mkdir -p "$root/run/phasemeter" "$root/var/lib/phasemeter" "$root/tmp"
chmod 1777 "$root/tmp"
