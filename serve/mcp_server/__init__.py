"""The MCP server: the tools of the bank, and `solve_task`, for any MCP client. Needs the extra `mcp`."""
