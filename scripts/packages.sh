#!/bin/bash
# packages.sh: what rollcall needs of Debian 12 (the names are the same on Ubuntu
# 24.04, where it has not been tried).
#
#   packages.sh build   installs what is missing to build it
#   packages.sh test    and to test it and to measure it beside others
#   packages.sh check   and to check format and analyse it
#   packages.sh list build|test|check   prints the names
#
# As root, or with sudo. Says what it does, and does nothing where nothing is
# missing.
set -eu -o pipefail

build=(
  build-essential cmake ninja-build pkg-config
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libabsl-dev libc-ares-dev libre2-dev libssl-dev zlib1g-dev libsqlite3-dev
  libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libgtest-dev
  libgloo-dev libopenblas-dev
  python3 iproute2
)
tests=("${build[@]}" python3-torch openmpi-bin nftables openssl util-linux
       elfutils etcd-server clang-14 libclang-rt-14-dev)
check=("${tests[@]}" clang-tidy-14 clang-format-14)

names() {
  case $1 in
    build) echo "${build[@]}" ;;
    test) echo "${tests[@]}" ;;
    check) echo "${check[@]}" ;;
    *) echo "packages.sh: build, test or check, not '$1'" >&2; exit 2 ;;
  esac
}

if [ "${1:-}" = list ]; then
  names "${2:-}" | tr ' ' '\n'
  exit 0
fi

wanted=$(names "${1:-}")
missing=()
for name in $wanted; do
  dpkg-query -W -f '${Status}' "$name" 2>/dev/null |
    grep -q 'ok installed' || missing+=("$name")
done
if [ ${#missing[@]} = 0 ]; then
  echo "packages: all there"
  exit 0
fi
echo "packages: installing ${missing[*]}"
sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "packages.sh: needs root or sudo to install: ${missing[*]}" >&2
    exit 1
  }
  sudo=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive
     apt-get -o DPkg::Lock::Timeout=300 -q)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "${missing[@]}"
