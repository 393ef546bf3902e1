"""The MCP server of `keet mcp`.

A tool uses the functions of the command of the same name, so that the numbers are the same. It
reads reports inside the given folders (`allowed_folders`), each once (`report_cache`), and returns
a typed result and a short text, both of limited size. `tools` lists the tools, `server` has the
protocol. Only this package imports `mcp`; it never writes files or runs programs.
"""
