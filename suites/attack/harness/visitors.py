"""What clients do in a soak: honest calls, sessions, streams, cancels, jobs, and leaving without a word."""

import contextlib
import subprocess
import time

from driver import wire

from . import http
from .lines import Lines


class Visitor:
    """One caller. Each method is one short visit and returns a word for what it met; `wrong` is what must not be."""

    def __init__(self, cx, server, token, chance):
        self.cx, self.server, self.token, self.chance = cx, server, token, chance

    def kinds(self):
        return {
            "calls": self.call_tools,
            "session": self.use_a_session,
            "stream": self.abandon_a_stream,
            "cancel": self.cancel_a_command,
            "job": self.run_and_restart_a_job,
            "unix": self.leave_in_the_middle,
            "client": self.kill_a_client,
            "broken": self.send_rubbish,
        }

    def call_tools(self):
        caller = self.server.caller(self.token)
        with contextlib.closing(caller):
            path = str(self.cx.root / f"file-{self.chance.randrange(8)}-{self.token[:3]}")
            for tool, arguments, wanted in (
                ("write_file", {"path": path, "content": "words\n" * self.chance.randrange(1, 2000)}, ""),
                ("read_file", {"path": path}, "words"),
                ("list_dir", {"path": str(self.cx.root)}, ""),
                ("search_files", {"pattern": "words", "path": str(self.cx.root), "limit": 5}, ""),
                ("shell", {"command": "echo said"}, "said"),
            ):
                answer = caller.call(tool, **arguments)
                if answer.refused or wanted not in answer.text:
                    return f"wrong: {tool} says {answer.text[:100]}"
            failed = caller.call("shell", command="exit 3")
        return "done" if failed.data.get("exit_code") == 3 else f"wrong: {failed.text[:100]}"

    def use_a_session(self):
        session = self.server.session(self.token)
        with contextlib.closing(session):
            stream = session.open_stream()
            session.ask("logging/setLevel", {"level": "info"})
            answer = session.call("shell", command="echo words")
            stream.close()
            if self.chance.random() < 0.5:
                session.end()
        return "done" if "words" in answer.text else f"wrong: {answer.text[:100]}"

    def abandon_a_stream(self):
        session = self.server.session(self.token)
        with contextlib.closing(session), session.call_unread("shell", command="sleep 0.5; echo late") as stream:
            stream.recv(10)
        return "left"

    def cancel_a_command(self):
        connection = Lines(self.server.socket)
        with contextlib.closing(connection):
            call = connection.request("tools/call", {"name": "shell", "arguments": {"command": "sleep 60"}})
            self.pause()
            connection.cancel(call)
            answer = connection.request("tools/call", {"name": "shell", "arguments": {"command": "echo after"}})
            said = str(answer.wait(self.cx.deadline))
            return "done" if "after" in said else f"wrong: {said[:100]}"

    def run_and_restart_a_job(self):
        caller = self.server.caller(self.token)
        with contextlib.closing(caller):
            started = caller.call("shell_bg", command="read line; echo got $line; sleep 60")
            if started.refused:
                return "refused"
            job = started.data["id"]
            caller.call("job_input", id=job, text="words\n")
            seen = caller.call("job_output", id=job, wait_for="got words", wait=20).text
            again = caller.call("job_stop", id=job, restart=True, grace=0.2).data["restarted_as"]
            caller.call("job_stop", id=again, signal="KILL")
        return "done" if "got words" in seen else f"wrong: {seen[:100]}"

    def leave_in_the_middle(self):
        connection = Lines(self.server.socket)
        connection.request("tools/call", {"name": "shell", "arguments": {"command": "setsid sleep 60 & sleep 60"}})
        self.pause()
        connection.close()
        return "left"

    def kill_a_client(self):
        """A proxy that is killed while its call runs."""
        command = [self.cx.binary, "proxy", str(self.server.socket)]
        env = self.cx.environment(self.cx.mark)
        with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, env=env) as client:
            call = wire.request(1, "tools/call", {"name": "shell", "arguments": {"command": "sleep 60"}}, wire.MODERN)
            client.stdin.write(wire.encode(call))
            client.stdin.flush()
            self.pause()
            client.kill()
        return "killed"

    def send_rubbish(self):
        http.raw(self.server.port, self.chance.randbytes(200), seconds=2)
        headers = self.server.caller(self.token).headers("tools/list")
        with http.connect(self.server.port) as connection:
            connection.sendall(http.head("POST", "/mcp", headers, 5000, self.server.port) + b'{"half": ')
        self.pause()
        return "sent"

    def pause(self):
        """A moment of another length each time."""
        time.sleep(self.chance.random() * 0.3)
