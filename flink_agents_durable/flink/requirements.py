"""What a job must be like for its agents, checked or set when an agent is applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflink.java_gateway import get_gateway
from pyflink.util.java_utils import get_field_value

from flink_agents_durable.api.errors import ConfigurationError

RUNTIME_MODE = "execution.runtime-mode"
UNALIGNED = "execution.checkpointing.unaligned.enabled"
_UNALIGNED_KEYS = (UNALIGNED, "execution.checkpointing.unaligned")
# Flink's own default for parallelism up to 85; a power of two spreads keys evenly over key groups.
_DEFAULT_MAX_PARALLELISM = 128
_UPPER_MAX_PARALLELISM = 1 << 15


def refuse_batch(config: dict[str, str], j_input: Any) -> None:
    """Keeps K8: in BATCH, Flink clears the state of a key when the next key comes."""
    mode = config.get(RUNTIME_MODE, "STREAMING").upper()
    if mode == "AUTOMATIC" and not _is_bounded(j_input):
        return
    if mode != "STREAMING":
        why = "" if mode == "BATCH" else ", which means BATCH here because the whole input is bounded"
        raise ConfigurationError(
            f"agents do not run in BATCH execution, and {RUNTIME_MODE} is {mode}{why}. Remedy: "
            "env.set_runtime_mode(RuntimeExecutionMode.STREAMING); a bounded input ends such a job too"
        )


def _is_bounded(transformation: Any) -> bool:
    """Whether all sources before this are bounded: the rule by which Flink resolves AUTOMATIC."""
    unbounded = str(get_gateway().jvm.org.apache.flink.api.connector.source.Boundedness.CONTINUOUS_UNBOUNDED)
    for part in transformation.getTransitivePredecessors():
        boundedness = getattr(part, "getBoundedness", None)
        if boundedness is None or part.getInputs().size() > 0:
            continue
        if str(boundedness()) == unbounded:
            return False
    return True


def use_unaligned_checkpoints(j_config: Any) -> None:
    """Keeps K1: an operator that waits for calls lets no aligned barrier pass."""
    if not any(key in j_config.toMap() for key in _UNALIGNED_KEYS):
        j_config.setString(UNALIGNED, "true")


def refuse_duplicate_uid(j_env: Any, uid: str) -> None:
    """A uid names state and log, so that two operators of one uid would read each other's."""
    if not isinstance(uid, str) or not uid.strip():
        raise ConfigurationError(f"the uid of an agent is a text, not {uid!r}: apply(agent, uid='reviews')")
    if uid in _uids(j_env):
        raise ConfigurationError(
            f"two operators of this job have the uid {uid!r}, under which their state would be mixed up. "
            "Remedy: give each agent its own: apply(agent, uid='...')"
        )


def _uids(j_env: Any) -> Iterator[str]:
    for transformation in get_field_value(j_env, "transformations"):
        uid = transformation.getUid()
        if uid is not None:
            yield str(uid)


def max_parallelism(j_env: Any) -> int:
    """The job's own, else one that leaves room for rescaling; it must not follow each start's parallelism."""
    own, parallelism = int(j_env.getMaxParallelism()), int(j_env.getParallelism())
    if own > 0:
        return own
    needed = _DEFAULT_MAX_PARALLELISM
    while needed < parallelism:
        needed *= 2
    return min(needed, _UPPER_MAX_PARALLELISM)
