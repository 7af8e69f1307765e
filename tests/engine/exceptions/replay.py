"""Reads failure records in a process of its own: `python -m tests.engine.exceptions.replay FILE`.

Prints, for each, which classes catch what it replays as, and what the expressions of its case give.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from flink_agents_durable.api.errors import RecordedCallError
from flink_agents_durable.engine.failures import decode_failure
from flink_agents_durable.engine.payload import PayloadCodec
from tests.engine.exceptions import own
from tests.engine.exceptions.cases import caught_by, read


def report(record: bytes, expressions: list[str], codec: PayloadCodec) -> dict[str, Any]:
    error = decode_failure(record, codec)
    return {
        "caught": caught_by(error),
        "substitute": isinstance(error, RecordedCallError),
        "text": str(error),
        "values": read(error, expressions),
    }


def main(path: str) -> None:
    plan, records = cloudpickle.loads(Path(path).read_bytes())
    del own.Gone
    codec = PayloadCodec(cloudpickle.loads(plan), "plan")
    print(json.dumps({name: report(data, wanted, codec) for name, (data, wanted) in records.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
