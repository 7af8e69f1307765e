"""Dataclasses that were shipped by value are whole in another process (D1, D3, K3, case 38)."""

from __future__ import annotations

import subprocess
import sys
import textwrap

SCRIPT = """
import dataclasses, subprocess, sys
import cloudpickle

@dataclasses.dataclass(frozen=True)
class Order:
    number: int
    tags: list = dataclasses.field(default_factory=list, compare=False)

ships = cloudpickle.dumps((Order(1), Order(2)))
code = f'''
import dataclasses, pickle
from flink_agents_durable.engine.digest import digest
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.engine.plan_classes import register_plan_classes
one, two = pickle.loads({ships!r})
assert digest(one) != digest(two)
assert encode_key(one) != encode_key(two)
register_plan_classes("plan", {{"Order": type(one)}})
assert dataclasses.asdict(two) == {{"number": 2, "tags": []}}, dataclasses.asdict(two)
assert dataclasses.fields(one)[0].default is dataclasses.MISSING
'''
subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_d1_k3_a_dataclass_of_main_has_its_fields_in_the_process_that_it_was_shipped_to() -> None:
    subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT)], check=True)
