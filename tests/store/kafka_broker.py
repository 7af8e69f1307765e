"""A real Kafka broker in a process of its own: fetched once from Maven, started in seconds, killed at will.

It has two listeners: one without security, whose users may do everything, and one with TLS and SASL, whose
users may do what their ACLs say.
"""

from __future__ import annotations

import contextlib
import datetime
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.store.java_process import QUICK_START, START_SECONDS, JavaProcess, free_ports, libraries

KAFKA, LOG4J = "4.1.1", "2.24.3"

CACHE = Path(__file__).parents[2] / ".cache" / f"kafka-{KAFKA}"

PASSWORDS = {"agents": "the secret of agents", "stranger": "the secret of a stranger"}
"""Users of the secured listener. `agents` may use topics whose names begin with `agents`, `stranger` none."""

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>{LOG4J}</version>
    </dependency>
  </dependencies>
</project>
"""

_LOG4J = """Configuration:
  Appenders:
    Console: {name: out, PatternLayout: {pattern: "%d %p %m (%c)%n"}}
  Loggers:
    Root: {level: warn, AppenderRef: {ref: out}}
"""

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAIN://127.0.0.1:{plain},SECURE://localhost:{secure},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAIN:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
log.dirs={folder}/data
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
required {users};
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={folder}/broker.pem
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
controlled.shutdown.enable=false
# The memory of a process that lives for a test session.
log.cleaner.dedupe.buffer.size=4194304
log.index.size.max.bytes=65536
# Back in 3 instead of 11 seconds after a SIGKILL.
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
# Truncation is seen soon, and survives a SIGKILL.
log.initial.task.delay.ms=100
log.retention.check.interval.ms=1000
log.flush.start.offset.checkpoint.interval.ms=500
# A deleted topic is gone soon.
log.segment.delete.delay.ms=1000
"""

_SECOND = """
process.roles=broker
node.id=2
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAIN://127.0.0.1:{plain}
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
log.dirs={folder}/second
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
transaction.state.log.num.partitions=1
offsets.topic.num.partitions=1
share.coordinator.state.topic.num.partitions=1
controlled.shutdown.enable=false
log.cleaner.dedupe.buffer.size=4194304
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
"""
_IDENTITY = "--cluster-id=AgentsOfFlinkForTests0"


class KafkaBroker:
    """One broker on free ports. It ends with this process, also when that is killed."""

    def __init__(self, folder: Path, java_options: Sequence[str] = QUICK_START) -> None:
        self.folder = folder
        self.java_options = java_options
        self.log = folder / "broker.log"
        self._admin: AdminClient | None = None
        self._process: JavaProcess | None = None
        folder.mkdir(parents=True, exist_ok=True)
        plain, secure, controller = free_ports(3)
        self._controller = controller
        self.bootstrap = f"127.0.0.1:{plain}"
        self.secure_bootstrap = f"localhost:{secure}"
        self.authority = folder / "authority.pem"
        _write_certificates(self.authority, folder / "broker.pem")
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        properties = _PROPERTIES.format(
            plain=plain, secure=secure, controller=controller, folder=folder, users=users
        )
        (folder / "server.properties").write_text(properties)
        (folder / "log4j2.yaml").write_text(_LOG4J)
        self._format("server.properties")

    def start(self) -> None:
        """Returns when it answers."""
        self._admin = None  # one that has lost its broker may not find it again
        self._process = self._run("kafka.Kafka", "server.properties")
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self._process.ended:
                raise RuntimeError(f"the broker did not start:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def pause(self) -> None:
        """Connections stay open and nothing answers."""
        assert self._process is not None
        self._process.pause()

    def go_on(self) -> None:
        assert self._process is not None
        self._process.go_on()

    def restart(self) -> None:
        self.kill()
        self.start()

    @contextlib.contextmanager
    def second_broker(self) -> Iterator[None]:
        """Number 2 of this cluster, while it lasts; killed at the end. It holds no topic of Kafka's own: they are
        made before it comes."""
        self._make_transaction_topic()
        (plain,) = free_ports(1)
        properties = _SECOND.format(plain=plain, controller=self._controller, folder=self.folder)
        (self.folder / "second.properties").write_text(properties)
        if not (self.folder / "second").exists():
            self._format("second.properties")
        process = self._run("kafka.Kafka", "second.properties")
        try:
            self._await_brokers(2)
            yield
        finally:
            process.kill()
        self._await_brokers(1)

    def _make_transaction_topic(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "first"})
        producer.init_transactions(START_SECONDS)

    def _await_brokers(self, number: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while len(self.admin().list_topics(timeout=5).brokers) != number:
            if time.monotonic() > deadline:
                raise RuntimeError(f"there are not {number} brokers:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)

    def _format(self, properties: str) -> None:
        self._run("kafka.tools.StorageTool", "format", _IDENTITY, "-c", properties).wait()

    def scram_properties(self, user: str) -> dict[str, str]:
        """The same by SCRAM, for a user that it makes known."""
        password = f"{PASSWORDS[user]}, by SCRAM"
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        for altered in self.admin().alter_user_scram_credentials([change]).values():
            altered.result()
        return {**self.secure_properties(user, password), "sasl.mechanism": "SCRAM-SHA-512"}

    def admin(self) -> AdminClient:
        """One that lives until the next start, since futures fail when their client is gone."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def delete(self, topic: str) -> None:
        for deleted in self.admin().delete_topics([topic]).values():
            with contextlib.suppress(KafkaException):  # one that was never made
                deleted.result()

    def secure_properties(self, user: str, password: str | None = None) -> dict[str, str]:
        """What a client of the secured listener sets."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user] if password is None else password,
        }

    def grant(self, user: str, prefix: str) -> None:
        """What a user needs for a store whose topic begins like that."""
        needed = {
            ResourceType.TOPIC: ["DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE", "DELETE", "CREATE"],
            ResourceType.TRANSACTIONAL_ID: ["DESCRIBE", "WRITE"],
            ResourceType.GROUP: ["READ"],
        }
        bindings = [
            AclBinding(
                kind,
                prefix,
                ResourcePatternType.PREFIXED,
                f"User:{user}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for kind, operations in needed.items()
            for operation in operations
        ]
        for granted in self.admin().create_acls(bindings).values():
            granted.result()

    def _answers(self) -> bool:
        try:
            # The socket first: a client that is refused once waits longer than a start takes.
            socket.create_connection(("127.0.0.1", int(self.bootstrap.split(":")[1])), 1).close()
            return bool(self.admin().list_topics(timeout=5).brokers)
        except Exception:
            return False

    def _run(self, main: str, *arguments: str) -> JavaProcess:
        options = [*self.java_options, "-Xmx256m", "-Dlog4j2.configurationFile=log4j2.yaml"]
        jars = libraries(CACHE, _POM)
        return JavaProcess([*options, "-cp", f"{jars}/*", main, *arguments], self.folder, self.log)


def _write_certificates(authority: Path, broker: Path) -> None:
    """A certificate authority, and key and certificate that it gave to the broker at `localhost`."""
    authority_key, broker_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name = _name("the authority of the tests")
    root = _certificate(authority_name, authority_name, authority_key.public_key(), is_authority=True)
    leaf = _certificate(_name("localhost"), authority_name, broker_key.public_key(), is_authority=False)
    root_pem = root.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    leaf_pem = leaf.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    key_pem = broker_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    authority.write_bytes(root_pem)
    broker.write_bytes(key_pem + leaf_pem + root_pem)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    )
