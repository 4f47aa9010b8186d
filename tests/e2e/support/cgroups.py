"""Cgroups with a limit, for tests of what the kernel does to their processes."""
import os


def make_cgroup(name, controller, v1_settings, v2_settings):
    """Makes a cgroup with these settings (file -> text) that this process may
    enter.

    Returns its folder, or None. Prefers one below this process's own, which the
    limits of this process still bind; cgroup v2 permits only one beside it.
    """
    for version, own in _own(controller):
        folder = os.path.normpath(os.path.join(
            own if version == 1 else os.path.dirname(own), name))
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            settings = v1_settings if version == 1 else v2_settings
            for file, text in settings.items():
                _write(os.path.join(folder, file), text)
            # Whether processes may enter it.
            with open(os.path.join(folder, "cgroup.procs"), "r+",
                      encoding="ascii"):
                return folder
        except OSError:
            os.rmdir(folder)
    return None


def _own(controller):
    """Yields (1 or 2, folder) of this process's cgroups of the controller."""
    own = dict(line.split(":", 2)[1:]
               for line in _read("/proc/self/cgroup").splitlines())
    for line in _read("/proc/self/mountinfo").splitlines():
        fields, _, mount = line.partition(" - ")
        root, at = fields.split()[3:5]
        kind, _, options = mount.split()[:3]
        controllers = [c for c in own if controller in c.split(",")]
        if (kind == "cgroup" and controller in options.split(",")
                and controllers):
            path = own[controllers[0]]
            yield 1, os.path.join(at, os.path.relpath(path, root))
        if kind == "cgroup2" and "" in own:
            yield 2, os.path.join(at, os.path.relpath(own[""], root))


def _read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def _write(path, text):
    with open(path, "r+", encoding="ascii") as f:
        f.write(text)
