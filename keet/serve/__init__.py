"""The MCP server of `keet mcp`.

A tool uses the functions of the command of the same name, so that the numbers are the same. It
reads reports inside the given folders, each once (`reports`, which also lists the tools), and
returns a typed result and a short text, both of limited size. `server` has the protocol. Only this
package imports `mcp`; it never writes files or runs programs.
"""
