"""A Python operator for the tests of the bridge: each input names what it does."""

import sys
import threading


class ProbeOperator:
    def __init__(self, host, settings):
        self.host = host
        self.settings = settings
        self.restored = []
        self.updates = []
        self.outputs = []
        self.stuck = False

    # What Java asks for

    def restore_group(self, group, blob):
        self.restored.append((group, blob))

    def restore_key(self, key, group, flat):
        self.restored.append((key, group, flat))

    def sweep_interval(self):
        return None

    def start(self):
        return None

    def process(self, key, group, payload, timestamp, stored):
        try:
            answer = getattr(self, payload.decode())(key)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        if answer is None:
            return None
        return (0, 0, 0, answer if isinstance(answer, bytes) else str(answer).encode(), timestamp)

    def drain(self):
        outputs, self.outputs = self.outputs, []
        items = []
        for output in outputs:
            items += [output, None]
        return (0, 0, 0, *items)

    def snapshot(self, checkpoint_id, kind):
        updates, self.updates = self.updates, []
        groups = range(self.settings["first_group"], self.settings["last_group"] + 1)
        return [b"group %d" % group for group in groups], tuple(updates)

    def finish(self):
        return None

    def watermark(self, timestamp):
        return (0, 0, 0, timestamp)

    def end_input(self):
        return None

    def aborted(self, checkpoint_id):
        return None

    def completed(self, checkpoint_id):
        return None

    def close(self):
        return not self.stuck

    # What the inputs say

    def settings_types(self, key):
        return {name: type(value).__name__ for name, value in sorted(dict(self.settings).items())}

    def plan(self, key):
        return self.settings["plan"]

    def prefix(self, key):
        return sys.prefix

    def imports(self, key):
        import msgspec

        return msgspec.__name__

    def archive(self, key):
        with open("data/model.txt") as file:
            return file.read()

    def write(self, key):
        self.updates += [key, (0, None, b"active", 1, 7, b"journal", 5, "a.b", b"memory")]

    def read(self, key):
        return self.host.loadKey(key), self.host.loadMemory(key)

    def what_was_restored(self, key):
        return len(self.restored), self.restored[0], self.restored[-1]

    def metrics(self, key):
        self.host.updateMetrics(("calls", "c", 3, "model.depth", "g", 1.5, "model.latency", "h", 12))
        return "reported"

    def wait(self, key):
        return self.host.awaitSignal(10)

    def wake_from_a_thread(self, key):
        def run():
            self.outputs.append(b"woken")
            self.host.signal()
            self.host.wake()

        thread = threading.Thread(target=run)
        thread.start()
        signalled = self.host.awaitSignal(10_000)
        thread.join()
        return signalled

    def wait_long_and_swallow(self, key):
        try:
            self.host.awaitSignal(60_000)
        except RuntimeError as error:
            return f"interruption: {self.host.isInterruption(error.args[0])}"
        return "not interrupted"

    def get_stuck(self, key):
        self.stuck = True
        return "stuck"


def open_operator(host, settings):
    return ProbeOperator(host, settings)
