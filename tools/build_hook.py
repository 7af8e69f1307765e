"""Hatch build hook: a wheel contains the jar of the Java operator; its users need no Maven and no JDK."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PATTERN = "flink-agents-durable-bridge-*.jar"


class JarBuildHook(BuildHookInterface):
    """Builds the jar by Maven unless it is newer than its sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable":
            return  # a checkout takes the jar from Maven's own folder; tools/setup builds it
        jar = up_to_date_jar(root) or build(root)
        build_data["force_include"][str(jar)] = f"flink_agents_durable/jars/{jar.name}"


def up_to_date_jar(root: Path) -> Path | None:
    """The jar in Maven's folder, if no source has changed since."""
    bridge = root / "java-bridge"
    jars = [jar for jar in (bridge / "target").glob(PATTERN) if "-sources" not in jar.name]
    sources = [bridge / "pom.xml", *(bridge / "src" / "main").rglob("*")]
    newest = max(source.stat().st_mtime for source in sources if source.is_file())
    fresh = [jar for jar in jars if jar.stat().st_mtime > newest]
    return max(fresh, key=lambda jar: jar.stat().st_mtime, default=None)


def build(root: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError(
            "building the wheel needs Maven and a JDK from 11 on, for the jar of the Java operator. Remedy: "
            "install them (Debian: apt-get install maven default-jdk-headless), or install a ready wheel"
        )
    pom = root / "java-bridge" / "pom.xml"
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), "-DskipTests", "package"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    jar = up_to_date_jar(root)
    if jar is None:
        raise RuntimeError(
            f"Maven ended without an error, but there is no new {PATTERN} in {pom.parent / 'target'}"
        )
    return jar
