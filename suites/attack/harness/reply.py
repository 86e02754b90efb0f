"""The answer to one request, on whatever transport it came."""


class Reply:
    """A JSON-RPC response."""

    def __init__(self, message):
        self.message = message

    @property
    def result(self):
        return self.message.get("result")

    @property
    def error(self):
        return self.message.get("error") or {}

    @property
    def refused(self):
        """Was the call not carried out, in whatever way that is said?"""
        return self.result is None or bool(self.result.get("isError"))

    @property
    def text(self):
        """What a person would read of it."""
        if self.result is None:
            return str(self.error.get("message", ""))
        blocks = self.result.get("content") or self.result.get("contents") or []
        return "".join(block.get("text", "") for block in blocks)

    @property
    def data(self):
        """The structured content of a tool's result."""
        return (self.result or {}).get("structuredContent") or {}
