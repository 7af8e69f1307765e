from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.jobs import CLUSTER_SETTINGS, Client, Orders, kafka, sqlite
from tests.cluster.standalone import StandaloneCluster
from tests.store.fluss_server import FlussServer
from tests.store.kafka_broker import KafkaBroker


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Started once. Each TaskManager has room for whole jobs, so that one stands by for the other."""
    folder = tmp_path_factory.mktemp("cluster")
    cluster = StandaloneCluster(folder, task_managers=2, slots=4, settings=CLUSTER_SETTINGS)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(shared_cluster: StandaloneCluster) -> Iterator[StandaloneCluster]:
    """With all its TaskManagers, and without jobs of tests before."""
    shared_cluster.replace_dead_task_managers()
    yield shared_cluster
    for job in shared_cluster.get("/jobs")["jobs"]:
        shared_cluster.end(job["id"])


@pytest.fixture(scope="session")
def client(shared_cluster: StandaloneCluster) -> Iterator[Client]:
    client = Client(shared_cluster)
    yield client
    client.close()


@pytest.fixture
def orders(cluster: StandaloneCluster, client: Client, tmp_path: Path) -> Iterator[Orders]:
    orders = Orders(cluster, client, tmp_path, sqlite(tmp_path))
    yield orders
    orders.end()


@pytest.fixture
def orders_on_kafka(
    cluster: StandaloneCluster, client: Client, tmp_path: Path, kafka_broker: KafkaBroker
) -> Iterator[Orders]:
    orders = Orders(cluster, client, tmp_path, kafka(kafka_broker.bootstrap, tmp_path))
    yield orders
    orders.end()


@pytest.fixture
def orders_on_fluss(
    cluster: StandaloneCluster, client: Client, tmp_path: Path, fluss_server: FlussServer
) -> Iterator[Orders]:
    orders = Orders(cluster, client, tmp_path, fluss_server.options(tmp_path.name))
    yield orders
    orders.end()
