"""Published implementations of the standards that Hearth follows, against a cluster.

    standards.py verify COUNT SECRET…
        A receiver of webhooks. Prints its URL, then for each of COUNT requests the number of
        secrets with which the reference verifier of Standard Webhooks accepts it.
    standards.py follow URL,URL,… KEY
        A reader of the event stream, on the next node whenever a stream ends. Prints the label of
        each created memory, until the label is `the end`.
    standards.py collect
        A collector of traces. Prints to standard error its URL, then each span and its resource as
        JSON.
"""

import http.server
import itertools
import json
import ssl
import sys

import httpx
from google.protobuf.json_format import MessageToDict
from httpx_sse import SSEError, connect_sse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def verify(count, secrets):
    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            print("valid signatures:", sum(is_valid(secret, body, headers) for secret in secrets), flush=True)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    for _ in range(count):
        server.handle_request()


def is_valid(secret, body, headers):
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"]:
        without = {other: value for other, value in headers.items() if other != name}
        try:
            Webhook(secret).verify(body, without)
        except WebhookVerificationError:
            continue
        raise AssertionError(f"accepted without {name}")
    try:
        Webhook(secret).verify(body + b" ", headers)
    except WebhookVerificationError:
        return True
    raise AssertionError("accepted with a changed body")


def collect():
    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/traces", self.path
            body = self.rfile.read(int(self.headers["content-length"]))
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = attributes(part.resource)
                for span in (span for scope in part.scope_spans for span in scope.spans):
                    ids = {"trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex(), "state": span.trace_state}
                    micros = (span.end_time_unix_nano - span.start_time_unix_nano) // 1000
                    facts = {"name": span.name, "micros": micros, "kind": span.kind, "status": span.status.code}
                    print(json.dumps(ids | facts | {"attributes": attributes(span), "resource": resource}), file=sys.stderr, flush=True)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    print(f"http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()


def attributes(holder):
    values = MessageToDict(holder).get("attributes", [])
    return {it["key"]: next(iter(it["value"].values())) for it in values}


def follow(urls, key):
    last = None
    context = ssl.create_default_context()
    with httpx.Client(verify=context, timeout=httpx.Timeout(5, read=20), trust_env=False) as client:
        for url in itertools.cycle(urls):
            headers = {"Authorization": f"Bearer {key}"}
            if last:
                headers["Last-Event-ID"] = last
            try:
                with connect_sse(client, "GET", f"{url}/api/v1/events?kind=created", headers=headers) as source:
                    for event in source.iter_sse():
                        last = event.id
                        if event.event == "ready":
                            print("ready", flush=True)
                        if event.event != "created":
                            continue
                        label = event.json()["label"]
                        print(label, flush=True)
                        if label == "the end":
                            return
            except (httpx.HTTPError, SSEError):
                continue


if sys.argv[1] == "verify":
    verify(int(sys.argv[2]), sys.argv[3:])
elif sys.argv[1] == "collect":
    collect()
else:
    follow(sys.argv[2].split(","), sys.argv[3])
