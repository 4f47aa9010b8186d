"""Small virtual machines with a real verbs device: the kernel's soft-RoCE.

`boot` starts a kernel under qemu's software emulation with an initramfs that
contains rollcall, libibverbs and a few programs, and runs a shell script in it.
Its only output is the serial console: `report` in the guest prints a command's
output between two marker lines, and `section` finds it.

The kernel and qemu come from a folder that `scripts/packages.sh rdma_vm` makes;
the programs and libraries come from this machine. No root, KVM or network is
needed.
"""
import glob
import gzip
import lzma
import os
import re
import stat
import subprocess

import harness

FOLDER = os.path.abspath(os.environ.get("ROLLCALL_RDMA_VM") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
    "rollcall", "rdma-vm"))
NOT_TESTED = (f"NOT TESTED: there is no {FOLDER} here; scripts/packages.sh "
              "rdma_vm makes it, in ROLLCALL_RDMA_VM if set")

# libibverbs looks for providers here, and the loader for everything.
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
LOADER = "/lib64/ld-linux-x86-64.so.2"

# Kernel modules to load in this order, each after those it depends on.
NETWORK = ["dummy", "virtio_pci", "virtio_net"]
# rdma_rxe asks for the checksum by name when the first device is made.
RDMA = ["crc32_generic", "ib_uverbs", "rdma_rxe"]

# A machine needs about 10 s, or a minute beside other work. `timeout` ends qemu
# after this time even if the test was killed.
BOOT_S = 200

INIT = r"""#!/bin/sh
export PATH=/bin HOME=/tmp XDG_RUNTIME_DIR=/run LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir /dev/shm
for folder in /dev/shm /tmp /run; do mount -t tmpfs tmpfs $folder; done
chmod 1777 /tmp /dev/shm
# By its path, since busybox has an `ip` as well.
ip=/bin/ip
$ip link set lo up

# report LABEL COMMAND...: what it says, stderr after stdout, and how it ends.
report() {
  label=$1
  shift
  echo "=== begin $label"
  "$@" >/tmp/stdout 2>/tmp/stderr
  status=$?
  cat /tmp/stdout
  sed 's/^/! /' /tmp/stderr
  echo "=== end $label $status"
}
# follow LABEL COMMAND...: as report, but prints both at once, in their order.
# The pipe hides the console, because rollcall draws a live line on a terminal.
follow() {
  label=$1
  shift
  echo "=== begin $label"
  { "$@" 2>&1; echo $? >/tmp/status; } | cat
  echo "=== end $label $(cat /tmp/status)"
}
# load GROUP: the kernel modules of a group.
load() {
  for module in $(cat /modules/$1); do
    [ -e /sys/module/$module ] || insmod /modules/$module.ko
  done
}
# await_gid DEVICE TEXT: until a GID of port 1 has the text. The kernel adds it
# some time after the command that causes it, without an event to wait for.
await_gid() {
  until cat /sys/class/infiniband/$1/ports/1/gids/[0-9] | grep -q $2; do
    usleep 20000
  done
}
"""


def is_there():
    return os.path.exists(os.path.join(FOLDER, "packages"))


def find(*paths):
    """Returns the first of these files that exists, in the unpacked folder or
    else on this machine."""
    for root in (FOLDER, ""):
        for path in paths:
            if os.path.exists(root + path):
                return root + path
    raise FileNotFoundError(f"none of {', '.join(paths)} in {FOLDER} or /")


def library_path():
    return ":".join(FOLDER + folder for folder in
                    (LIBRARIES, LIBRARIES.removeprefix("/usr")))


class Archive:
    """An initramfs: a cpio archive of format `newc`, all owned by root."""

    def __init__(self):
        self._entries = {}  # Path without the first slash -> (mode, content).

    def add(self, path, content, mode=0o644):
        self._add(path, stat.S_IFREG | mode, content)

    def folder(self, path):
        self._add(path, stat.S_IFDIR | 0o755, b"")

    def link(self, path, target):
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def program(self, path, source):
        """Adds a program and the libraries that it needs."""
        with open(source, "rb") as file:
            self.add(path, file.read(), 0o755)
        told = subprocess.run(
            ["ldd", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=dict(os.environ, LD_LIBRARY_PATH=library_path()))
        for library in re.findall(r"(/\S+) \(0x", told.stdout):
            name = os.path.basename(library)
            self.library(LOADER if library == LOADER
                         else f"{LIBRARIES}/{name}", library)

    def has(self, path):
        return path.strip("/") in self._entries

    def library(self, path, source):
        if not self.has(path):
            with open(source, "rb") as file:
                self.add(path, file.read(), 0o755)

    def _add(self, path, mode, content):
        path = path.strip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self._entries:
            self.folder(parent)
        self._entries[path] = (mode, content)

    def write(self, out):
        # Folders were added before their contents.
        for number, (path, (mode, content)) in enumerate(
                self._entries.items(), 1):
            self._write_entry(out, number, path, mode, content)
        self._write_entry(out, 0, "TRAILER!!!", 0, b"")

    @staticmethod
    def _write_entry(out, number, path, mode, content):
        name = path.encode() + b"\0"
        # inode, mode, user, group, links, time, size, device twice, checksum.
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0,
                  len(name), 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (head + name, content):
            out.write(part + b"\0" * (-len(part) % 4))


class Modules:
    """The kernel modules of the folder and their load order."""

    def __init__(self):
        self._files = {}
        for path in glob.glob(FOLDER + "/**/kernel/**/*.ko*", recursive=True):
            name = os.path.basename(path).split(".")[0].replace("-", "_")
            self._files[name] = path

    def content(self, name):
        path = self._files[name]
        opens = {".xz": lzma.open, ".gz": gzip.open}.get(
            os.path.splitext(path)[1], open)
        with opens(path, "rb") as file:
            return file.read()

    def with_dependencies(self, names):
        """Returns [(name, content)], each after those that it depends on."""
        found = {}

        def visit(name):
            if name in found:
                return
            content = self.content(name)
            depends = re.search(rb"\0depends=([^\0]*)\0", content)
            for other in depends[1].decode().split(",") if depends else ():
                if other:
                    visit(other.replace("-", "_"))
            found[name] = content

        for name in names:
            visit(name)
        return list(found.items())


def make_initramfs(path, script, files):
    """Writes the initramfs that runs `script`; returns its size in bytes.

    `files`: additional files, path -> (content, mode).
    """
    archive = Archive()
    for folder in ("/dev", "/etc", "/proc", "/sys", "/tmp", "/run"):
        archive.folder(folder)
    archive.add("/init", (INIT + script + "\npoweroff -f\n").encode(), 0o755)
    archive.add("/etc/passwd", b"root:x:0:0::/tmp:/bin/sh\n"
                b"user:x:1000:1000::/tmp:/bin/sh\n")
    archive.add("/etc/group", b"root:x:0:\nuser:x:1000:\n")
    archive.add("/etc/hosts", b"127.0.0.1 localhost\n")
    # There is no name server.
    archive.add("/etc/nsswitch.conf", b"hosts: files\n")
    archive.program("/bin/rollcall", harness.ROLLCALL)
    for name in ("ibv_devinfo", "ibv_rc_pingpong", "rdma", "ip"):
        archive.program(f"/bin/{name}", find(f"/usr/bin/{name}",
                                             f"/usr/sbin/{name}",
                                             f"/bin/{name}", f"/sbin/{name}"))
    add_busybox(archive)
    add_verbs(archive)
    modules = Modules()
    for group, names in (("network", NETWORK), ("rdma", RDMA)):
        loads = modules.with_dependencies(names)
        archive.add(f"/modules/{group}",
                    "".join(name + "\n" for name, _ in loads).encode())
        for name, content in loads:
            archive.add(f"/modules/{name}.ko", content)
    for name, (content, mode) in files.items():
        archive.add(name, content.encode(), mode)
    with open(path, "wb") as out:
        archive.write(out)
        return out.tell()


def add_busybox(archive):
    """Adds the shell, and each applet whose name is not yet taken."""
    busybox = find("/usr/bin/busybox", "/bin/busybox")
    archive.program("/bin/busybox", busybox)
    applets = subprocess.run([busybox, "--list"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout.split()
    for name in applets:
        if not archive.has(f"/bin/{name}"):
            archive.link(f"/bin/{name}", "busybox")


def add_verbs(archive):
    """Adds libibverbs, which rollcall opens at run time, and rxe's provider."""
    found = [path for root in (FOLDER, "") for path in
             glob.glob(f"{root}{LIBRARIES}/libibverbs/librxe-rdmav*.so")]
    provider = f"{LIBRARIES}/libibverbs/{os.path.basename(found[0])}"
    archive.program(provider, found[0])
    with open(find("/etc/libibverbs.d/rxe.driver"), "rb") as file:
        archive.add("/etc/libibverbs.d/rxe.driver", file.read())


def boot(stage, name, script, files=None, socket=None, place=1):
    """Starts a machine that runs a shell script; returns its stage.Process.

    The machine powers off when the script ends. `socket`: connected to another
    machine; it becomes this machine's eth0. `place`: this machine's number on
    that link.
    """
    initramfs = stage.path(name + ".cpio")
    size = make_initramfs(initramfs, f"hostname {name}\n{script}", files or {})
    network = ["-nic", "none"] if socket is None else [
        "-netdev", "stream,id=net0,server=off,addr.type=fd,"
        f"addr.str={socket.fileno()}",
        "-device", "virtio-net-pci,netdev=net0,romfile=,"
        f"mac=52:54:00:00:00:{place:02x}"]
    data = [flag for root in (FOLDER, "") for share in ("qemu", "seabios")
            for flag in ("-L", f"{root}/usr/share/{share}")]
    kernel, = glob.glob(FOLDER + "/boot/vmlinuz-*")
    return stage.start(
        ["timeout", "-k", "10", str(BOOT_S),
         find("/usr/bin/qemu-system-x86_64"), *data, "-accel", "tcg",
         # Besides the archive, its files may fill half of the rest.
         "-m", str(max(192, 64 + (3 * size >> 20))), "-smp", "1",
         "-nodefaults", "-display", "none", "-no-reboot", "-monitor", "none",
         "-serial", "stdio", *network, "-kernel", kernel, "-initrd", initramfs,
         "-append", "console=ttyS0 quiet loglevel=1 panic=-1"],
        env={"LD_LIBRARY_PATH": library_path()},
        pass_fds=() if socket is None else (socket.fileno(),))


class Section:
    """The output and exit status in the guest's `report` of one command."""

    def __init__(self, lines, status):
        self.out = [line for line in lines if not line.startswith("! ")]
        self.err = [line[2:] for line in lines if line.startswith("! ")]
        self.status = status


def section(machine, label):
    """Returns the section with that label; waits for it."""
    end = machine.await_line(rf"^=== end {label} (\d+)\s*$", "out",
                             deadline_s=BOOT_S)
    lines = [line.rstrip("\r") for line in machine.out()]
    first = lines.index(f"=== begin {label}") + 1
    return Section(lines[first:lines.index(f"=== end {label} {end[1]}")],
                   int(end[1]))
