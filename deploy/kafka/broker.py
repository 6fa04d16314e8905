"""A real Apache Kafka on this machine's loopback, for tests and development.

No Docker: Java 17 or newer runs the brokers, and Maven fetches their jars once,
into a cache that all checkouts share. KRaft combined mode, so there is no other
service; every listener is bound to 127.0.0.1. Standard library only, one module,
so that it can be run before anything of the project is installed.

On the command line::

    python deploy/kafka/broker.py jars                 # fetch the jars, once
    python deploy/kafka/broker.py up                   # one broker on port 9092
    python deploy/kafka/broker.py up --brokers 3 --background --data /tmp/kafka
    python deploy/kafka/broker.py status --data /tmp/kafka
    python deploy/kafka/broker.py down --data /tmp/kafka

``up`` prints the bootstrap string when the brokers answer; what they stored is
there again at the next ``up`` with the same ``--data``. In Python::

    with KafkaCluster(brokers=3) as cluster:
        produce_to(cluster.bootstrap)
        cluster.stop_broker(2, kill=True)

The methods block: from a coroutine call them through ``asyncio.to_thread``.

Environment: ``PATHGATE_KAFKA_CACHE`` (where the jars are kept, else
``$XDG_CACHE_HOME/pathgate/kafka-<version>``, else the same below ``~/.cache``),
``JAVA_HOME``.
"""

from __future__ import annotations

import argparse
import atexit
import base64
import fcntl
import functools
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol, Self
from xml.etree import ElementTree as ET

_POM = Path(__file__).with_name("pom.xml")
_HOST = "127.0.0.1"
_JAVA_FLOOR = 17
# Below the ports that the kernel hands to outgoing connections, so that none of
# those can take a broker's port while the broker restarts.
_PORTS = range(20_000, 32_000)
_POLL_S = 0.02
# From SIGTERM to SIGKILL; a broker hands its partitions over in the meantime.
_GRACE_S = 20.0
_SASL_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
# What only the harness can know; a caller's value would contradict it.
_OWNED = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "node.id",
        "process.roles",
    }
)
# Replaces itself by its arguments, and dies with the process that started it:
# the kernel keeps the wish over the exec. Not a `preexec_fn`, which is unsafe
# where other threads run.
_TIE_TO_PARENT = """
import ctypes, os, signal, sys
try:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
except AttributeError:
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
_LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %m (%c)%n
# One warning for each try to reach a broker that a test has stopped.
logger.client.name = org.apache.kafka.clients.NetworkClient
logger.client.level = error
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


class BrokerError(Exception):
    """A broker could not be had; the text says what to do."""


class JavaMissing(BrokerError):  # noqa: N818 - names what is missing, as a skip reason
    """There is no Java new enough: install one, or point ``JAVA_HOME`` at it."""


class JarsUnavailable(BrokerError):  # noqa: N818 - as above
    """Kafka's jars are neither cached nor to be fetched.

    Install Maven, give it a repository that it reaches, and run
    ``broker.py jars``.
    """


class StartFailed(BrokerError):  # noqa: N818 - as above
    """A broker ended or did not answer in time; its log's end is in the text."""


class ToolFailed(BrokerError):  # noqa: N818 - as above
    """An admin tool exited with an error; its output is in the text."""


class Kafka(Protocol):
    """Whatever a client can connect to."""

    @property
    def bootstrap(self) -> str:
        """``host:port`` of each broker, comma-separated, without security."""


# --------------------------------------------------------------------- waiting


def _poll(done: Callable[[], bool], timeout_s: float) -> bool:
    """Whether ``done`` came true within ``timeout_s`` seconds."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not done():
        if time.monotonic() >= deadline:
            return False
        pause.wait(_POLL_S)
    return True


@contextmanager
def _locked(path: Path, timeout_s: float) -> Iterator[bool]:
    """Holds an exclusive lock between processes; yields whether it was had."""
    with path.open("a", encoding="ascii") as held:

        def take() -> bool:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        yield _poll(take, timeout_s)


# ------------------------------------------------------------ Java and the jars


def find_java(env: Mapping[str, str] = os.environ) -> Path:
    """The ``java`` to run: of ``JAVA_HOME``, else of the path.

    Args:
        env: The environment, for ``JAVA_HOME`` and ``PATH``.

    Raises:
        JavaMissing: there is none, or it is older than 17.
    """
    return _java_of(env.get("JAVA_HOME", ""), env.get("PATH", ""))


@functools.cache
def _java_of(home: str, path: str) -> Path:
    """``find_java``, asked once for each place: an answer costs a JVM start."""
    name = shutil.which("java", path=f"{home}/bin" if home else path)
    wanted = f"Java {_JAVA_FLOOR} or newer (Debian: openjdk-17-jre-headless)"
    if name is None:
        where = f"in JAVA_HOME={home}" if home else "on the path"
        raise JavaMissing(f"no java {where}; install {wanted}")
    answer = _run([name, "-version"], timeout_s=30)
    found = re.search(r'version "(\d+)', answer.stderr)
    if found is None or int(found[1]) < _JAVA_FLOOR:
        said = answer.stderr.splitlines()[:1]
        raise JavaMissing(f"{name} says {said}; install {wanted}")
    return Path(name)


def kafka_version() -> str:
    """The Kafka version that ``pom.xml`` names."""
    root = ET.parse(_POM).getroot()  # noqa: S314 - our own file
    found = root.findtext("{*}properties/{*}kafka.version")
    if found is None:
        raise JarsUnavailable(f"{_POM} has no property kafka.version")
    return found


def cache_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Where the jars are kept; not created by asking.

    Args:
        env: The environment, for ``PATHGATE_KAFKA_CACHE`` and
            ``XDG_CACHE_HOME``.
    """
    chosen = env.get("PATHGATE_KAFKA_CACHE")
    if chosen:
        return Path(chosen)
    base = env.get("XDG_CACHE_HOME")
    parent = Path(base) if base else Path.home() / ".cache"
    return parent / "pathgate" / f"kafka-{kafka_version()}"


def jars(
    cache: Path | None = None,
    env: Mapping[str, str] = os.environ,
    timeout_s: float = 600,
) -> Path:
    """The directory of Kafka's jars, fetched by Maven if it is not there yet.

    The directory's name carries a digest of ``pom.xml``, so a changed pom is
    fetched anew. It appears whole or not at all, and of several processes that
    want it at once one fetches while the others wait.

    Args:
        cache: Parent of the directory; ``cache_dir(env)`` if None.
        env: The environment, also of Maven.
        timeout_s: Bound on waiting and on Maven, each, seconds.

    Raises:
        JarsUnavailable: Maven is missing, failed, or took too long.
    """
    cache = cache_dir(env) if cache is None else cache
    digest = hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]
    target = cache / f"jars-{digest}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock", timeout_s) as mine:
        if not mine:
            raise JarsUnavailable(
                f"another process held {cache}/lock for {timeout_s:.0f} s"
            )
        if not target.is_dir():
            _fetch(target, env, timeout_s)
    return target


def _fetch(target: Path, env: Mapping[str, str], timeout_s: float) -> None:
    """Has Maven copy the pom's dependencies, and renames them into place."""
    maven = shutil.which("mvn", path=env.get("PATH", ""))
    if maven is None:
        raise JarsUnavailable(
            f"no mvn on the path to fetch {target}; install it (Debian: maven)"
        )
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as work:
        # A copy, so that Maven writes nothing beside the project's pom.
        shutil.copy(_POM, work)
        command = [maven, "-B", "-q", "-f", f"{work}/pom.xml"]
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command += [f"-DoutputDirectory={work}/jars"]
        try:
            done = _run(command, timeout_s=timeout_s, env=env)
        except subprocess.TimeoutExpired as late:
            raise JarsUnavailable(
                f"mvn did not fetch Kafka's jars in {timeout_s:.0f} s"
            ) from late
        fetched = Path(work, "jars")
        if done.returncode != 0 or not any(fetched.glob("kafka_*.jar")):
            said = (done.stdout + done.stderr)[-2000:]
            raise JarsUnavailable(f"mvn could not fetch the jars of {_POM}:\n{said}")
        fetched.rename(target)


def _run(
    command: Sequence[str],
    *,
    timeout_s: float,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, its output taken as text."""
    return subprocess.run(
        command,
        input=stdin,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


# ------------------------------------------------------------------- the probe


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """What a broker says of its cluster: the ids alive, and the controller's."""

    broker_ids: frozenset[int]
    controller_id: int


def probe(port: int, timeout_s: float = 2) -> Metadata | None:
    """One Metadata round trip with the plaintext listener on ``port``.

    Returns:
        The broker's answer; None where there is no listener or no answer yet.

    Source: Kafka protocol, Metadata request version 4 with no topics: the
        oldest with a fixed encoding that names the cluster, served by 0.11 to 4.
    """
    client = b"pathgate-probe"
    header = struct.pack(">hhih", 3, 4, 1, len(client)) + client
    request = header + struct.pack(">i?", 0, False)  # noqa: FBT003 - a wire flag
    try:
        with socket.create_connection((_HOST, port), timeout=timeout_s) as link:
            link.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(link, 4))
            return _metadata(_read(link, size))
    except (OSError, struct.error):
        return None


def _read(link: socket.socket, size: int) -> bytes:
    """Exactly ``size`` bytes; ConnectionError where the peer ends before."""
    got = bytearray()
    while len(got) < size:
        piece = link.recv(size - len(got))
        if not piece:
            raise ConnectionError(f"peer closed after {len(got)} of {size} bytes")
        got += piece
    return bytes(got)


def _metadata(answer: bytes) -> Metadata:
    """Decodes a Metadata response, version 4, up to the controller's id."""
    # Correlation id, throttle time, number of brokers.
    _, _, count = struct.unpack_from(">iii", answer)
    at = 12

    def text() -> None:
        nonlocal at
        (length,) = struct.unpack_from(">h", answer, at)
        at += 2 + max(length, 0)

    ids = set()
    for _ in range(count):
        ids.add(struct.unpack_from(">i", answer, at)[0])
        at += 4
        text()  # host
        at += 4  # port
        text()  # rack
    text()  # cluster id
    (controller,) = struct.unpack_from(">i", answer, at)
    return Metadata(broker_ids=frozenset(ids), controller_id=controller)


# ----------------------------------------------------------------- the cluster

# The kernel's "parent died" is about the thread that forked, so all brokers are
# started by one thread that lives as long as the interpreter; a caller's own
# thread may be a short-lived worker.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="kafka-spawner")


def _spawn(command: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts a process that ends with this one, its output going to ``log``."""
    tied = [sys.executable, "-I", "-S", "-c", _TIE_TO_PARENT, str(os.getpid())]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*tied, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the one who runs the cluster, who then stops it.
            start_new_session=True,
        )

    return _spawner.submit(start).result()


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that nothing listens on at the moment."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, k=min(len(_PORTS), 50 * count)):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((_HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise StartFailed(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop}")


def _gist(output: str) -> str:
    """The last lines that a Java program wrote, without its stack frames."""
    lines = [line for line in output.splitlines() if not line.startswith("\t")]
    return "\n".join(lines[-20:])


@dataclass(kw_only=True)
class _Node:
    """One broker of a cluster: its place, its ports, its process if running."""

    node_id: int
    home: Path
    port: int
    controller_port: int
    extra_ports: dict[str, int]
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self, grace_s: float) -> None:
        """Asks the process to end, and ends it after ``grace_s`` seconds."""
        if self.process is None:
            return
        if grace_s > 0 and self.is_running:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        self.process.kill()
        self.process.wait()
        self.process = None

    def log_tail(self) -> str:
        """The end of the broker's log, for an error text."""
        if not self.log.exists():
            return ""
        return _gist(self.log.read_text(encoding="utf-8", errors="replace"))


@dataclass(kw_only=True)
class _Layout:
    """What a cluster is to be: kept apart from what runs."""

    config: Mapping[str, str]
    extra_listeners: Mapping[str, str]
    scram_users: Mapping[str, str]
    nodes: list[_Node] = field(default_factory=list)


class KafkaCluster:
    """One or more brokers in KRaft combined mode, on loopback.

    Each broker is also a controller, so three brokers go on while two of them
    run. A context manager; ``start`` and ``stop`` do the same by hand. Whatever
    happens to this process, its brokers end with it.
    """

    def __init__(  # noqa: PLR0913 - keywords of a test harness, all optional
        self,
        brokers: int = 1,
        data_dir: Path | None = None,
        ports: Sequence[int] | None = None,
        config: Mapping[str, str] | None = None,
        *,
        extra_listeners: Mapping[str, str] | None = None,
        scram_users: Mapping[str, str] | None = None,
        heap_mb: int = 512,
        jvm_options: Sequence[str] = (),
    ) -> None:
        """Describes a cluster; nothing is started or written yet.

        Args:
            brokers: How many, at least 1; their ids are 1 to ``brokers``.
            data_dir: Where data, configuration and logs go, kept after ``stop``
                and found again by the next cluster there; a temporary directory
                that ``stop`` removes if None.
            ports: A plaintext port for each broker; free ones if None.
            config: Server properties for every broker, over the harness's own.
                With ``authorizer.class.name``, the anonymous user of the
                plaintext listener is added to ``super.users``, since the brokers
                themselves speak there.
            extra_listeners: Listener name -> security protocol (``SSL``,
                ``SASL_PLAINTEXT``, ``SASL_SSL``), each on a free port of every
                broker; see ``bootstrap_of``. SASL listeners offer SCRAM; the
                keys and certificates of TLS are given in ``config``.
            scram_users: User name -> password, known from the first start on,
                with both SCRAM mechanisms.
            heap_mb: Largest Java heap of each broker, MiB.
            jvm_options: Further options of each broker's Java.

        Raises:
            ValueError: a count that cannot be, or a property in ``config`` that
                only the harness can set.
        """
        if brokers < 1:
            raise ValueError(f"brokers must be at least 1, not {brokers}")
        if ports is not None and len(ports) != brokers:
            raise ValueError(f"{brokers} brokers need as many ports, not {list(ports)}")
        clash = sorted(_OWNED.intersection(config or ()))
        if clash:
            raise ValueError(f"{clash} follow from the arguments; see extra_listeners")
        for name, password in (scram_users or {}).items():
            if re.search(r'["\[\],=\s]', name + password):
                raise ValueError(f'SCRAM user {name!r}: none of " [ ] , = or a space')
        self._layout = _Layout(
            config=dict(config or {}),
            extra_listeners=dict(extra_listeners or {}),
            scram_users=dict(scram_users or {}),
        )
        self._brokers = brokers
        self._ports = ports
        self._jvm_options = (*_jvm_options(heap_mb), *jvm_options)
        self._is_temporary = data_dir is None
        self._given_dir = data_dir
        self._dir: Path | None = None
        self._spare_ports: list[int] = []

    # -- life

    def __enter__(self) -> Self:
        """Starts the cluster."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the cluster."""
        self.stop()

    def start(self, timeout_s: float = 90) -> None:
        """Formats what is not formatted, starts all brokers, awaits their answer.

        Args:
            timeout_s: Bound on the time from the start of the processes until
                each broker names all of them as alive, seconds.

        Raises:
            JavaMissing: there is no Java new enough.
            JarsUnavailable: the jars are not cached and cannot be fetched.
            StartFailed: a broker ended or did not answer in time.
        """
        if self._layout.nodes:
            raise StartFailed("the cluster was started already")
        _started.add(self)
        find_java()
        jars()
        try:
            self._lay_out()
            self._format()
            for node in self._layout.nodes:
                self._launch(node)
            ids = {node.node_id for node in self._layout.nodes}
            self._await(self._layout.nodes, ids, timeout_s)
        except BaseException:
            self.stop(kill=True)
            raise

    def stop(self, *, kill: bool | None = None) -> None:
        """Ends all brokers; removes the data if the directory was temporary.

        Args:
            kill: End them without asking; if None, only where the data goes
                away with them.
        """
        kill = self._is_temporary if kill is None else kill
        deadline = time.monotonic() + (0 if kill else _GRACE_S)
        for node in self._layout.nodes:
            if node.process is not None and not kill:
                node.process.terminate()
        for node in self._layout.nodes:
            node.end(max(0.0, deadline - time.monotonic()))
        self._layout.nodes = []
        _started.discard(self)
        if self._is_temporary and self._dir is not None:
            shutil.rmtree(self._dir, ignore_errors=True)
        self._dir = None

    def stop_broker(self, broker: int, *, kill: bool = False) -> None:
        """Ends one broker: in good order, or at once with ``kill``.

        Args:
            broker: Its id, 1 to ``brokers``.
            kill: SIGKILL; it has then no time to hand its partitions over.
        """
        self._node(broker).end(0 if kill else _GRACE_S)

    def start_broker(self, *brokers: int, timeout_s: float = 90) -> None:
        """Starts stopped brokers with their data and awaits their answers.

        Args:
            brokers: Their ids. Name together those that can only be ready
                together: a cluster answers once most of it runs.
            timeout_s: Bound on the wait for the answers, seconds.

        Raises:
            StartFailed: one runs already, ended, or did not answer in time.
        """
        nodes = [self._node(broker) for broker in brokers]
        for node in nodes:
            if node.is_running:
                raise StartFailed(f"broker {node.node_id} is running")
        for node in nodes:
            self._launch(node)
        self._await(nodes, set(brokers), timeout_s)

    def restart_broker(self, broker: int, *, kill: bool = False) -> None:
        """``stop_broker``, then ``start_broker``."""
        self.stop_broker(broker, kill=kill)
        self.start_broker(broker)

    # -- facts

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker's plaintext listener, comma-separated."""
        return ",".join(f"{_HOST}:{node.port}" for node in self._nodes())

    def bootstrap_of(self, listener: str) -> str:
        """The same for one of the ``extra_listeners``."""
        return ",".join(
            f"{_HOST}:{node.extra_ports[listener]}" for node in self._nodes()
        )

    @property
    def data_dir(self) -> Path:
        """Where data and logs are; ``broker-<id>/server.log`` is a broker's log."""
        if self._dir is None:
            raise StartFailed("the cluster is not started")
        return self._dir

    def pid(self, broker: int) -> int:
        """Process id of a running broker, for a test that stops it by signal."""
        node = self._node(broker)
        if node.process is None or not node.is_running:
            raise StartFailed(f"broker {broker} is not running")
        return node.process.pid

    def is_running(self, broker: int) -> bool:
        """Whether the broker's process lives."""
        return self._node(broker).is_running

    def java_tool(
        self, tool: str, *args: str, timeout_s: float = 60, stdin: str = ""
    ) -> str:
        """Runs one of Kafka's command-line classes; see ``java_tool`` below."""
        return java_tool(tool, *args, timeout_s=timeout_s, stdin=stdin)

    # -- steps

    def _nodes(self) -> list[_Node]:
        if not self._layout.nodes:
            raise StartFailed("the cluster is not started")
        return self._layout.nodes

    def _node(self, broker: int) -> _Node:
        for node in self._nodes():
            if node.node_id == broker:
                return node
        raise ValueError(f"no broker {broker}; ids are 1 to {self._brokers}")

    def _lay_out(self) -> None:
        """Chooses directories and ports, and writes every broker's properties."""
        given = self._given_dir
        if given is None:
            self._dir = Path(tempfile.mkdtemp(prefix="pathgate-kafka-"))
        else:
            given.mkdir(parents=True, exist_ok=True)
            self._dir = given.resolve()
        (self._dir / "log4j2.properties").write_text(_LOG4J, encoding="ascii")
        names = list(self._layout.extra_listeners)
        # Kept over stop and start, so that clients find the brokers again.
        if not self._spare_ports:
            self._spare_ports = free_ports(self._brokers * (2 + len(names)))
        spare = iter(self._spare_ports)
        for index in range(self._brokers):
            home = self._dir / f"broker-{index + 1}"
            home.mkdir(exist_ok=True)
            node = _Node(
                node_id=index + 1,
                home=home,
                port=next(spare) if self._ports is None else self._ports[index],
                controller_port=next(spare),
                extra_ports={name: next(spare) for name in names},
            )
            self._layout.nodes.append(node)
        for node in self._layout.nodes:
            text = "".join(f"{k}={v}\n" for k, v in self._properties(node).items())
            (node.home / "server.properties").write_text(text, encoding="utf-8")

    def _properties(self, node: _Node) -> dict[str, str]:
        """The server properties of one broker."""
        extra = self._layout.extra_listeners
        binds = {"PLAINTEXT": node.port, **node.extra_ports}
        urls = [f"{name}://{_HOST}:{port}" for name, port in binds.items()]
        protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **extra}
        copies = str(min(3, self._brokers))
        in_sync = str(min(2, self._brokers))
        found = {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            "controller.quorum.voters": ",".join(
                f"{other.node_id}@{_HOST}:{other.controller_port}"
                for other in self._layout.nodes
            ),
            "listeners": ",".join(
                [*urls, f"CONTROLLER://{_HOST}:{node.controller_port}"]
            ),
            "advertised.listeners": ",".join(urls),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(node.home / "data"),
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": "0",
            # Tests kill group members and wait until the broker sees it.
            "group.min.session.timeout.ms": "1000",
            # A killed broker is fenced after this; below it a busy machine's
            # pauses look like deaths.
            "broker.session.timeout.ms": "6000",
            "broker.heartbeat.interval.ms": "1000",
            # The default of 128 MiB is a quarter of the heap.
            "log.cleaner.dedupe.buffer.size": str(8 << 20),
            "num.network.threads": "2",
            "num.io.threads": "4",
            "background.threads": "2",
        }
        for name, protocol in extra.items():
            if protocol.startswith("SASL_"):
                found |= _scram_properties(name)
        found |= self._layout.config
        if "authorizer.class.name" in found:
            users = ["User:ANONYMOUS", found.get("super.users", "")]
            found["super.users"] = ";".join(filter(None, users))
        return found

    def _format(self) -> None:
        """Formats the storage of brokers that have none, all with one cluster id."""
        identity = self.data_dir / "cluster.json"
        if identity.exists():
            known = json.loads(identity.read_text(encoding="utf-8"))
            if known["brokers"] != self._brokers:
                raise StartFailed(
                    f"{self.data_dir} holds {known['brokers']} brokers, not "
                    f"{self._brokers}; use as many, or another directory"
                )
        else:
            known = {"brokers": self._brokers, "clusterId": _new_cluster_id()}
            identity.write_text(json.dumps(known) + "\n", encoding="utf-8")
        bare = [
            node
            for node in self._layout.nodes
            if not (node.home / "data" / "meta.properties").exists()
        ]
        scram = itertools.chain.from_iterable(
            ("--add-scram", f"{mechanism}=[name={name},password={password}]")
            for name, password in self._layout.scram_users.items()
            for mechanism in _SASL_MECHANISMS
        )
        options = ["format", "--cluster-id", known["clusterId"], *scram]

        def one(node: _Node) -> None:
            config = str(node.home / "server.properties")
            try:
                java_tool("kafka.tools.StorageTool", *options, "--config", config)
            except ToolFailed as error:
                raise StartFailed(f"broker {node.node_id}: {error}") from error

        with ThreadPoolExecutor(self._brokers) as pool:
            list(pool.map(one, bare))

    def _launch(self, node: _Node) -> None:
        """Starts a broker's process; its log is appended to."""
        java = [str(find_java()), *self._jvm_options, *_shared_classes()]
        java += [f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}"]
        java += ["-cp", _class_path(), "kafka.Kafka"]
        with node.log.open("ab") as log:
            node.process = _spawn(
                [*java, str(node.home / "server.properties")],
                log,
            )

    def _await(self, nodes: Sequence[_Node], ids: set[int], timeout_s: float) -> None:
        """Waits until each of ``nodes`` names all of ``ids`` and a controller."""
        waiting = list(nodes)

        def ready() -> bool:
            for node in list(waiting):
                if not node.is_running:
                    raise StartFailed(
                        f"broker {node.node_id} ended:\n{node.log_tail()}"
                    )
                seen = probe(node.port)
                if seen and ids <= seen.broker_ids and seen.controller_id > 0:
                    waiting.remove(node)
            return not waiting

        if not _poll(ready, timeout_s):
            slow = waiting[0]
            raise StartFailed(
                f"broker {slow.node_id} was not ready on port {slow.port} in "
                f"{timeout_s:.0f} s:\n{slow.log_tail()}"
            )


_started: set[KafkaCluster] = set()


@atexit.register
def _stop_all() -> None:
    """Reaps what a caller left running, and removes its temporary data."""
    for cluster in list(_started):
        cluster.stop(kill=True)


def _new_cluster_id() -> str:
    """A random id in Kafka's form: base64 of 16 bytes, no dash in front."""
    while True:
        found = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found


def _scram_properties(listener: str) -> dict[str, str]:
    """What a broker needs to offer SCRAM on one listener."""
    prefix = f"listener.name.{listener.lower()}"
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        f"{prefix}.sasl.enabled.mechanisms": ",".join(_SASL_MECHANISMS),
    } | {
        f"{prefix}.{mechanism.lower()}.sasl.jaas.config": login
        for mechanism in _SASL_MECHANISMS
    }


def _class_path() -> str:
    return f"{jars()}/*"


def _jvm_options(heap_mb: int) -> list[str]:
    """Options for processes that are to start fast and live minutes."""
    return [
        f"-Xmx{heap_mb}m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Djava.awt.headless=true",
        # The machine's own warnings would stand in a tool's output.
        "-Xlog:disable",
        "-Xlog:all=warning:stderr",
    ]


def class_archive() -> Path:
    """Where ``share_classes`` keeps the archive of this Java and these jars."""
    java = find_java().resolve()
    told = f"{java} {java.stat().st_mtime_ns}"
    return jars() / f"classes-{hashlib.sha256(told.encode()).hexdigest()[:12]}.jsa"


def _shared_classes() -> list[str]:
    """The option that maps the archive, if there is one.

    A Java that finds it unfit ignores it.
    """
    found = class_archive()
    return [f"-XX:SharedArchiveFile={found}"] if found.exists() else []


def share_classes() -> Path:
    """Archives the classes that a broker loads, so that later starts map them.

    Halves the time and the work of a start (measured 2026-12 on two cores: 2.9 s
    to 1.4 s, 1.9 s to 1.2 s of processor). Runs a broker for a moment; does
    nothing where the archive is there.

    Raises:
        StartFailed: the broker did not start, or wrote no archive.
    """
    archive = class_archive()
    with _locked(archive.parent.parent / "lock", 120):
        if archive.exists():
            return archive
        with tempfile.TemporaryDirectory(dir=archive.parent) as work:
            draft = Path(work, archive.name)
            option = f"-XX:ArchiveClassesAtExit={draft}"
            with KafkaCluster(jvm_options=[option]) as cluster:
                cluster.stop_broker(1)
            if not draft.exists():
                raise StartFailed("Java wrote no archive of the broker's classes")
            draft.rename(archive)
    return archive


def java_tool(tool: str, *args: str, timeout_s: float = 60, stdin: str = "") -> str:
    """Runs one of Kafka's command-line classes to its end.

    Args:
        tool: The class, as ``org.apache.kafka.tools.TopicCommand``,
            ``org.apache.kafka.tools.AclCommand``,
            ``org.apache.kafka.tools.consumer.group.ConsumerGroupCommand`` or
            ``kafka.admin.ConfigCommand``.
        args: Its arguments, ``--bootstrap-server`` included.
        timeout_s: Bound on its running time, seconds.
        stdin: What it reads.

    Returns:
        What it wrote to standard output.

    Raises:
        ToolFailed: it exited with an error, or took too long.
    """
    java = [str(find_java()), *_jvm_options(256), *_shared_classes()]
    try:
        done = _run(
            [*java, "-cp", _class_path(), tool, *args], timeout_s=timeout_s, stdin=stdin
        )
    except subprocess.TimeoutExpired as late:
        raise ToolFailed(f"{tool} did not end in {timeout_s:.0f} s") from late
    if done.returncode != 0:
        said = _gist(done.stdout + done.stderr)
        raise ToolFailed(f"{tool} exited with {done.returncode}:\n{said}")
    return done.stdout


# ------------------------------------------------------------ the command line


def default_data() -> Path:
    """Where the command line keeps a cluster: beside the worker's state, not in it."""
    base = os.environ.get("XDG_STATE_HOME")
    parent = Path(base) if base else Path.home() / ".local" / "state"
    return parent / "pathgate-kafka"


def _say(text: str, to: IO[str] | None = None) -> None:
    """One line at once, also where the output is a pipe."""
    print(text, file=to or sys.stdout, flush=True)


def _up(options: argparse.Namespace) -> int:
    """Runs a cluster until a signal, or hands it to a process that does."""
    data: Path = options.data
    data.mkdir(parents=True, exist_ok=True)
    if options.background:
        return _up_in_background(options)
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    # A moment's patience, since a look at whether one runs takes the lock too.
    with _locked(data / "lock", 1) as mine:
        if not mine:
            raise StartFailed(f"a cluster runs in {data}; see status and down")
        try:
            return _run_until(asked, options)
        finally:
            _state(data).unlink(missing_ok=True)


def _run_until(asked: threading.Event, options: argparse.Namespace) -> int:
    """Runs the cluster until ``asked``; tells others of it while it runs."""
    ports = [options.port + index for index in range(options.brokers)]
    with KafkaCluster(options.brokers, options.data, ports) as cluster:
        told = json.dumps({"pid": os.getpid(), "ports": ports})
        # Renamed into place: a reader finds the whole or nothing.
        draft = _state(options.data).with_suffix(".new")
        draft.write_text(told + "\n", encoding="ascii")
        # Said before it is told: who waits for the file then reads this.
        _say(cluster.bootstrap)
        draft.rename(_state(options.data))
        while all(cluster.is_running(index + 1) for index in range(options.brokers)):
            if asked.wait(0.5):
                return 0
    raise StartFailed(f"a broker ended; its log is below {options.data}")


def _up_in_background(options: argparse.Namespace) -> int:
    """Starts a process of its own that runs the cluster; returns when ready."""
    data: Path = options.data
    if _running(data) is not None:
        raise StartFailed(f"a cluster runs in {data}; see status and down")
    command = [sys.executable, __file__, "up", "--data", str(data)]
    command += ["--brokers", str(options.brokers), "--port", str(options.port)]
    log = data / "up.log"
    with log.open("wb") as sink:
        runner = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # Long, since the jars may have to be fetched first.
    _poll(lambda: _running(data) is not None or runner.poll() is not None, 700)
    text = log.read_text(encoding="utf-8").strip()
    if _running(data) is None:
        runner.terminate()
        raise StartFailed(f"the cluster did not start:\n{text}")
    _say(text)
    # It lives on without this process, which therefore never waits for it.
    runner.returncode = 0
    return 0


def _state(data: Path) -> Path:
    """The file that tells of a cluster that is up in ``data``."""
    return data / "running.json"


def _running(data: Path) -> tuple[int, list[int]] | None:
    """Process id and ports of the cluster that runs in ``data``, if one does."""
    if not data.is_dir():
        return None
    with _locked(data / "lock", 0) as free:
        if free or not _state(data).exists():
            return None
        told = json.loads(_state(data).read_text(encoding="ascii"))
        return told["pid"], told["ports"]


def _down(options: argparse.Namespace) -> int:
    """Ends the cluster that runs in the data directory; fine if none does."""
    found = _running(options.data)
    if found is None:
        _say(f"nothing runs in {options.data}")
        return 0
    os.kill(found[0], signal.SIGTERM)
    if not _poll(lambda: _running(options.data) is None, _GRACE_S + 10):
        raise BrokerError(f"process {found[0]} has not ended; end it by hand")
    return 0


def _status(options: argparse.Namespace) -> int:
    """Prints each broker's answer; 0 if all answer, 1 otherwise."""
    found = _running(options.data)
    if found is None:
        _say(f"nothing runs in {options.data}")
        return 1
    answers = {port: probe(port) for port in found[1]}
    for port, answer in answers.items():
        alive = sorted(answer.broker_ids) if answer else []
        said = f"sees brokers {alive}" if answer else "does not answer"
        _say(f"{_HOST}:{port} {said}")
    return 0 if all(answers.values()) else 1


def _jars(_: argparse.Namespace) -> int:
    """Prints where the jars are, after fetching and preparing them if need be."""
    _say(str(jars()))
    try:
        share_classes()
    except StartFailed as error:
        _say(f"broker.py: every start will be slower: {error}", sys.stderr)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code, 1 where something was missing."""
    parser = argparse.ArgumentParser(
        description="A real Apache Kafka on loopback, without Docker."
    )
    commands = parser.add_subparsers(required=True)
    for name, run in {
        "jars": _jars,
        "up": _up,
        "down": _down,
        "status": _status,
    }.items():
        command = commands.add_parser(name, help=(run.__doc__ or "").splitlines()[0])
        command.set_defaults(run=run)
        if run is _jars:
            continue
        command.add_argument("--data", type=Path, default=default_data())
        if run is _up:
            command.add_argument("--brokers", type=int, choices=(1, 3), default=1)
            command.add_argument("--port", type=int, default=9092)
            command.add_argument("--background", action="store_true")
    options = parser.parse_args(argv)
    try:
        code: int = options.run(options)
    except BrokerError as error:
        _say(f"broker.py: {error}", sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
