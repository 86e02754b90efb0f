"""Output of jobs that is read as a resource: it stays within the budget of bytes, whatever it becomes as JSON."""

import json

from driver import wire
from harness import http
from harness.case import case
from harness.limits import room_for_files
from harness.world import Sockets

from .memory import judge, serve

# Output of which each byte becomes three as text, or six in JSON, or stays one.
OUTPUTS = {"no text": r"tr '\0' '\377'", "signs to escape": r"tr '\0' '\001'", "words": r"tr '\0' x"}


def output_of(caller, becomes):
    """The parameters that read a megabyte of the output of a job."""
    job = caller.call("shell_bg", command=f"head -c 1000000 /dev/zero | {OUTPUTS[becomes]}").data["id"]
    caller.call("job_output", id=job, wait_exit=True)
    caller.close()
    return {"uri": f"job://{job}/output?offset=0&limit=1000000"}


@case("D47", "outputs of jobs in one batch over HTTP must not add up", limit=120)
def outputs_in_a_batch_over_http_stay_in_the_budget(cx):
    for becomes in OUTPUTS:
        # The addresses of a program are bounded, too, as on many hosts.
        server, crowd = serve(cx, wrap=["prlimit", "--as=300000000"]), cx.keep(Sockets())
        read = output_of(server.caller(), becomes)
        params = wire.initialize_params() | {"protocolVersion": "2025-03-26"}
        hello = wire.encode({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        opened = server.caller().post(hello, http.base_headers(None))
        reads = [{"jsonrpc": "2.0", "id": number, "method": "resources/read", "params": read} for number in range(100)]
        body = json.dumps(reads).encode()
        headers = http.base_headers(None) | {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        for _ in range(3):
            crowd.ask_and_not_read(server, http.head("POST", "/mcp", headers, len(body), server.port) + body, wait=20)
        for connection in crowd.sockets:
            try:
                connection.recv(1)
            except OSError:
                pass  # It waits until others are read, or was refused, which is right.
        crowd.close()
        judge(cx, server, f"three batches of 100 reads of {becomes} that nobody reads")
        server.close()


@case("D47", "outputs of jobs that nobody reads must not add up", limit=120)
def unread_outputs_over_http_stay_in_the_budget(cx):
    room_for_files(700)
    for becomes in OUTPUTS:
        server, crowd = serve(cx, wrap=["prlimit", "--as=300000000"]), cx.keep(Sockets())
        read = output_of(server.caller(), becomes)
        body = wire.encode(wire.request(1, "resources/read", read, wire.MODERN))
        head = http.head("POST", "/mcp", server.caller().headers("resources/read", read), len(body), server.port)
        for _ in range(400):
            crowd.ask_and_not_read(server, head + body, wait=2)
        server.come_to_rest()
        crowd.close()
        judge(cx, server, f"400 reads of {becomes} that nobody reads")
        server.close()


@case("D47", "nor may they on unix sockets", limit=120)
def unread_outputs_on_sockets_stay_in_the_budget(cx):
    for becomes in OUTPUTS:
        server, crowd = serve(cx, unix=True, wrap=["prlimit", "--as=300000000"]), cx.keep(Sockets())
        read = output_of(server.lines(), becomes)
        reads = b"".join(wire.encode(wire.request(number, "resources/read", read, wire.MODERN)) for number in range(60))
        for _ in range(60):
            crowd.ask_and_not_read(server, reads)
        server.come_to_rest()
        crowd.close()
        judge(cx, server, f"60 reads of {becomes} each on 60 sockets that nobody reads")
        server.close()
