"""A cluster of simulated nodes on this machine, and parallel jobs on it.

    exit status = inside(Shape([2, 2]), body, timeout)      body(cluster) runs on the cluster's head

Each node has namespaces of its own: network (eth0, joined by a switch), host name, process ids,
IPC and mounts. All nodes see the same paths:

    HOME/storage   private to the node: other contents on each
    HOME/shared    the one directory that all nodes and the head share, as a parallel file system
    HOME/tmp       private, for what the launchers need; and /dev/shm, private
    all else       of this machine, read-only

The head, where `body` and the launchers run, sees the storage of node k at HOME/nodes/node<k>.
HOME is in memory and goes with the namespaces, which go with their processes; and those die with
the caller of inside(), however that dies.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path

import kernel
from node import NETWORK, Node, command

HERE = Path(__file__).resolve().parent
MPIRUN = HERE.parent.parent / "scripts" / "mpirun"
TIMED_OUT, SKIPPED, UNUSABLE = 124, 77, 125


class Shape:
    """How many ranks each node has, and what joins the nodes."""

    def __init__(self, ranks, bandwidth="", home_files=None, storage_size="", shared_size=""):
        self.ranks = ranks
        self.bandwidth = bandwidth  # of each node's link, each way, as `tc` writes it: 100mbit
        self.disk = home_files      # a directory to hold HOME's files; None: they are in memory
        self.storage_size = storage_size  # room on each node's storage, as a tmpfs says it: 20m
        self.shared_size = shared_size    # room in the shared directory


def choose_home():
    """A directory of this machine whose contents nothing here needs: it is covered."""
    needed = [Path(path).resolve() for path in (HERE, os.getcwd(), sys.executable, *sys.argv)]
    for home in (Path("/mnt"), Path("/media"), Path("/srv"), Path("/opt")):
        if home.is_dir() and not any(path.is_relative_to(home) for path in needed):
            return home
    raise kernel.Refused("none of /mnt, /media, /srv, /opt is a directory that may be covered")


class Cluster:
    def __init__(self, shape, home):
        self.shape = shape
        self.home = home
        self.storage = home / "storage"
        self.shared = home / "shared"
        self.ends = home / "ends"  # where a job writes its status
        self.agent = home / "enter"
        self.nodes = [Node(index, home) for index in range(len(shape.ranks))]

    # --- made of ---------------------------------------------------------------------------------

    def set_up(self):
        """In a process that has just entered its namespaces."""
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.set_read_only("/", recursive=True)
        kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV)
        if self.shape.disk:
            kernel.bind(self.shape.disk, self.home)
            kernel.set_read_only(self.home, wanted=False)
        else:
            kernel.mount("tmpfs", self.home, "tmpfs", kernel.MS_NOSUID, "mode=0755")
        kernel.mount("tmpfs", "/dev/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
        for path in (self.storage, self.shared, self.ends, self.home / "tmp", self.home / "pids",
                     *(node.storage for node in self.nodes)):
            path.mkdir(parents=True, exist_ok=True)
        for size, paths in ((self.shape.storage_size, [node.storage for node in self.nodes]),
                            (self.shape.shared_size, [self.shared])):
            for path in paths if size else []:
                kernel.mount("tmpfs", path, "tmpfs", kernel.MS_NOSUID, f"size={size},mode=0755")
        kernel.mount("tmpfs", self.home / "tmp", "tmpfs", kernel.MS_NOSUID)
        # Launchers split the agent's path at blanks, which the path of a checkout may have.
        shutil.copy(HERE / "enter", self.agent)
        hosts = self.home / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + f"{NETWORK}.254 head\n" +
                         "".join(f"{node.address} {node.name}\n" for node in self.nodes))
        kernel.bind(hosts, "/etc/hosts")
        socket.sethostname("head")
        command("ip", "-batch", "-", text_in=f"link set lo up\nlink add eth0 type bridge\n"
                                             f"addr add {NETWORK}.254/24 dev eth0\n"
                                             f"link set eth0 up\n")
        for node in self.nodes:
            self._start(node)
            self._connect(node)

    def _start(self, node):
        """Its first process, which does nothing but hold the namespaces."""
        told, tell = os.pipe()
        middle = os.fork()
        if middle == 0:
            self._be_middle(node, tell)
        os.close(tell)
        with os.fdopen(told) as file:
            said = file.read().split("\n", 1)
        os.waitpid(middle, 0)
        if not said[0].isdigit():
            raise (kernel.Refused if said[0] == "refused" else RuntimeError)(
                f"{node.name}: {''.join(said[1:])}")
        node.pid = int(said[0])
        (self.home / "pids" / node.name).write_text(f"{node.pid}\n")

    def _be_middle(self, node, tell):
        """Makes the namespaces, and the first process in them; never returns."""
        try:
            kernel.unshare(kernel.OF_A_MACHINE, node.name)
            ready, say_ready = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(ready)
                os.close(tell)
                self._be_node(node, say_ready)
            os.close(say_ready)
            with os.fdopen(ready) as file:
                said = file.read()
            os.write(tell, (said or f"{pid}\n").encode())
        except kernel.Refused as refusal:
            os.write(tell, f"refused\n{refusal}".encode())
        except BaseException:
            os.write(tell, f"error\n{traceback.format_exc()}".encode())
        os._exit(0)

    def _be_node(self, node, say_ready):
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans are collected
            socket.sethostname(node.name)
            kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV)
            kernel.mount("tmpfs", "/dev/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
            kernel.mount("tmpfs", self.home / "tmp", "tmpfs", kernel.MS_NOSUID)
            kernel.bind(node.storage, self.storage)
            kernel.bind(self.shared, self.shared)
            kernel.bind(self.ends, self.ends)
            kernel.mount("tmpfs", self.home / "nodes", "tmpfs")
            kernel.set_read_only(self.home / "nodes")
            kernel.set_read_only(self.home)
            # No pipe of the head's is kept open from here.
            os.close(say_ready)
            null = os.open("/dev/null", os.O_RDWR)
            for descriptor in range(3):
                os.dup2(null, descriptor)
            os.closerange(3, 1024)
            while True:
                signal.pause()
        except kernel.Refused as refusal:
            os.write(say_ready, f"refused\n{refusal}".encode())
        except BaseException:
            os.write(say_ready, f"error\n{traceback.format_exc()}".encode())
        os._exit(1)

    def _connect(self, node):
        port = f"port{node.index}"
        command("ip", "-batch", "-",
                text_in=f"link add {port} type veth peer name eth0 netns {node.pid}\n"
                        f"link set {port} master eth0\nlink set {port} up\n")
        inside_net = ["nsenter", "--target", str(node.pid), "--net"]
        command(*inside_net, "ip", "-batch", "-",
                text_in=f"link set lo up\naddr add {node.address}/24 dev eth0\nlink set eth0 up\n")
        for prefix, device in ((inside_net, "eth0"), ([], port)):
            self._limit(prefix, device)

    def _limit(self, prefix, device):
        """Slows what leaves by `device`."""
        if self.shape.bandwidth:
            command(*prefix, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate",
                    self.shape.bandwidth, "burst", "64kb", "latency", "50ms")

    # --- jobs ------------------------------------------------------------------------------------

    def start(self, program, *arguments, environment=None, ranks=None, order=None, survivors=False,
              **popen):
        """A parallel job: `ranks` per node, or the shape's; nodes in `order` of their indices. With
        `survivors` (always with MPICH) a rank that dies takes no other along. In arguments
        {storage} and {shared} stand for the two directories."""
        ranks = ranks or self.shape.ranks
        nodes = [(self.nodes[index].name, ranks[index]) for index in order or range(len(ranks))
                 if ranks[index] > 0]
        places = {"{storage}": str(self.storage), "{shared}": str(self.shared)}
        words = [str(shutil.which(str(program)) or program), *map(str, arguments)]
        for mark, path in places.items():
            words = [word.replace(mark, path) for word in words]
        full = dict(os.environ, QUIRE_NODES_HOME=str(self.home), TMPDIR=str(self.storage),
                    QUIRE_NODES_STORAGE=str(self.storage), QUIRE_NODES_SHARED=str(self.shared),
                    QUIRE_NODES_ENDED=str(self.ends / "status"),
                    QUIRE_NODES_RANKS=",".join(str(count) for _, count in nodes))
        options = self._launcher(nodes, survivors, full)
        (self.ends / "status").unlink(missing_ok=True)
        full.update(environment or {})
        return subprocess.Popen(
            [str(MPIRUN), *options, "-n", str(sum(count for _, count in nodes)), *words], env=full,
            stdin=subprocess.DEVNULL, start_new_session=True,
            # SIGPIPE stays ignored: MPICH's launcher may write to a proxy that has just ended.
            restore_signals=False, **popen)

    def run(self, program, *arguments, **more):
        """(exit status, output) of a job that has ended and left nothing behind on the nodes."""
        job = self.start(program, *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, errors="replace", **more)
        output = job.communicate()[0]
        self.wait_idle()
        return self.status(job), output

    def status(self, job):
        """The exit status of a job, once it has ended: what its ranks wrote (support/node_end.h),
        else what its launcher says. MPICH's launcher fails if one node has ended before another."""
        status = exit_status(job.wait())
        try:
            return int((self.ends / "status").read_text())
        except (FileNotFoundError, ValueError):  # or rank 0 died while it wrote it
            return status

    def wait_idle(self):
        for node in self.nodes:
            if not node.wait_idle():
                raise RuntimeError(f"processes live on on {node.name} after their job")

    def _launcher(self, nodes, survivors, environment):
        """Options (and environment) of the MPI at hand that start a job on `nodes` over TCP."""
        hosts = self.home / "hostfile"
        if launcher_is_open_mpi():
            hosts.write_text("".join(f"{name} slots={count}\n" for name, count in nodes))
            environment.update({
                "OMPI_MCA_plm": "rsh", "OMPI_MCA_plm_rsh_agent": str(self.agent),
                "OMPI_MCA_plm_rsh_no_tree_spawn": "1", "OMPI_MCA_pml": "ob1",
                "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": f"{NETWORK}.0/24",
                "OMPI_MCA_oob_tcp_if_include": f"{NETWORK}.0/24", "OMPI_MCA_osc": "^ucx",
                "OMPI_MCA_orte_tmpdir_base": str(self.home / "tmp")})
            return ["--hostfile", str(hosts)] + (["--enable-recovery"] if survivors else [])
        hosts.write_text("".join(f"{name}:{count}\n" for name, count in nodes))
        # Within a node shared memory: over UCX's TCP a program's MPI_Finalize may never return.
        environment.update({"UCX_TLS": "tcp,self,sm", "UCX_NET_DEVICES": "eth0",
                            "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"})
        # Hydra takes a rank that ends without MPI_Finalize (as in tests/support/mpi_program.h)
        # for one that has died, and would kill those that have not yet ended.
        return ["-launcher", "ssh", "-launcher-exec", str(self.agent), "-f", str(hosts),
                "-iface", "eth0", "-disable-auto-cleanup"]


def launcher_is_open_mpi():
    flavor = os.environ.get("QUIRE_MPI_FLAVOR", "")
    launcher = os.environ.get("QUIRE_MPIEXEC") or "mpiexec" + (f".{flavor}" if flavor else "")
    said = command(launcher, "--version")
    return any(name in said for name in ("Open MPI", "OpenRTE", "open-mpi"))


def _be_head(shape, body):
    try:
        cluster = Cluster(shape, choose_home())
        cluster.set_up()
    except kernel.Refused as refusal:
        print(f"nodes: skipped: this machine does not allow simulated nodes: {refusal}", flush=True)
        return SKIPPED
    return body(cluster)


def _run_to_exit(function, *arguments):
    """The end of a forked process: its status is the function's, or that of a failure."""
    status = UNUSABLE
    try:
        status = function(*arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _keep(shape, body):
    """Enters the namespaces and waits for the head, the first process in them."""
    try:
        kernel.enter_new_machine()
    except kernel.Refused as refusal:
        print(f"nodes: skipped: this machine does not allow simulated nodes: {refusal}", flush=True)
        return SKIPPED
    head = kernel.fork_bound()
    if head == 0:
        _run_to_exit(_be_head, shape, body)
    return status_of(os.waitpid(head, 0)[1])


def exit_status(code):
    """As a shell says it, of what Popen says."""
    return code if code >= 0 else 128 - code


def status_of(wait_status):
    return exit_status(os.waitstatus_to_exitcode(wait_status))


def inside(shape, body, timeout):
    """The exit status of body(cluster), run on the head of a cluster of that shape: 77 where this
    machine does not permit one (it says why), 124 after `timeout` seconds, when all is killed."""
    sys.stdout.flush()
    keeper = kernel.fork_bound()
    if keeper == 0:
        _run_to_exit(_keep, shape, body)
    end = time.monotonic() + timeout
    while True:
        pid, wait_status = os.waitpid(keeper, os.WNOHANG)
        if pid != 0:
            return status_of(wait_status)
        if time.monotonic() > end:
            os.kill(keeper, signal.SIGKILL)
            os.waitpid(keeper, 0)
            print(f"nodes: killed after {timeout} s", file=sys.stderr, flush=True)
            return TIMED_OUT
        time.sleep(0.02)
