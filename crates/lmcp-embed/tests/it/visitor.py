"""Somebody on a host's socket: says what it is told to, prints what it hears.

    visitor.py CREDENTIALS|- COUNT LINE...

CREDENTIALS is the file with the token, or `-` for no greeting; `env` takes it from LMCP_IDENTITY_FILE. Prints COUNT lines,
or all until the end if there are fewer. `SOCKET=` overrides the credentials' socket; `WAIT=1` prints `sent` after the
greeting; `UID=` becomes another user first;
`BY_ANOTHER=1` lets a process connect that has ended before the greeting."""
import json, os, socket, sys

file, count, lines = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
credentials = {}
if file != "-":
    credentials = json.load(open(os.environ["LMCP_IDENTITY_FILE"] if file == "env" else file))
if "UID" in os.environ:
    os.setuid(int(os.environ["UID"]))
connection = socket.socket(socket.AF_UNIX)
where = os.environ.get("SOCKET") or credentials["socket"]
if "BY_ANOTHER" in os.environ:
    # Another process connects and ends; the connection stays.
    if (child := os.fork()) == 0:
        connection.connect(where)
        os._exit(0)
    os.waitpid(child, 0)
else:
    connection.connect(where)


def say(line):
    try:
        connection.sendall(line.encode() + b"\n")
    except (BrokenPipeError, ConnectionResetError):
        pass


if credentials:
    say(json.dumps({os.environ.get("KEY", "lmcp_identity"): credentials["identity"], "project_key": "x"}))
if "WAIT" in os.environ:
    print("sent", flush=True)
for line in lines:
    say(line)
heard = connection.makefile("r", encoding="utf-8", newline="\n")
try:
    for _ in range(count):
        line = heard.readline()
        if not line:
            break
        print(line, end="", flush=True)
except ConnectionResetError:
    pass
