#!/bin/bash
# bare_root.sh RELEASE run|wheel|quickstart: tries rollcall in a bare root of a Debian
# release (bookworm, trixie, bullseye...), made by debootstrap.
#
#   run         the release binary of this tree: one launcher and two workers,
#               over TLS, in a root without ca-certificates
#   wheel       the same with the wheel of scripts/wheel.sh, by pip in an empty
#               virtual environment, with a linked Python rank on each node
#   quickstart  scripts/quickstart.sh on a clone of this tree's last commit
#
# Needs root. Everything is in one temporary folder and one mount namespace;
# both are removed at the end, even after a failure.
set -eu -o pipefail
self=$(realpath "$0")
cd "$(dirname "$self")/.."

die() { echo "bare_root.sh: $*" >&2; exit 1; }
release=${1:-} what=${2:-}
[[ $release =~ ^[a-z]+$ && $what =~ ^(run|wheel|quickstart)$ ]] || {
  sed -n '2,13s/^# \{0,1\}//p' "$self" >&2
  exit 2
}
[ "$(id -u)" = 0 ] || die "needs root: debootstrap and chroot do"
command -v debootstrap >/dev/null ||
  die "debootstrap is not installed; scripts/packages.sh check installs it"

if [ -z "${BARE_ROOT:-}" ]; then
  BARE_ROOT=$(mktemp -d "${TMPDIR:-/tmp}/rollcall-root.XXXXXX")
  export BARE_ROOT
  trap 'rm -rf --one-file-system "$BARE_ROOT"' EXIT
  # The mounts end with the namespace, and the processes with its first process.
  unshare --mount --pid --fork --kill-child "$self" "$release" "$what"
  exit
fi

root=$BARE_ROOT
mount --make-rprivate /
mirror=$(apt-get indextargets --format '$(SITE)')
mirror=${mirror%%$'\n'*}
[ -n "$mirror" ] || die "apt has no mirror; run apt-get update"
echo "bare_root.sh: $release into $root"
include=()
if [ "$what" = wheel ]; then include=(--include=python3,python3-venv); fi
debootstrap --variant=minbase "${include[@]}" "$release" "$root" "$mirror" \
  >"$root.log" 2>&1 || { tail -20 "$root.log" >&2; die "debootstrap failed"; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"

case $what in
  run)
    deb=$(scripts/deb.sh build/packages | grep '/rollcall_')
    cp "$deb" "$root/tmp/"
    # dpkg fails if the package depends on one that is not installed.
    chroot "$root" dpkg -i "/tmp/${deb##*/}"
    [ ! -e "$root/etc/ssl/certs/ca-certificates.crt" ] ||
      die "expected a root without ca-certificates"
    status=0
    out=$(chroot "$root" sh -c 'cd /tmp && HOME=/root timeout 60 rollcall launch \
      --no-hosts --local-workers 2 -- sh -c "echo rank \$RANK of \$WORLD_SIZE"' \
      2>&1) || status=$?
    echo "$out"
    [ $status = 0 ] || die "the run ended with exit code $status"
    for rank in 0 1 2; do
      grep -q "rank $rank of 3" <<<"$out" || die "no output from rank $rank"
    done ;;
  wheel)
    wheel=$(scripts/wheel.sh build/packages | tail -1)
    cp "$wheel" "$root/tmp/"
    cat >"$root/tmp/rank.py" <<'END'
import rollcall

with rollcall.attach() as rank:
    total = rank.store.add("ranks", 1)
    rank.store.wait(["end"]) if total < 4 else rank.store.set("end", b"")
    print("linked", rank.world.rank, "of", rank.world.size, flush=True)
END
    # --no-index: pip may install nothing but the wheel.
    out=$(chroot "$root" sh -euc 'cd /tmp; export HOME=/root
      for name in cc gcc rollcall; do
        if command -v $name; then echo "expected no $name"; exit 1; fi
      done
      python3 -m venv v
      v/bin/pip -q install --no-index ./*.whl
      timeout 60 v/bin/rollcall launch --no-hosts --local-workers 3 -- \
        v/bin/python rank.py
      v/bin/rollcalld --version
      # A wrong flag throws an exception, which the program must catch.
      v/bin/rollcall launch --no-such-flag || [ $? = 2 ]' 2>&1) || { echo "$out"; die "it failed"; }
    echo "$out"
    for rank in 0 1 2 3; do
      grep -q "linked $rank of 4" <<<"$out" || die "no output from rank $rank"
    done ;;
  quickstart)
    mount --rbind /dev "$root/dev"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    cp -n /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/"
    git clone -q --no-hardlinks . "$root/root/rollcall"
    began=$SECONDS
    chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
      sh -c 'cd /root/rollcall && exec scripts/quickstart.sh'
    echo "bare_root.sh: the quickstart in $release took $((SECONDS - began)) s" ;;
esac
echo "bare_root.sh: $release, $what: good"
