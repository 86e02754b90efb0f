"""Stands in for any model: it keeps what it is sent, and says what it is told to say.

It speaks as much of four APIs as agents need: Anthropic's Messages, OpenAI's Responses and Chat Completions, and
Gemini's generateContent. Nothing here leaves this machine.
"""

import base64
import http.server
import json
import re
import threading
from dataclasses import dataclass, field


@dataclass
class Seen:
    """The result of one tool call, as it stands in the request that carries it to the model."""

    texts: list = field(default_factory=list)
    images: list = field(default_factory=list)
    # What the API itself says of it; None where it has no such field.
    is_error: bool | None = None

    @property
    def text(self):
        return "\n".join(self.texts)


class StubModel:
    """A model at a URL. `next_call(step, seen)` gives the tool and arguments of a step, or None at the end.

    `seen` is the result of the step before, which is None for the first one. Without `next_call` every request is
    refused, in a way that no agent tries again.
    """

    def __init__(self, next_call=None, server_name="lmcp"):
        self.next_call, self.server_name = next_call, server_name
        # Bodies of all requests; the results by step; and the tools that were offered, by name.
        self.requests, self.seen, self.offered = [], {}, {}
        self.lock = threading.Lock()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                length = int(self.headers.get("content-length") or 0)
                text = self.rfile.read(length).decode(errors="replace")
                status, kind, body = model.answer(self.path, text)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.listener.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.listener.server_port}"

    def __enter__(self):
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown()
        self.listener.server_close()

    def answer(self, path, text):
        """Status, content type and body of the answer to one request."""
        with self.lock:
            self.requests.append(text)
            api = next((api for api in APIS if api.is_asked(path)), None)
            try:
                request = json.loads(text) if text else {}
            except ValueError:
                request = None
            if api is None or self.next_call is None or not isinstance(request, dict):
                return refusal()
            body = api.aside(path) or self.turn(api, request)
            if isinstance(body, dict):
                return 200, "application/json", json.dumps(body).encode()
            return 200, "text/event-stream", b"".join(body)

    def turn(self, api, request):
        offered = api.tools(request)
        # Titles, summaries and the like are asked for without tools; the agent's own work never is.
        if not offered:
            return api.say("fine", request)
        self.offered = offered
        step, seen = latest(api.results(request))
        if step is not None:
            self.seen.setdefault(step, seen)
        step = 0 if step is None else step + 1
        call = self.next_call(step, seen)
        if call is None:
            return api.say("done", request)
        name, arguments = call
        return api.call(f"call_{step}", self.resolve(name, offered), arguments, request)

    def resolve(self, name, offered):
        """How the agent calls the tool that the server at hand calls `name`."""
        return next((long for long in offered if re.search(rf"{self.server_name}[_/]+{name}$", long)), name)


def latest(results):
    """The step and the result that came last: (None, None) if there is none yet."""
    steps = {int(found[1]): seen for id, seen in results if (found := re.fullmatch(r"call_(\d+)", id or ""))}
    return max(steps.items(), default=(None, None))


def refusal():
    error = {"type": "invalid_request_error", "status": "INVALID_ARGUMENT", "code": 400, "message": "no model"}
    return 400, "application/json", json.dumps({"type": "error", "error": error}).encode()


def event(data, name=None):
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def add_url(seen, url):
    """A data URL is an image; of any other, the model only sees the address."""
    found = re.fullmatch(r"data:image/[\w.+-]+;base64,(.*)", url, re.DOTALL)
    if found:
        seen.images.append(base64.b64decode(found[1]))
    else:
        seen.texts.append(url)


class Messages:
    """Anthropic's Messages API."""

    def is_asked(self, path):
        return "/v1/messages" in path

    def aside(self, path):
        return {"input_tokens": 100} if "count_tokens" in path else None

    def tools(self, request):
        return {tool["name"]: tool for tool in request.get("tools", [])}

    def results(self, request):
        for message in request["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            for block in (block for block in blocks if block["type"] == "tool_result"):
                seen = Seen(is_error=bool(block.get("is_error")))
                content = block.get("content") or []
                for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                    if part["type"] == "image":
                        seen.images.append(base64.b64decode(part["source"]["data"]))
                    else:
                        seen.texts.append(part.get("text") or json.dumps(part))
                yield block["tool_use_id"], seen

    def say(self, text, request):
        return self.message({"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn", request)

    def call(self, id, name, arguments, request):
        block = {"type": "tool_use", "id": id, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        return self.message(block, delta, "tool_use", request)

    def message(self, block, delta, reason, request):
        usage = {"input_tokens": 100, "output_tokens": 10}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model", "x")}
        head |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        if not request.get("stream"):
            whole = {**block, "text": delta["text"]} if "text" in delta else {**block, "input": {}}
            return head | {"content": [whole], "stop_reason": reason}
        ending = {"stop_reason": reason, "stop_sequence": None}
        events = [
            {"type": "message_start", "message": head},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": usage},
            {"type": "message_stop"},
        ]
        return [event(data, data["type"]) for data in events]


class Responses:
    """OpenAI's Responses API, with what Codex adds to it: namespaces, a search for tools, and programs that call them."""

    def is_asked(self, path):
        return path.endswith("/responses")

    def aside(self, path):
        return None

    def tools(self, request):
        """Those of the request itself and those in its items: found by a search, say. Here a name is `NAMESPACE/NAME`."""
        found, items = {}, [item for item in request["input"] if item.get("tools")]
        for tool in [*request.get("tools", []), *(tool for item in items for tool in item["tools"])]:
            name = tool.get("name", tool["type"])
            found |= {f"{name}/{inner['name']}": inner for inner in tool.get("tools", [])} or {name: tool}
        return found

    def results(self, request):
        for item in request["input"]:
            if item.get("type") not in ("function_call_output", "custom_tool_call_output"):
                continue
            seen, output = Seen(), item["output"]
            for part in [{"type": "input_text", "text": output}] if isinstance(output, str) else output:
                if part["type"] == "input_image":
                    add_url(seen, part["image_url"])
                else:
                    seen.texts.append(part.get("text") or json.dumps(part))
            yield item["call_id"], seen

    def say(self, text, request):
        part = {"type": "output_text", "text": text}
        return self.items({"type": "message", "role": "assistant", "id": "item_1", "content": [part]})

    def call(self, id, name, arguments, request):
        offered = self.tools(request)
        space, _, own = name.rpartition("/")
        if name not in offered and "functions/exec" in offered:
            item = {"type": "custom_tool_call", "call_id": id, "name": "exec", "input": program(own, arguments)}
            return self.items({**item, "namespace": "functions"})
        if name not in offered and "tool_search" in offered:
            query = {"query": name.replace("_", " ")}
            return self.items({"type": "tool_search_call", "call_id": f"find_{id}", "execution": "client", "arguments": query})
        item = {"type": "function_call", "call_id": id, "name": own, "arguments": json.dumps(arguments)}
        return self.items({**item, "namespace": space} if space else item)

    def items(self, item):
        usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        item = {"id": "item_1", **item}
        events = [
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "resp_1", "output": [item], "usage": usage}},
        ]
        return [event(data, data["type"]) for data in events]


def program(name, arguments):
    """The JavaScript of a model that wants to see what a tool says."""
    return f"""const result = await tools.mcp__lmcp__{name}({json.dumps(arguments)});
for (const block of result.content) {{
  if (block.type === "image") image(block);
  else text(block.type === "text" ? block.text : block);
}}"""


class Chat:
    """OpenAI's Chat Completions API, which most others offer too."""

    def is_asked(self, path):
        return path.endswith("/chat/completions")

    def aside(self, path):
        return None

    def tools(self, request):
        return {tool["function"]["name"]: tool["function"] for tool in request.get("tools", [])}

    def results(self, request):
        """A tool's message has text alone, so agents put images into a message of the user's behind it."""
        id, seen = None, None
        for message in request["messages"]:
            if message["role"] == "tool":
                if seen is not None:
                    yield id, seen
                id, seen = message["tool_call_id"], Seen()
            elif message["role"] == "assistant" or seen is None:
                if seen is not None:
                    yield id, seen
                seen = None
                continue
            content = message["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if part["type"] == "image_url":
                    add_url(seen, part["image_url"]["url"])
                else:
                    seen.texts.append(part.get("text") or json.dumps(part))
        if seen is not None:
            yield id, seen

    def say(self, text, request):
        return self.chunks({"role": "assistant", "content": text}, "stop", request)

    def call(self, id, name, arguments, request):
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"index": 0, "id": id, "type": "function", "function": function}]
        return self.chunks({"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls", request)

    def chunks(self, message, reason, request):
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        head = {"id": "chat_1", "created": 1, "model": request.get("model", "x")}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        choices = ({"index": 0, "delta": message}, {"index": 0, "delta": {}, "finish_reason": reason})
        head["object"] = "chat.completion.chunk"
        chunks = [event({**head, "choices": [choice]}) for choice in choices]
        return [*chunks, event({**head, "choices": [], "usage": usage}), b"data: [DONE]\n\n"]


class Generate:
    """Gemini's generateContent."""

    def is_asked(self, path):
        return ":generateContent" in path or ":streamGenerateContent" in path or ":countTokens" in path

    def aside(self, path):
        return {"totalTokens": 100} if ":countTokens" in path else None

    def tools(self, request):
        groups = request.get("tools", [])
        return {tool["name"]: tool for group in groups for tool in group.get("functionDeclarations", [])}

    def results(self, request):
        """Images stand in the response or, for older models, beside it."""
        for content in request["contents"]:
            id, seen = None, None
            for part in content.get("parts", []):
                if "functionResponse" in part:
                    if seen is not None:
                        yield id, seen
                    answer = part["functionResponse"]
                    id, seen = answer.get("id"), Seen()
                    self.take(answer.get("response", {}), answer.get("parts", []), seen)
                elif seen is not None:
                    self.take({}, [part], seen)
            if seen is not None:
                yield id, seen

    def take(self, response, parts, seen):
        for key, value in response.items():
            seen.texts.append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            seen.is_error = key == "error"
        for part in parts:
            if "inlineData" in part:
                seen.images.append(base64.b64decode(part["inlineData"]["data"]))
            else:
                seen.texts.append(part.get("text") or json.dumps(part))

    def say(self, text, request):
        return self.candidate({"text": text})

    def call(self, id, name, arguments, request):
        return self.candidate({"functionCall": {"id": id, "name": name, "args": arguments}})

    def candidate(self, part):
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
        content = {"role": "model", "parts": [part]}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        return [event({"candidates": [candidate], "usageMetadata": usage})]


APIS = (Messages(), Responses(), Chat(), Generate())
