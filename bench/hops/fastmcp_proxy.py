"""FastMCP's proxy as its documentation has it: PORT COMMAND ARGUMENT…"""

import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

port, command, *args = sys.argv[1:]
proxy = create_proxy(StdioTransport(command, args), name="proxy")
proxy.run("http", host="127.0.0.1", port=int(port), path="/mcp", show_banner=False, log_level="ERROR")
