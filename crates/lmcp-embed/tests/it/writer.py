"""A child that adds to the scratchpad of its host without pause, on a new connection whenever the host has gone, and never twice the
same word. When a line comes on its terminal it stops, reads the scratchpad, and prints how many of the words that were
acknowledged are missing there."""
import json, os, select, socket, sys, time

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
acknowledged, number, name = set(), 0, os.getpid()


def calls():
    """Connects, and gives a function that calls a tool."""
    credentials = json.load(open(os.environ["LMCP_IDENTITY_FILE"]))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(credentials["socket"])
    lines = connection.makefile("rw", encoding="utf-8", newline="\n")
    print(json.dumps({"lmcp_identity": credentials["identity"]}), file=lines, flush=True)

    def call(tool, arguments):
        params = {"name": tool, "arguments": arguments, "_meta": META}
        print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}), file=lines, flush=True)
        for line in lines:
            message = json.loads(line)
            if message.get("id") == 1 and "result" in message:
                return message["result"]["content"]
        raise OSError("the host has gone")

    return call


while True:
    try:
        call = calls()
        before = len(acknowledged)
        while not select.select([sys.stdin], [], [], 0)[0]:
            number += 1
            word = f"{name}.{number};"
            call("append_pad", {"text": word})
            acknowledged.add(word)
            if len(acknowledged) == before + 50:
                print("fifty", flush=True)
        found = set(call("read_pad", {})[0]["text"].split(";"))
        missing = [word for word in acknowledged if word[:-1] not in found]
        print(f"missing {len(missing)} of {len(acknowledged)} end", flush=True)
        break
    except (OSError, ValueError):
        time.sleep(0.001)
time.sleep(600)
