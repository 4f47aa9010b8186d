#!/bin/bash
# copyright.sh LICENSE: the `copyright` file of the Debian packages, to stdout:
# rollcall's own license, and those of the libraries that are linked in, as their
# own packages have them.
set -eu -o pipefail
linked=(libgrpc-dev libprotobuf-dev libabsl-dev libre2-dev libc-ares-dev
        libssl-dev libzstd-dev zlib1g-dev libsqlite3-dev libyaml-cpp-dev
        libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libboost-dev
        libopenblas-dev libstdc++-12-dev)
echo "rollcall"
echo
cat "$1"
for package in "${linked[@]}"; do
  file=/usr/share/doc/$package/copyright
  if [ "$package" = libstdc++-12-dev ] && [ ! -e "$file" ]; then
    # The release has another compiler version.
    file=$(compgen -G '/usr/share/doc/libstdc++-[0-9]*-dev/copyright' | tail -1)
  fi
  printf '\n%s\nLinked in: %s\n\n' "$(printf -- '-%.0s' {1..78})" "$package"
  cat "$file"
done
