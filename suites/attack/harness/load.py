"""Loads that are bounded in number and time, and a stopwatch for who calls meanwhile."""

import contextlib
import threading
import time


class Stopwatch:
    """How long calls took, one after the other."""

    def __init__(self):
        self.seconds = []

    def measure(self, call):
        began = time.monotonic()
        answer = call()
        self.seconds.append(time.monotonic() - began)
        return answer

    def quantile(self, part):
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0

    def worst(self):
        return max(self.seconds, default=0)

    def summary(self):
        middle, late = self.quantile(0.5) * 1000, self.quantile(0.99) * 1000
        return f"{len(self.seconds)} calls, p50 {middle:.1f} ms, p99 {late:.1f} ms"


class Load:
    """Threads that attack until they are told to stop. What goes wrong in one is counted: it is the server's answer."""

    def __init__(self, seconds):
        self.stop = threading.Event()
        self.deadline = time.monotonic() + seconds
        self.counts = {}
        self.threads = []
        self.lock = threading.Lock()

    def add(self, name, attack, times=1):
        """Runs `attack()` again and again, in so many threads. It returns a word for what happened, or nothing."""
        for _ in range(times):
            thread = threading.Thread(target=self._repeat, args=(name, attack), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _repeat(self, name, attack):
        while not self.is_over():
            try:
                word = attack() or "done"
            except Exception as error:  # Refused, reset, timed out: what a server under attack may do.
                word = type(error).__name__
                self.stop.wait(0.05)
            with self.lock:
                key = f"{name} {word}"
                self.counts[key] = self.counts.get(key, 0) + 1

    def is_over(self):
        return self.stop.is_set() or time.monotonic() > self.deadline

    def wait(self):
        """Sleeps until the time is up."""
        self.stop.wait(max(0, self.deadline - time.monotonic()))

    def close(self):
        self.stop.set()
        for thread in self.threads:
            with contextlib.suppress(RuntimeError):
                thread.join(15)

    def summary(self):
        return ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
