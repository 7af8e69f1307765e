"""Jobs that are stopped go on elsewhere: other parallelism, other name, older state (S1, S2, S5)."""

from __future__ import annotations

import pytest

from tests.cluster import ledger
from tests.cluster.jobs import RETAINED, Orders

FROM = "execution.state-recovery.path"


@pytest.mark.parametrize(
    ("before", "after"), [(2, 3), pytest.param(3, 1, marks=pytest.mark.slow)], ids=["up", "down"]
)
def test_s5_k7_stop_with_a_savepoint_and_go_on_at_another_parallelism(
    orders: Orders, before: int, after: int
) -> None:
    cluster = orders.cluster
    job_id = orders.submit(parallelism=before)
    orders.await_started(orders.feed("before", keys=16, each=3)[:16])
    savepoint = cluster.savepoint(job_id, orders.folder / "savepoints", stop=True)
    started = len(ledger.starts(orders.folder))
    orders.submit(parallelism=after, name="another name", options={FROM: savepoint})
    orders.feed("after")
    orders.await_outputs()
    assert len(ledger.starts(orders.folder)) > started
    orders.kills = 1
    orders.check()


@pytest.mark.slow
def test_s1_cancel_and_go_on_from_the_last_retained_checkpoint(orders: Orders) -> None:
    cluster = orders.cluster
    job_id = orders.submit(options=RETAINED)
    orders.await_started(orders.feed("before", keys=16, each=3)[:16])
    cluster.await_checkpoint(job_id)
    cluster.cancel(job_id)
    checkpoint = cluster.completed_checkpoint(job_id)
    assert checkpoint is not None
    orders.submit(options={**RETAINED, FROM: checkpoint[1]})
    orders.feed("after")
    orders.await_outputs()
    orders.kills = 1
    orders.check()


def test_s2_p23_go_on_from_an_older_retained_checkpoint(orders: Orders) -> None:
    """The log is kept for all retained checkpoints, so that no recorded call runs again.

    The sink has committed outputs since, which Flink cannot take back: they appear a second time.
    """
    cluster = orders.cluster
    job_id = orders.submit(options=RETAINED)
    first = orders.feed("before")
    orders.await_started(first)
    older = cluster.await_checkpoint(job_id)
    orders.feed("between")
    orders.await_outputs()
    cluster.await_checkpoint(job_id)
    cluster.cancel(job_id)
    started = len(ledger.starts(orders.folder))
    orders.submit(options={**RETAINED, FROM: older})
    orders.feed("after", keys=4, each=1)
    orders.await_outputs()
    ran = ledger.starts(orders.folder)[started:]
    assert {start.question.split("-")[0] for start in ran} == {"after"}
    orders.cluster.eventually(
        lambda: len(ledger.committed(orders.folder)) > len(orders.questions), "outputs for the second time"
    )
