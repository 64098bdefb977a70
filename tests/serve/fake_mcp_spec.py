"""The tool that the fake MCP server lists when nothing else is said."""

FORECAST = {
    "name": "Forecast",
    "description": "Tells how warm it will be in a town.",
    "schema": {
        "type": "object",
        "properties": {"town": {"type": "string"}},
        "required": ["town"],
    },
}
