#!/bin/sh
# Prints a PATH with the programs of a Kubernetes node: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
# kubelet, kubectl; containerd, its shim, ctr, runc and CNI plugins; helm and helm-docs; gpu-plugin and pause of this
# directory; and of a file with custom resource definitions, prometheus-operator.yaml. Builds them the first time, into the user's cache directory, keyed by their inputs, and prints how long each takes to standard
# error. If NODE_PROGRAMS is set, prints that. Needs Go 1.26, a C compiler, pkg-config and libseccomp-dev, which
# apt-get downloads if it is not installed.
set -eu

if [ -n "${NODE_PROGRAMS:-}" ]; then
    echo "$NODE_PROGRAMS"
    exit
fi
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/phasemeter/kubernetes
for program in go cc pkg-config; do
    if ! command -v $program >/dev/null; then
        echo "$0: no $program: install Go 1.26, a C compiler and pkg-config, or set NODE_PROGRAMS=/path/to/programs" >&2
        exit 69
    fi
done

# Each build has its own directory: builds may run concurrently, and an interrupted one leaves nothing behind.
mkdir -p "$cache"
work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Builds a package in the current directory, unless the program is there.
# Arguments: directory of the program, its name, package, flags of `go build`.
build() {
    directory=$1 program=$2 package=$3
    shift 3
    if [ -x "$directory/$program" ]; then return; fi
    began=$(date +%s)
    CGO_ENABLED=${CGO_ENABLED:-0} go build -mod=readonly -buildvcs=false -trimpath "$@" -o "$work/$program" "$package" >&2
    mkdir -p "$directory"
    mv "$work/$program" "$directory"
    echo "built $program in $(($(date +%s) - began)) s" >&2
}

# The directory of programs with these inputs.
directory() {
    echo "$cache/$(cat build.sh "$@" | sha256sum | cut -c -16)"
}

# Prints where libseccomp's header and static library are, as variables of pkg-config.
libseccomp() {
    if pkg-config --exists libseccomp; then return; fi
    if ! (cd "$work" && apt-get download libseccomp-dev && dpkg-deb -x libseccomp-dev*.deb libseccomp) >"$work/log" 2>&1
    then
        cat "$work/log" >&2
        echo "$0: no libseccomp, which runc needs: install libseccomp-dev" >&2
        exit 69
    fi
    echo "PKG_CONFIG_SYSROOT_DIR=$work/libseccomp"
    echo "PKG_CONFIG_LIBDIR=$(dirname "$work"/libseccomp/usr/lib/*/pkgconfig/libseccomp.pc)"
}

kubernetes=$(directory go.mod go.sum)
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
# Without it, the programs report version v0.0.0.
stamp=k8s.io/component-base/version
stamp="-X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$(echo "$version" | cut -d . -f 2)"
build "$kubernetes" etcd go.etcd.io/etcd/server/v3 -ldflags='-s -w'
for program in kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet; do
    build "$kubernetes" $program k8s.io/kubernetes/cmd/$program -ldflags="-s -w $stamp"
done
plugin=$(directory go.mod go.sum gpu-plugin/*.go pause.c)
build "$plugin" gpu-plugin ./gpu-plugin -ldflags='-s -w'
if [ ! -x "$plugin/pause" ]; then
    cc -O2 -static -o "$work/pause" pause.c
    mv "$work/pause" "$plugin"
fi

# With the version of Kubernetes for which `helm template` renders.
helm=$(directory helm/go.mod helm/go.sum prometheus-operator/go.mod prometheus-operator/go.sum)
minor=$(echo "$version" | cut -d . -f 2)
stamp=
for package in chartutil lint/rules; do
    stamp="$stamp -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$minor"
done
cd helm
build "$helm" helm helm.sh/helm/v3/cmd/helm -ldflags="-s -w $stamp"
build "$helm" helm-docs github.com/norwoodj/helm-docs/cmd/helm-docs -ldflags='-s -w'
cd ../prometheus-operator
if [ ! -e "$helm/prometheus-operator.yaml" ]; then
    go mod download
    definitions=$(go list -m -f '{{.Dir}}' github.com/prometheus-operator/prometheus-operator)/example/prometheus-operator-crd
    for kind in podmonitors servicemonitors prometheusrules; do
        cat "$definitions/monitoring.coreos.com_$kind.yaml"
    done >"$work/definitions"
    mv "$work/definitions" "$helm/prometheus-operator.yaml"
fi
cd ..

cd containerd
containerd=$(cd .. && directory containerd/go.mod containerd/go.sum)
for program in containerd containerd-shim-runc-v2 ctr; do
    build "$containerd" $program github.com/containerd/containerd/v2/cmd/$program -ldflags='-s -w'
done
for program in main/ptp main/loopback ipam/host-local; do
    build "$containerd" ${program#*/} github.com/containernetworking/plugins/plugins/$program -ldflags='-s -w'
done
if [ ! -x "$containerd/runc" ]; then
    variables=$(libseccomp)
    if [ -n "$variables" ]; then export $variables; fi
    export CGO_ENABLED=1
    build "$containerd" runc github.com/opencontainers/runc -tags 'seccomp netgo osusergo' \
        -ldflags='-s -w -linkmode external -extldflags -static'
fi
echo "$kubernetes:$containerd:$plugin:$helm"
