"""A Python operator for the tests of the bridge: it shows what crosses, and echoes its inputs."""

import sys


class ProbeOperator:
    def __init__(self, host, settings):
        self.host = host
        self.settings = settings

    def restore_group(self, group, blob):
        return None

    def restore_key(self, key, group, flat):
        return None

    def start(self):
        facts = {
            "settings": dict(self.settings),
            "prefix": sys.prefix,
            "path": sys.path,
            "types": {k: type(v).__name__ for k, v in dict(self.settings).items()},
        }
        return (0, 0, 0, repr(facts).encode(), None)

    def process(self, key, group, payload, timestamp):
        return (0, 0, 0, repr((key, group, payload, timestamp)).encode(), timestamp)

    def snapshot(self, checkpoint_id, kind):
        groups = self.settings["last_group"] - self.settings["first_group"] + 1
        return [b""] * groups, []

    def completed(self, checkpoint_id):
        return None

    def aborted(self, checkpoint_id):
        return None

    def end_input(self):
        return None

    def drain(self):
        return None

    def finish(self):
        return None

    def close(self):
        return True


def open_operator(host, settings):
    return ProbeOperator(host, settings)
