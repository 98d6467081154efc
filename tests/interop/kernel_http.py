"""Serves what comes on standard input by HTTP, in both families: kernel_http.py PORT. Says "ready" when it listens."""

import http.server
import socket
import sys


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "application/octet-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


data = sys.stdin.buffer.read()
with Server(("::", int(sys.argv[1])), Handler) as server:
    print("ready", flush=True)
    server.serve_forever()
