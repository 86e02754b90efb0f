#!/usr/bin/env python3
"""Stands between a framework and a server on stdio, and writes down how each tool call ended: record.py LOG COMMAND…

So what counts is what the server said, whatever the framework makes of it.
"""

import json
import subprocess
import sys
import threading


def main():
    log, command = sys.argv[1], sys.argv[2:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    asked = {}

    def pass_on_requests():
        for line in sys.stdin.buffer:
            message = parsed(line)
            if message.get("method") == "tools/call":
                asked[message["id"]] = message["params"]
            server.stdin.write(line)
            server.stdin.flush()
        server.stdin.close()

    threading.Thread(target=pass_on_requests, daemon=True).start()
    for line in server.stdout:
        message = parsed(line)
        if "method" not in message and message.get("id") in asked:
            call = asked.pop(message["id"])
            with open(log, "a") as out:
                out.write(json.dumps({"answered": call["name"], "sent": call.get("arguments"), "wrong": wrong(message)}) + "\n")
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    return server.wait()


def parsed(line):
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    return message if isinstance(message, dict) else {}


def wrong(answer):
    """Why the call failed, as the server says it; None if it did not."""
    if "error" in answer:
        return answer["error"]["message"]
    result = answer["result"]
    if not result.get("isError"):
        return None
    return " ".join(block.get("text", "") for block in result.get("content", [])) or "an error without a word"


if __name__ == "__main__":
    sys.exit(main())
