"""A real Fluss cluster in processes of its own: ZooKeeper, coordinator and tablet servers, from one jar.

Each server has two listeners: one without security, and one with SASL whose users are in `PASSWORDS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import fluss

from flink_agents_durable import FlussActionStateStore
from flink_agents_durable.store.fluss_errors import NotReadyError
from flink_agents_durable.store.fluss_table import ensure_table
from tests.store.java_process import QUICK_START, START_SECONDS, JavaProcess, free_ports, libraries

FLUSS = "0.9.1-incubating"

CACHE = Path(__file__).parents[2] / ".cache" / f"fluss-{FLUSS}"

PASSWORDS = {"agents": "the secret of agents"}

DATABASE = "agents"

LEADER_SECONDS = 10.0
"""After which a new table has leaders, or never gets them."""

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>server</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.fluss</groupId><artifactId>fluss-server</artifactId><version>{FLUSS}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

_ZOOKEEPER = """
dataDir={folder}/zookeeper
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
tickTime=500
"""

_SERVER = """
zookeeper.address: 127.0.0.1:{port}
zookeeper.path.root: /fluss
# Back in some instead of 33 seconds after a SIGKILL.
zookeeper.client.session-timeout: 3s
remote.data.dir: {folder}/remote
# An acknowledged row survives the loss of any one of several servers.
log.replica.min-in-sync-replicas-number: {in_sync}
# A leader does not tell waiting followers of new rows: each append would wait for this, half a second by default.
log.replica.fetch.wait-max-time: 10ms
internal.listener.name: PLAIN
security.protocol.map: SECURE:sasl
security.sasl.enabled.mechanisms: plain
security.sasl.plain.jaas.config: org.apache.fluss.security.auth.sasl.plain.PlainLoginModule required {users};
"""

_OPEN = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "java.util", "java.lang")]
_ZOOKEEPER_MAIN = "org.apache.fluss.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain"
_COORDINATOR_MAIN = "org.apache.fluss.server.coordinator.CoordinatorServer"
_TABLET_MAIN = "org.apache.fluss.server.tablet.TabletServer"


class FlussServer:
    """On free ports. Ends with this process, also when that is killed."""

    def __init__(self, folder: Path, tablets: int = 1, java_options: Sequence[str] = QUICK_START) -> None:
        self.folder = folder
        self.java_options = java_options
        self.log = folder / "fluss.log"
        folder.mkdir(parents=True, exist_ok=True)
        self._keeper: JavaProcess | None = None
        self._coordinator: JavaProcess | None = None
        self._tablets: dict[int, JavaProcess] = {}
        keeper, plain, secure, *ports = free_ports(3 + 2 * tablets)
        self.bootstrap, self.secure_bootstrap = f"127.0.0.1:{plain}", f"127.0.0.1:{secure}"
        self.tablets = tablets
        self._coordinator_ports = plain, secure
        self._tablet_ports = list(zip(ports[::2], ports[1::2], strict=True))
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        (folder / "zookeeper.cfg").write_text(_ZOOKEEPER.format(folder=folder, port=keeper))
        in_sync = min(tablets, 2)
        (folder / "server.yaml").write_text(
            _SERVER.format(folder=folder, port=keeper, users=users, in_sync=in_sync)
        )

    def start(self) -> None:
        """Returns when a table can be made."""
        self._keeper = self._run(_ZOOKEEPER_MAIN, "zookeeper.cfg")
        self.start_coordinator()
        for number in range(len(self._tablet_ports)):
            self.start_tablet(number)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self._coordinator is None or self._coordinator.ended:
                raise RuntimeError(f"the server did not start:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.1)

    def start_coordinator(self) -> None:
        self._coordinator = self._run_server(_COORDINATOR_MAIN, self._coordinator_ports)

    def start_tablet(self, number: int = 0) -> None:
        self._tablets[number] = self._run_server(
            _TABLET_MAIN,
            self._tablet_ports[number],
            f"tablet-server.id={number}",
            f"data.dir={self.folder}/data-{number}",
        )

    def kill_tablet(self, number: int = 0) -> None:
        self._tablets.pop(number).kill()

    def kill(self) -> None:
        """SIGKILL of everything."""
        servers = [*self._tablets.values(), self._coordinator, self._keeper]
        self._tablets, self._coordinator, self._keeper = {}, None, None
        for server in servers:
            if server is not None:
                server.kill()

    def restart_tablet(self, number: int, away: float = 0.0) -> None:
        """SIGKILL, and a new one on the same data after some seconds. Not waited for."""
        self.kill_tablet(number)
        time.sleep(away)
        self.start_tablet(number)

    def options(self, table: str) -> dict[str, str]:
        """Of a job with a table of its own, as safe as this cluster can keep it."""
        return {
            "agents.store.type": "fluss",
            "agents.store.fluss.bootstrap-servers": self.bootstrap,
            "agents.store.fluss.database": DATABASE,
            "agents.store.fluss.table": table,
            "agents.store.fluss.replication-factor": str(min(self.tablets, 3)),
        }

    def pause(self, number: int = 0) -> None:
        self._tablets[number].pause()

    def go_on(self, number: int = 0) -> None:
        self._tablets[number].go_on()

    def ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        """What the coordinator answers to a question put to its admin client."""

        async def run() -> Any:
            connection = await fluss.FlussConnection.create(
                fluss.Config({"bootstrap.servers": self.bootstrap})
            )
            try:
                return await question(connection.get_admin())
            finally:
                await connection.close()

        return asyncio.run(run())

    def make(self, store: FlussActionStateStore) -> bool:
        """Make the table of a store, and say whether it can be used: the coordinator misses one now and then."""

        async def make(admin: Any) -> bool:
            with contextlib.suppress(NotReadyError):
                await ensure_table(admin, store.settings)
            path = fluss.TablePath(DATABASE, store.settings.table)
            deadline = time.monotonic() + LEADER_SECONDS
            while time.monotonic() < deadline:
                with contextlib.suppress(fluss.FlussError):
                    await admin.list_offsets(
                        path, list(range(store.settings.buckets)), fluss.OffsetSpec.latest()
                    )
                    return True
                await asyncio.sleep(0.1)
            return False

        return bool(self.ask(make))

    def drop(self, table: str) -> None:
        async def drop(admin: Any) -> None:
            with contextlib.suppress(fluss.FlussError):
                await admin.drop_table(fluss.TablePath(DATABASE, table), ignore_if_not_exists=True)

        self.ask(drop)

    def secure_properties(self, user: str, password: str | None = None) -> dict[str, str]:
        """What a client of the secured listener sets."""
        return {
            "security.protocol": "sasl",
            "security.sasl.mechanism": "PLAIN",
            "security.sasl.username": user,
            "security.sasl.password": PASSWORDS[user] if password is None else password,
        }

    def _answers(self) -> bool:
        async def ready(admin: Any) -> bool:
            nodes = await admin.get_server_nodes()
            return sum(node.server_type == "TabletServer" for node in nodes) == len(self._tablet_ports)

        try:
            return bool(self.ask(ready))
        except fluss.FlussError:
            return False

    def _run_server(self, main: str, ports: tuple[int, int], *settings: str) -> JavaProcess:
        plain, secure = ports
        listeners = f"bind.listeners=PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}"
        options = [word for setting in (listeners, *settings) for word in ("-D", setting)]
        return self._run(main, "--configDir", str(self.folder), *options)

    def _run(self, main: str, *arguments: str) -> JavaProcess:
        jars = libraries(CACHE, _POM)
        options = [
            *self.java_options,
            "-Xmx256m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *_OPEN,
            "-cp",
            f"{jars}/*",
        ]
        return JavaProcess([*options, main, *arguments], self.folder, self.log)
