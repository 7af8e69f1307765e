"""Runs a soak and prints its ledger. Exit status 1 if anything was lost, doubled, repeated or out of order."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.cluster.standalone import ClusterError
from tests.soak.verdict import judge
from tests.soak.world import INPUTS, World, running_world

KEYS = 24  # the inputs of one come after one another: fewer do not keep up
INPUTS_A_SECOND = 3.0
MAX_PARALLELISM = 4
CALM_SECONDS = 2.0, 10.0
"""Between two disturbances."""
OVERLAP = 0.25
"""How often the next disturbance does not wait until the job has recovered from the one before."""
END_SECONDS = 600.0
"""For the last inputs, after the last disturbance."""


class Feeder:
    """Sends numbered inputs, in order for each key, until it is told to stop."""

    def __init__(self, world: World) -> None:
        self.questions: list[str] = []
        self._producer = world.producer()
        self._stopped = threading.Event()
        self._failures: list[str] = []
        self._thread = threading.Thread(target=self._feed)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the broker has acknowledged all of them."""
        self._stopped.set()
        self._thread.join()
        left = self._producer.flush()
        if left or self._failures:
            raise ClusterError(f"inputs were not taken by the broker: {left} left, {self._failures[:3]}")

    def _feed(self) -> None:
        number = 0
        while not self._stopped.wait(1 / INPUTS_A_SECOND):
            key = f"key{number % KEYS}"
            question = f"{key} {number // KEYS}"
            self.questions.append(question)
            self._producer.produce(INPUTS, question.encode(), key.encode(), on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._failures.append(str(error))


class Disturbances:
    """What happens to the job, at random moments; in a random order, but each kind as often as it should."""

    def __init__(self, world: World, choice: random.Random) -> None:
        self.world, self.choice = world, choice
        self.counts: Counter[str] = Counter()
        self._next: list[Callable[[], str]] = []

    def one(self) -> str:
        if not self._next:
            kinds = [self.kill_task_manager, self.kill_broker, self.kill_model_server, self.rescale]
            if self.world.fluss is not None:
                kinds.append(self.kill_tablet_server)
            self._next = [self.kill_task_manager, *kinds]
            self.choice.shuffle(self._next)
        kind = self._next.pop()
        self.counts[kind.__name__.replace("_", " ")] += 1
        return kind()

    def kill_task_manager(self) -> str:
        cluster = self.world.cluster
        working = self.world.working_processes()
        living = cluster.living_task_managers()
        # Not one that only stands by, unless the one that worked has just been killed.
        victims = [member for member in living if member.pid in working] or living
        name = self.choice.choice(victims).name
        cluster.kill_task_manager(name)
        cluster.start_task_manager()
        return f"SIGKILL of {name}{'' if victims is not living else ', which stood by'}"

    def kill_broker(self) -> str:
        self.world.broker.kill()
        away = self.choice.uniform(0, 3)
        time.sleep(away)
        self.world.broker.start()
        return f"SIGKILL of the broker, {away:.1f} s away"

    def kill_tablet_server(self) -> str:
        fluss = self.world.fluss
        assert fluss is not None
        number, away = self.choice.randrange(fluss.tablets), self.choice.uniform(0, 5)
        fluss.restart_tablet(number, away)
        return f"SIGKILL of tablet server {number} of Fluss, {away:.1f} s away"

    def kill_model_server(self) -> str:
        self.world.model.kill()
        away = self.choice.uniform(0, 8)
        time.sleep(away)
        self.world.model.start()
        return f"SIGKILL of the model server, {away:.1f} s away"

    def rescale(self) -> str:
        world = self.world
        world.eventually(lambda: world.cluster.is_running(world.job_id), "a job that runs, to be rescaled")
        before = world.parallelism
        after = self.choice.choice([n for n in range(1, MAX_PARALLELISM + 1) if n != before])
        world.rescale(after)
        return f"stopped with a savepoint, {before} -> {after}"


def soak(folder: Path, minutes: float, store: str, seed: int) -> bool:
    choice = random.Random(seed)
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s  {text}", flush=True)

    say(f"store {store}, seed {seed}, folder {folder}")
    with running_world(folder, store) as world:
        feeder, disturbances = Feeder(world), Disturbances(world, choice)
        feeder.start()
        try:
            world.await_progress()
            say("the job runs")
            until = time.monotonic() + minutes * 60
            while time.monotonic() < until:
                time.sleep(choice.uniform(*CALM_SECONDS))
                say(disturbances.one())
                if choice.random() >= OVERLAP:
                    world.await_progress()
                    say(f"recovered; {len(feeder.questions)} inputs so far")
        finally:
            feeder.stop()
        wanted = set(feeder.questions)

        def complete() -> bool:
            return {output.question for output in world.read_outputs()} >= wanted

        try:
            world.eventually(complete, "an output for each input", END_SECONDS)
        except ClusterError as error:
            say(str(error))
        if world.cluster.state_of(world.job_id) == "RUNNING":
            world.cluster.savepoint(world.job_id, folder / "savepoints", stop=True)
        outputs = world.read_outputs()
    verdict = judge(folder, feeder.questions, outputs)
    say("ended: " + ", ".join(f"{count} x {kind}" for kind, count in disturbances.counts.items()))
    print(verdict.table())
    return verdict.is_good()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    parser = argparse.ArgumentParser(prog="tools/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long it is disturbed")
    parser.add_argument("--store", choices=["kafka", "fluss", "sqlite"], default="kafka")
    parser.add_argument("--seed", type=int, default=None, help="of the disturbances")
    parser.add_argument("--folder", type=Path, default=None, help="kept afterwards; otherwise all is removed")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        good = soak(options.folder.resolve(), options.minutes, options.store, seed)
    else:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            good = soak(Path(folder), options.minutes, options.store, seed)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
