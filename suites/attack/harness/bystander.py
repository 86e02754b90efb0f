"""A caller in a process of its own, so that the attacker's own work does not count as the server's delay."""

import json
import os
import time

from .load import Stopwatch


class Bystander:
    """Makes the same call again and again for some seconds. To be started before any thread of the attack is."""

    def __init__(self, make_call, seconds, pause=0.01):
        self.reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reading)
            self._work(make_call, seconds, pause, writing)
        os.close(writing)

    def _work(self, make_call, seconds, pause, writing):
        watch, complaint = Stopwatch(), ""
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not complaint:
                complaint = watch.measure(make_call)
                time.sleep(pause)
        except BaseException as error:
            complaint = f"{type(error).__name__}: {error}"
        with os.fdopen(writing, "w") as pipe:
            json.dump({"seconds": watch.seconds, "complaint": complaint}, pipe)
        os._exit(0)

    def result(self):
        """How long its calls took, and what it complains of: the first answer that was not the right one."""
        with os.fdopen(self.reading) as pipe:
            said = json.loads(pipe.read() or '{"seconds": [], "complaint": "it broke off"}')
        os.waitpid(self.pid, 0)
        watch = Stopwatch()
        watch.seconds = said["seconds"]
        return watch, said["complaint"]
