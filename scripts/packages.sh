#!/bin/bash
# packages.sh: what rollcall needs of Debian 12 or 13 (the names of `build` are the
# same on Ubuntu 24.04, where it has not been tried; `check` needs Debian 12).
#
#   packages.sh build   installs what is missing to build it
#   packages.sh test    and to test it and to measure it beside others
#   packages.sh check   and to fuzz it, to check its format, to analyse it, and to
#                       try it on other releases
#   packages.sh torch   makes a Python environment outside of the clone, in
#                       ROLLCALL_TORCH_VENV (default ~/.cache/rollcall/torch):
#                       transformers from PyPI over Debian's torch, for one
#                       end-to-end test
#   packages.sh list build|test|check|torch   prints the names
#
# As root, or with sudo. Says what it does, and does nothing where nothing is
# missing.
set -eu -o pipefail

build=(
  build-essential cmake ninja-build pkg-config
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libabsl-dev libc-ares-dev libre2-dev libssl-dev libzstd-dev zlib1g-dev
  libsqlite3-dev
  libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libgtest-dev
  libgloo-dev libopenblas-dev libibverbs-dev
  python3 iproute2
)
tests=("${build[@]}" python3-torch openmpi-bin nftables openssl util-linux
       elfutils etcd-server ccache)
check=("${tests[@]}" clang-14 libclang-rt-14-dev clang-tidy-14 clang-format-14
       debootstrap)
torch=(python3 python3-venv python3-torch python3-numpy)

names() {
  case $1 in
    build) echo "${build[@]}" ;;
    test) echo "${tests[@]}" ;;
    check) echo "${check[@]}" ;;
    torch) echo "${torch[@]}" ;;
    *) echo "packages.sh: build, test, check or torch, not '$1'" >&2; exit 2 ;;
  esac
}

# The environment; does nothing where it is whole.
make_torch_environment() {
  local folder=${ROLLCALL_TORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall/torch}
  local python=$folder/bin/python3 versions
  if "$python" -c 'import torch, transformers' 2>/dev/null; then
    echo "packages: $folder is there"
    return
  fi
  # The last versions that go with torch 1 (Debian 12) and numpy 1.
  case $(/usr/bin/python3 -c 'import torch; print(torch.__version__)') in
    1.*) versions=(transformers==4.30.2 'numpy<2') ;;
    *) versions=('transformers>=4.48,<5') ;;
  esac
  if [ -e "$folder" ] && [ ! -e "$folder/pyvenv.cfg" ]; then
    echo "packages.sh: $folder is no Python environment; remove it, or set" \
      "ROLLCALL_TORCH_VENV to another folder" >&2
    exit 1
  fi
  echo "packages: making $folder with ${versions[*]}"
  rm -rf "$folder"
  /usr/bin/python3 -m venv --system-site-packages "$folder"
  if ! { "$folder/bin/pip" install -q "${versions[@]}" &&
         "$python" -c 'import torch, transformers'; }; then
    rm -rf "$folder"
    echo "packages.sh: $folder could not be made" >&2
    exit 1
  fi
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
  [ "$1" != torch ] || make_torch_environment
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
[ "$1" != torch ] || make_torch_environment
