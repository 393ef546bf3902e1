"""`keet mcp`: what the commands say about reports, as read-only tools of an MCP server.

A tool returns a typed result and a short text, both bounded (`bounds`). It reads reports inside the
folders that the server was given (`roots`), each of them once (`cache`), and uses the functions of
the command of the same name, so that the numbers are the same. `server` has the protocol.
"""
