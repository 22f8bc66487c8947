"""A cluster of three nodes for tests of adapters."""

import json
import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.request


class Cluster:
    """Three nodes in processes of one command."""

    def __init__(self, binary, folder):
        options = ["--json", "--nodes", "3", "--base-port", "0", "--embedder", "hashing", "--data", folder]
        self.process = subprocess.Popen([binary, "dev", *options], stdout=subprocess.PIPE, text=True)
        info = json.loads(self.process.stdout.readline())
        self.nodes, self.leader, self.key, self.ca = info["nodes"], info["leader"], info["key"], info["ca"]
        self.urls = [node["url"] for node in self.nodes]

    def request(self, path, body=None):
        """The body of the response of the first node that responds."""
        for url in self.urls:
            headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(f"{url}/api/v1{path}", data, headers)
            try:
                context = ssl.create_default_context(cafile=self.ca)
                with urllib.request.urlopen(request, context=context, timeout=30) as response:
                    return json.load(response)
            except (ConnectionError, urllib.error.URLError):
                continue
        raise SystemExit("adapters: no node responds")

    def kill(self, is_victim):
        for node in self.nodes:
            if is_victim(node):
                os.kill(node["pid"], signal.SIGKILL)

    def end(self):
        self.process.terminate()
        self.process.wait()
