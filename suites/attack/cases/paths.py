"""File tools below a root, and what `--read-only` and `--tools` leave."""

import os
import threading
import time

from harness.case import case, check
from harness.world import SECRET


def traps(cx):
    """Paths below the root that lead outside, or that are no ordinary files."""
    root, secret = cx.root, cx.secret()
    outside = secret.parent
    (root / "folder").mkdir()
    (root / "to-file").symlink_to(secret)
    (root / "to-folder").symlink_to(outside)
    (root / "relative").symlink_to("../outside/secret")
    (root / "folder" / "chain").symlink_to("../to-folder")
    (root / "to-proc").symlink_to("/proc/self/root")
    (root / "to-fd").symlink_to("/proc/self/fd")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "fifo")
    os.link(secret, root / "hard")
    inside = ["to-file", "to-folder/secret", "relative", "folder/chain/secret", f"to-proc{secret}", "loop", "fifo"]
    inside += ["hard", "../outside/secret", "folder/../../outside/secret", "folder/./.././../outside/secret"]
    inside += ["//../outside/secret", "folder/chain/../outside/secret", "to-folder/../outside/secret"]
    inside += ["to-fd/0", "to-proc/etc/passwd"]
    paths = [f"{root}/{path}" for path in inside] + inside
    paths += [str(secret), f"/proc/self/root{secret}", "/proc/self/cwd/../outside/secret"]
    return paths + ["/etc/passwd", "/dev/zero", "~/x"]


@case("held", "no path, link, FIFO, device or second name leads a file tool out of its root")
def file_tools_stay_below_their_root(cx):
    paths, secret = traps(cx), cx.folder / "outside" / "secret"
    server = cx.serve("--root", cx.root)
    caller = server.caller(seconds=20)
    for path in paths:
        attempts = {
            "read_file": {"path": path},
            "write_file": {"path": path, "content": "changed"},
            "append": {"path": path, "content": "changed", "mode": "append"},
            "edit_file": {"path": path, "old_string": SECRET, "new_string": "changed"},
        }
        for name, arguments in attempts.items():
            answer = caller.call("write_file" if name == "append" else name, **arguments)
            check(SECRET not in str(answer.message), f"{name} of {path} shows the secret")
            check(secret.read_text() == SECRET, f"{name} of {path} changed a file outside")
    cx.note(f"{len(paths)} paths, 4 tools each")


@case("held", "lists and searches do not follow what leads out of the root")
def lists_and_searches_stay_below_their_root(cx):
    paths = traps(cx)
    caller = cx.serve("--root", cx.root).caller(seconds=20)
    for path in [str(cx.root), *paths]:
        for tool, arguments in (
            ("list_dir", {"path": path, "depth": 5, "hidden": True}),
            ("search_files", {"pattern": SECRET[:12], "path": path, "hidden": True, "ignored": True}),
        ):
            answer = caller.call(tool, **arguments)
            found = answer.data.get("matches") or []
            check(SECRET not in str(answer.result), f"{tool} of {path} shows the secret: {str(found)[:100]}")


@case("held", "a folder that is exchanged with a link at the right moment leads nobody out of the root")
def a_race_of_renames_leads_nowhere(cx):
    secret = cx.secret()
    (cx.root / "a").mkdir()
    (cx.root / "a" / "secret").write_text("harmless")
    (cx.root / "b").symlink_to(secret.parent)
    server, stop, swaps = cx.serve("--root", cx.root), threading.Event(), [0]

    def swap():
        while not stop.is_set():
            os.rename(cx.root / "a", cx.root / "c")
            os.rename(cx.root / "b", cx.root / "a")
            os.rename(cx.root / "c", cx.root / "b")
            swaps[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        caller, began, calls = server.caller(), time.monotonic(), 0
        while time.monotonic() - began < 2:
            answer = caller.call("read_file", path=f"{cx.root}/a/secret")
            check(SECRET not in str(answer.message), f"the secret was read after {swaps[0]} exchanges")
            caller.call("write_file", path=f"{cx.root}/a/secret", content="changed")
            check(secret.read_text() == SECRET, f"the secret was changed after {swaps[0]} exchanges")
            calls += 2
    finally:
        stop.set()
        thread.join()
    cx.note(f"{swaps[0]} exchanges, {calls} calls")


@case("held", "`--read-only` leaves nothing that changes anything, by any name or transport")
def read_only_changes_nothing(cx):
    server = cx.serve("--read-only", unix=True)
    forbidden = ["shell", "shell_bg", "jobs", "job_input", "job_stop", "job_output", "write_file", "edit_file"]
    target = cx.root / "made"
    arguments = {"command": f"touch {target}", "path": str(target), "content": "x", "id": "x"}
    arguments |= {"old_string": "", "new_string": "x"}
    clients = [server.caller(), server.session(), cx.keep(server.lines())]
    for client in clients:
        listed = str(client.ask("tools/list", {}).message)
        for tool in forbidden:
            check(f"'{tool}'" not in listed, f"{tool} is listed")
            check(client.call(tool, **arguments).refused, f"{tool} can be called")
    check(not target.exists(), "a file was made")


@case("held", "a tool that `--tools` does not name can be neither seen nor called")
def tools_that_are_not_offered_cannot_be_called(cx):
    server = cx.serve("--tools", "read_file,list_dir")
    caller = server.caller()
    names = [tool["name"] for tool in caller.ask("tools/list", {}).result["tools"]]
    check(sorted(names) == ["list_dir", "read_file"], f"listed are {names}")
    for name in ("shell", "Shell", "shell ", "write_file", "../shell"):
        check(caller.call(name, command="true", path="x", content="x").refused, f"{name!r} can be called")


@case("held", "what the operator denies stays denied, however the words are put")
def denied_commands_do_not_run(cx):
    caller = cx.serve("--deny", "touch").caller()
    target = cx.root / "made"
    for command in (f"touch {target}", f" touch  {target}", f"true; touch {target}", f"true && touch {target}"):
        check(caller.call("shell", command=command).refused, f"`{command}` was run")
    check(not target.exists(), "the command was run")
