"""The system calls that Python's standard library (3.9) does not have: namespaces and mounts.

What this machine does not allow is Refused, which makes a test "skipped"; all else is an error.
"""
import ctypes
import errno
import os
import select
import signal

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
OF_A_MACHINE = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000

_SYS_MOUNT_SETATTR = 442  # the same on all architectures
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 0x1
_PR_SET_PDEATHSIG = 1
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL, errno.ENOSPC, errno.EUSERS)

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """This machine does not permit, or does not have, what the nodes are made of."""


def _check(result, what):
    if result == 0:
        return
    code = ctypes.get_errno()
    text = f"{what}: {os.strerror(code)}"
    if code in _REFUSALS:
        raise Refused(text)
    raise OSError(code, text)


def unshare(flags, what):
    _check(_libc.unshare(flags), f"unshare({what})")


def mount(source, target, kind, flags=0, data=""):
    text = [part.encode() if part else None for part in (source, str(target), kind)]
    _check(_libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), data.encode()),
           f"mounting {kind or source} on {target}")


def bind(source, target):
    mount(str(source), target, None, MS_BIND)


def set_read_only(path, wanted=True, recursive=False):
    """Of the mount at `path`, with `recursive` also of all below it."""
    bits = (_MOUNT_ATTR_RDONLY, 0) if wanted else (0, _MOUNT_ATTR_RDONLY)
    attributes = (ctypes.c_uint64 * 4)(bits[0], bits[1], 0, 0)
    _check(_libc.syscall(ctypes.c_long(_SYS_MOUNT_SETATTR), ctypes.c_int(_AT_FDCWD),
                         str(path).encode(), ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
                         attributes, ctypes.c_size_t(ctypes.sizeof(attributes))),
           f"making {path} read-only (Linux 5.12)")


def enter_new_machine(kinds=OF_A_MACHINE):
    """Namespaces of an own for what this process does and starts next; as another user than root,
    or a root without rights, in a user namespace in which it is root."""
    try:
        unshare(kinds, "as root")
        return
    except Refused as refusal:
        first = refusal
    user, group = os.geteuid(), os.getegid()
    try:
        unshare(CLONE_NEWUSER | kinds, "with a user namespace")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {user} 1")
        _write("/proc/self/gid_map", f"0 {group} 1")
    except (Refused, OSError) as refusal:
        raise Refused(f"{first}; {refusal}") from None


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)


def fork_bound():
    """fork(), whose child dies (SIGKILL) when this process does, however that happens."""
    parent_lives, lifeline = os.pipe()
    pid = os.fork()
    if pid != 0:
        os.close(parent_lives)
        _lifelines.append(lifeline)
        return pid
    os.close(lifeline)
    _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    # It may have died before it was asked for the signal; then its end of the pipe is closed.
    poll = select.poll()
    poll.register(parent_lives, 0)
    if poll.poll(0):
        os._exit(1)
    os.close(parent_lives)
    return 0


_lifelines = []
