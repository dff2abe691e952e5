#!/bin/sh
# Assembles the root directory of the image: the binary, what it and the driver's library load, and what a program
# expects of a system. Needs Debian or a derivative.
# Usage: root.sh BINARY DIRECTORY [LIBRARIES]
# LIBRARIES is what libraries.sh has made, if the binary is for another architecture than this machine's. The bill of
# materials must be beside the binary; other files of a release are added if they are there.
set -eu
binary=$1 root=$2 libraries=${3:-}
here=$(cd "$(dirname "$0")" && pwd)

# Arguments: mode, file, path in the image.
add() { install -D -m "$1" "$2" "$root/$3"; }

# Arguments: path, mode. Packages of releases whose /lib is a link have it below /usr.
library() {
    file=$libraries/$1
    [ -e "$file" ] || file=$libraries/usr/$1
    add "$2" "$file" "$1"
}

umask 022
add 755 "$binary" usr/bin/phasemeter
documents=usr/share/doc/phasemeter
add 644 "$here/../../LICENSE" $documents/LICENSE
for document in cdx provenance; do
    file=$(dirname "$binary")/phasemeter.$document.json
    if [ -e "$file" ] || [ $document = cdx ]; then add 644 "$file" "$documents/${file##*/}"; fi
done

# The field `e_machine` of ELF.
case $(od -An -tx1 -j18 -N1 "$binary") in
    *3e) loader=lib64/ld-linux-x86-64.so.2 directory=lib/x86_64-linux-gnu ;;
    *b7) loader=lib/ld-linux-aarch64.so.1 directory=lib/aarch64-linux-gnu ;;
    *) echo "$binary: unknown architecture; expected amd64 or arm64" >&2; exit 65 ;;
esac
# The loader is at the path that programs name. The other libraries are in the directory of the architecture, where
# the loader finds them, and NVIDIA's container runtime puts the driver's if the system is Debian.
library $loader 755
# The driver's library needs libdl, libpthread and librt by name: since glibc 2.34 they are empty.
for name in libc.so.6 libm.so.6 libgcc_s.so.1 libdl.so.2 libpthread.so.0 librt.so.1; do
    library $directory/$name 644
done

# Roots of trust, for backends with TLS.
add 644 /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ca-certificates.crt
# NVIDIA's container runtime looks for this file.
for file in /etc/debian_version /etc/os-release; do
    if [ -e $file ]; then add 644 $file "${file#/}"; fi
done
# Scanners for vulnerabilities look here for the packages of an image without a package manager.
packages=$root/var/lib/dpkg/status.d
mkdir -p "$packages"
# Arguments: directory of dpkg's database, package. There may be none, as in a test's root.
list() { dpkg-query --admindir "$1/var/lib/dpkg" --status "$2" >"$packages/$2" 2>/dev/null || rm "$packages/$2"; }
list "$libraries" libc6
list "$libraries" libgcc-s1
list '' ca-certificates

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
