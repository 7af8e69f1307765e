"""Finds the jar of the Java operator: in the installed package, or in a checkout where Maven built it."""

from __future__ import annotations

from pathlib import Path

from flink_agents_durable.api.errors import ConfigurationError

_PACKAGE = Path(__file__).resolve().parent.parent
_PATTERN = "flink-agents-durable-bridge-*.jar"
_OTHER_JARS = ("-sources.jar", "-javadoc.jar", "-tests.jar")


def bridge_jar(package: Path = _PACKAGE) -> Path:
    """The newest bridge jar. In a checkout the one that Maven built last wins over a copy in the package."""
    folders = [package / "jars", package.parent / "java-bridge" / "target"]
    jars = [jar for folder in folders for jar in folder.glob(_PATTERN) if not jar.name.endswith(_OTHER_JARS)]
    if not jars:
        raise ConfigurationError(
            f"the jar of the Java operator is neither in {folders[0]} nor in {folders[1]}. Remedy: install "
            "flink-agents-durable from a wheel, which contains it, or in a checkout run tools/setup"
        )
    return max(jars, key=lambda jar: jar.stat().st_mtime)
