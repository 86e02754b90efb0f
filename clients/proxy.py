"""A TCP proxy that breaks one stream in mid-call, as a network does: right behind the words `cut here`."""

import socket
import threading

CUT = b"cut here"
RESUMES = b"\nlast-event-id:"


class CuttingProxy:
    """Passes bytes on both ways, and cuts the first connection on which the server says so.

    Nothing is timed: what the server says after the cut can only reach the client over another connection.
    """

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.listener.getsockname()[1]}"
        # Was a stream cut, and did somebody ask to go on where it ended?
        self.cut = self.resumed = False
        self.open = []

    def pass_on_to(self, port):
        spawn(self.accept, port)

    def close(self):
        for end in (self.listener, *self.open):
            hang_up(end)

    def accept(self, port):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(("127.0.0.1", port))
            self.open += (client, server)
            spawn(self.pump, client, server, self.watch_request)
            spawn(self.pump, server, client, self.watch_response)

    def pump(self, source, sink, watch):
        seen = b""
        try:
            while chunk := source.recv(65536):
                seen += chunk
                sink.sendall(chunk)
                if watch(seen):
                    break
        except OSError:
            pass  # the other direction was the first to end
        hang_up(source)
        hang_up(sink)

    def watch_request(self, seen):
        self.resumed = self.resumed or RESUMES in seen.lower()
        return False

    def watch_response(self, seen):
        # The event goes through whole; an empty line ends it.
        if self.cut or b"\n\n" not in seen.partition(CUT)[2]:
            return False
        self.cut = True
        return True


def spawn(function, *args):
    threading.Thread(target=function, args=args, daemon=True).start()


def hang_up(end):
    try:
        # Unlike close, it also wakes a thread that waits on this socket.
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already
    end.close()
