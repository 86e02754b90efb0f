//! Stdio for MCP clients, in front of a server that may come and go.
