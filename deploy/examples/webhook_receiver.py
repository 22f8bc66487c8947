"""A receiver of webhooks that checks their signatures (Standard Webhooks), with Python's library only.

    WEBHOOK_SECRET=whsec_… python webhook_receiver.py [PORT]

Create a trigger for it: hearth triggers create on_store webhook \\
    --config '{"url": "http://127.0.0.1:8080/", "webhook_secret": "whsec_…"}'
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import sys
import time

SECRET = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
# Older requests may be repetitions by someone else.
AGE_MAX = 300


def is_genuine(headers, body):
    """Whether one of the signatures is that of this message. There are two while a secret changes."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > AGE_MAX:
        return False
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    signatures = [part.removeprefix("v1,") for part in headers.get("webhook-signature", "").split()]
    return any(hmac.compare_digest(expected, signature) for signature in signatures)


class Receiver(http.server.BaseHTTPRequestHandler):
    # A real receiver keeps these ids where they survive a restart.
    seen = set()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        genuine = is_genuine(self.headers, body)
        # A delivery is repeated until there is a response of 2xx: its id says whether it came before.
        if genuine and self.headers["webhook-id"] not in self.seen:
            self.seen.add(self.headers["webhook-id"])
            print("fired:", json.loads(body)["node"]["label"], flush=True)
        self.send_response(204 if genuine else 401)
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    server = http.server.HTTPServer(("127.0.0.1", port), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
