"""The kernel's end of a bulk transfer over one TCP connection, which it accepts.

    kernel_bulk.py receive ADDRESS PORT SECONDS       reads for so long after the first byte, then resets the connection
    kernel_bulk.py send ADDRESS PORT CONGESTION       writes until the peer resets the connection

Says "ready" when it listens. In the end `receive` prints {"bytes": N, "seconds": T}, `send` {"bytes": N}.
"""

import json
import socket
import struct
import sys
import time

PATIENCE_SECONDS = 60


def receive(conn, seconds):
    buffer = bytearray(1 << 18)
    total = 0
    end = None
    while end is None or time.monotonic() < end:
        n = conn.recv_into(buffer)
        if n == 0:
            sys.exit("the peer ended the stream")
        now = time.monotonic()
        if end is None:
            first, end = now, now + seconds
        total += n
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conn.close()
    return {"bytes": total, "seconds": now - first}


def send(conn):
    chunk = bytes(1 << 17)
    total = 0
    try:
        while True:
            total += conn.send(chunk)
    except (ConnectionResetError, BrokenPipeError):
        return {"bytes": total}


def main():
    what, address, port, last = sys.argv[1:]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        if what == "send":
            # Inherited by what is accepted. Root may choose any control that there is, allowed to others or not.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, last.encode())
        listener.bind((address, int(port)))
        listener.listen(1)
        listener.settimeout(PATIENCE_SECONDS)
        print("ready", flush=True)
        conn, _ = listener.accept()
        conn.settimeout(PATIENCE_SECONDS)
        print(json.dumps(send(conn) if what == "send" else receive(conn, float(last))), flush=True)


main()
