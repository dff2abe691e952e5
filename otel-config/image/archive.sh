#!/bin/sh
# Packs directories as the layers of a container image, into an OCI archive that any container engine imports. Needs
# neither an engine nor a registry. The same files give the same bytes.
# Usage: archive.sh ARCHIVE NAME CONTAINERFILE ARCHITECTURE=DIRECTORY...
# ARCHITECTURE is amd64 or arm64. The layers of one follow each other; each is a platform of the image.
# Entry point, user, environment and labels are those of the last stage of CONTAINERFILE, one per line. In labels,
# $VERSION and $REVISION are replaced by the variables of these names.
set -eu
archive=$1 name=$2 containerfile=$3
shift 3

layout=$(mktemp -d)
trap 'rm -rf "$layout"' EXIT
blobs=$layout/blobs/sha256
mkdir -p "$blobs"

digest() { sha256sum "$1" | cut -d ' ' -f 1; }
# Moves a file among the blobs; prints its descriptor without the closing brace. Arguments: type, file.
blob() {
    sum=$(digest "$2") size=$(wc -c <"$2")
    mv "$2" "$blobs/$sum"
    printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d' "$1" "$sum" "$size"
}

# Quoted values are JSON strings as they are.
settings=$(sed "s|\$VERSION|${VERSION:-unknown}|; s|\$REVISION|${REVISION:-unknown}|" "$containerfile" | awk '
    # A list of the values of an instruction, which is empty in a new stage.
    function add(list, value) { return list (list == "" ? "" : ",") value }
    function pair(text, at) { at = index(text, "="); return "\"" substr(text, 1, at - 1) "\":" substr(text, at + 1) }
    { instruction = $1; value = $0; sub(/^[A-Z]+ +/, "", value) }
    instruction == "FROM" { entry = user = env = labels = "" }
    instruction == "ENTRYPOINT" { entry = value }
    instruction == "USER" { user = value }
    instruction == "ENV" { sub(/="/, "=", value); env = add(env, "\"" value) }
    instruction == "LABEL" { labels = add(labels, pair(value)) }
    END {
        if (entry != "") printf "\"Entrypoint\":%s,", entry
        if (user != "") printf "\"User\":\"%s\",", user
        printf "\"Env\":[%s],\"Labels\":{%s}", env, labels
    }')

manifests= tagged=
# Adds the platform whose layers were added since the last call.
add_platform() {
    platform="\"architecture\":\"$architecture\",\"os\":\"linux\""
    printf '{%s,"config":{%s},"rootfs":{"type":"layers","diff_ids":[%s]}}' "$platform" "$settings" "$unpacked" \
        >"$layout/config"
    config_file=blobs/sha256/$(digest "$layout/config")
    config=$(blob config.v1+json "$layout/config")'}'
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
        "$config" "$layers" >"$layout/manifest"
    manifests=$manifests${manifests:+,}$(blob manifest.v1+json "$layout/manifest")",\"platform\":{$platform}}"
    # What `docker load` reads: without containerd's store of images it takes one platform, the first.
    if [ -z "$tagged" ]; then
        tagged="[{\"Config\":\"$config_file\",\"RepoTags\":[\"$name\"],\"Layers\":[$files]}]"
    fi
    layers= unpacked= files=
}

architecture= layers= unpacked= files=
for layer in "$@"; do
    if [ -n "$architecture" ] && [ "$architecture" != "${layer%%=*}" ]; then add_platform; fi
    architecture=${layer%%=*}
    tar --create --file "$layout/layer" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 \
        --directory "${layer#*=}" .
    unpacked=$unpacked${unpacked:+,}\"sha256:$(digest "$layout/layer")\"
    gzip -n -1 "$layout/layer"
    files=$files${files:+,}\"blobs/sha256/$(digest "$layout/layer.gz")\"
    layers=$layers${layers:+,}$(blob layer.v1.tar+gzip "$layout/layer.gz")'}'
done
add_platform

index='"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json"'
printf '{%s,"manifests":[%s]}' "$index" "$manifests" >"$layout/index"
names="\"io.containerd.image.name\":\"$name\",\"org.opencontainers.image.ref.name\":\"${name##*:}\""
printf '{%s,"manifests":[%s,"annotations":{%s}}]}' "$index" "$(blob index.v1+json "$layout/index")" "$names" \
    >"$layout/index.json"
printf '%s' "$tagged" >"$layout/manifest.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
mkdir -p "$(dirname "$archive")"
tar --create --file "$archive" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --directory "$layout" .
