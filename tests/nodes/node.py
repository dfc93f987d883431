"""One simulated node, as the head of its cluster sees it (cluster.py)."""
import os
import subprocess
import time
from pathlib import Path

import kernel

NETWORK = "10.77.0"  # exists only inside


def command(*arguments, text_in=None):
    """Runs a tool of the system. What it lacks or may not do is a refusal."""
    try:
        done = subprocess.run(arguments, input=text_in, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError:
        raise kernel.Refused(f"{arguments[0]} is not installed (scripts/setup)") from None
    if done.returncode == 0:
        return done.stdout
    said = f"{' '.join(arguments)}: {done.stdout.strip()}"
    if any(word in said for word in ("not permitted", "not supported", "Unknown device type",
                                     "qdisc kind is unknown")):
        raise kernel.Refused(said)
    raise RuntimeError(said)


class Node:
    """One node; `storage` is its private directory as the head sees it."""

    def __init__(self, index, home):
        self.index = index
        self.name = f"node{index}"
        self.address = f"{NETWORK}.{index + 1}"
        self.storage = home / "nodes" / self.name
        self.pid = 0  # of its first process

    def processes(self):
        """The ids, on the head, of what runs on it."""
        space = os.stat(f"/proc/{self.pid}/ns/pid").st_ino
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.pid:
                continue
            try:
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state not in "ZX" and os.stat(entry / "ns/pid").st_ino == space:
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                pass  # it has ended meanwhile
        return found

    def signal(self, number, program=None):
        """To all that runs on it, or to the processes of one program: not to the launcher's."""
        for pid in self.processes():
            try:
                if program is None or os.path.samefile(f"/proc/{pid}/exe", program):
                    os.kill(pid, number)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended meanwhile

    def set_link(self, up):
        """Pulls its network cable, or puts it in again."""
        command("ip", "link", "set", f"port{self.index}", "up" if up else "down")

    def make_read_only(self, mount):
        """One of its mounts, for all that runs on it."""
        command("nsenter", "--target", str(self.pid), "--mount",
                "mount", "-o", "remount,bind,ro", str(mount))

    def wait_idle(self, seconds=20):
        """True once nothing runs on it any more."""
        end = time.monotonic() + seconds
        while self.processes():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True
