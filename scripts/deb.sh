#!/bin/bash
# deb.sh [FOLDER]: builds the Debian packages `rollcall` (the programs, a systemd
# unit, completion of bash, zsh and fish) and `rollcall-train` into FOLDER
# (default build/packages), and prints their paths.
set -eu -o pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/packages}")
scripts/packages.sh build
scripts/build.sh release rollcall rollcalld rollcall-train rollcall_package_files
mkdir -p "$folder"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
(cd build/release && cpack -B "$folder") >"$log" 2>&1 || {
  cat "$log" >&2
  exit 1
}
rm -rf "$folder/_CPack_Packages"
sed -n 's/^CPack: - package: \(.*\) generated\.$/\1/p' "$log"
