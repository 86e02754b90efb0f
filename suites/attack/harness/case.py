"""What a case is, how one is registered, and how one fails or is skipped."""

from dataclasses import dataclass

from driver.case import Failed, check, equal, shorten  # noqa: F401  (cases import them from here)


class Skip(Exception):
    """This machine, or this user, cannot run the case."""


@dataclass
class Case:
    name: str
    topic: str
    number: str
    why: str
    body: object
    needs: tuple
    form: str
    alone: bool
    limit: float


CASES = []


def case(number, why, needs=(), form="short", alone=False, limit=60):
    """Registers a function as a case.

    `number` is the attack it repeats (`D1`…), or `held` for one that never worked. `needs` holds `root`, or `user`
    for an ordinary user alone. `form` is `short`, or `long` for what is too heavy for `./test`. `alone`
    cases measure something, so no other runs beside them. `limit` is in seconds.
    """

    def register(body):
        topic = body.__module__.rpartition(".")[2]
        CASES.append(Case(body.__name__, topic, number, why, body, tuple(needs), form, alone, limit))
        return body

    return register
