"""A web site on loopback that counts who comes, redirects, and has pages without end."""

import http.server
import threading


class Website:
    """Serves until it is closed."""

    def __init__(self, redirect=None, pages=()):
        self.hits = []
        self.redirect = redirect
        self.pages = pages
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                site.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        self.hits.append(request.path)
        try:
            if request.path.startswith("/endless"):
                self.answer_without_end(request)
            elif request.path.startswith("/to/"):
                request.send_response(302)
                request.send_header("Location", self.redirect(request.path[4:]))
                request.end_headers()
            else:
                body = b"<html><body><p>the page behind the wall</p></body></html>"
                if request.path.startswith("/page/"):
                    body = self.pages[int(request.path[6:].partition("?")[0])]
                request.send_response(200)
                request.send_header("Content-Type", "text/html")
                request.send_header("Content-Length", str(len(body)))
                request.end_headers()
                request.wfile.write(body)
        except OSError:
            pass  # The client has had enough.

    def answer_without_end(self, request):
        request.send_response(200)
        request.send_header("Content-Type", "text/html")
        request.end_headers()
        request.wfile.write(b"<html><body>")
        block = b"<p>" + b"words without end " * 3600 + b"</p>"
        # Bounded all the same: nobody should take this much.
        for _ in range(4096):
            request.wfile.write(block)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
