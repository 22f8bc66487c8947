"""A model on loopback for coding agents: it answers every prompt with one sentence, in the three interfaces that
they speak, and keeps the requests. It has no intelligence; the tests look at what reaches it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "The deploy uses port 9090."


def of_messages():
    """Anthropic's interface."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 1}}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


def of_responses():
    """OpenAI's newer interface."""
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}
    usage = {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10,
             "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response = {"id": "r1", "object": "response", "status": "completed", "model": "m", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": response | {"status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


def of_chat():
    """OpenAI's older interface."""
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    said = {"index": 0, "delta": {"role": "assistant", "content": ANSWER}, "finish_reason": None}
    ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    return [chunk | {"choices": [said]}, chunk | {"choices": [ended], "usage": usage}]


INTERFACES = {"/messages": of_messages, "/responses": of_responses, "/chat/completions": of_chat}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def respond(self, content_type, body):
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.respond("application/json", b'{"data": []}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        path = self.path.split("?")[0]
        stream = next((stream for end, stream in INTERFACES.items() if path.endswith(end)), None)
        if stream is None:
            return self.respond("application/json", b"{}")
        self.server.requests.append(body)
        # A client of the older interface ignores the names.
        events = [f"event: {event.get('type', 'chunk')}\ndata: {json.dumps(event)}\n\n" for event in stream()]
        self.respond("text/event-stream", "".join(events).encode())


def start():
    """Serves until the process ends. The server has `requests` (their bodies), and `server_port`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
