"""Files that programs lock: a call waits for the program, and nobody waits for the call."""

import fcntl

from harness.case import case, check, equal
from harness.world import token_of

from .screens import Crowd


def locked_files(cx, count):
    """New files, which this program locks until the case ends."""
    paths = [cx.root / f"locked-{number:02}" for number in range(count)]
    for path in paths:
        path.write_text("old\n")
        fcntl.flock(cx.keep(open(path)), fcntl.LOCK_EX)
    return paths


@case("D60", "calls that wait for locked files must not keep others from their own files", alone=True, limit=240)
def waits_for_locked_files_hold_up_nobody(cx):
    server = cx.serve("--root", cx.root, tokens=("ann", "bob"))
    free = [cx.root / f"free-{number:02}" for number in range(48)]
    for path in free:
        path.write_text("old\n")
    edits = [{"path": str(path), "old_string": "old", "new_string": "new"} for path in [*locked_files(cx, 16), *free]]
    ann, bob = Crowd(server, token_of("ann"), 8, "edit_file", edits=edits, dry_run=True), server.caller(token_of("bob"))
    for number in range(30):
        answer = bob.call("write_file", path=str(cx.root / f"bob-{number}"), content="mine")
        check(not answer.refused, f"another caller cannot write: {answer.text[:120]}")
    check("mine" in bob.call("search_files", pattern="mine", path=str(cx.root)).text, "another caller cannot search")
    check(not ann.answers, "another caller waited until those who wait for locked files had their answers")
    ann.wait()


@case("D61", "the lock of a program counts, however many locked files another caller has waited for", limit=120)
def locks_count_beside_many_waits(cx):
    server = cx.serve("--root", cx.root, tokens=("ann", "bob"))
    ann, bob = token_of("ann"), token_of("bob")
    for waiting in [Crowd(server, ann, 1, "write_file", path=str(path), content="new") for path in locked_files(cx, 20)]:
        waiting.wait()
    path = cx.root / "counted"
    path.write_text("1\n")
    with open(path, "r+") as program:
        fcntl.flock(program, fcntl.LOCK_EX)
        read = program.read()
        adding = Crowd(server, bob, 1, "write_file", path=str(path), content="added\n", mode="append")
        # A call that does not wait for the lock is done before these are.
        other = server.caller(bob)
        for _ in range(50):
            other.call("read_file", path=str(path))
        program.seek(0)
        program.write(read + "2\n")
        program.truncate()
    adding.wait()
    equal(path.read_text(), "1\n2\nadded\n", "a change that was made under a lock, and one beside it")
