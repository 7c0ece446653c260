"""Clients that mean no good, against a running server: hostile.py URL PID.

While each of them is at work, an ordinary client asks and must be answered within its limit.
"""
import json
import socket
import sys
import threading
import time
import urllib.parse

url = urllib.parse.urlparse(sys.argv[1])
pid = int(sys.argv[2])


def connect():
    return socket.create_connection((url.hostname, url.port), timeout=60)


def head(length, more=""):
    return (f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n{more}\r\n").encode()


def chat(**fields):
    return json.dumps({"messages": [{"role": "user", "content": "Hi"}], **fields}).encode()


def ask(body, length=None, more="Connection: close\r\n"):
    """The status of the answer; 0: the connection ended without one."""
    with connect() as client:
        answer = b""
        try:
            client.sendall(head(length or len(body), more) + body)
        except OSError:
            pass  # it may answer before it has read all
        try:
            while piece := client.recv(65536):
                answer += piece
        except OSError:
            pass
        return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


def resident_mib():
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def killed_mid_stream():
    for _ in range(200):
        client = connect()
        body = chat(stream=True)
        client.sendall(head(len(body)) + body)
        client.recv(100)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        client.close()
    return "200 gone"


def slow_readers():
    clients = []
    for _ in range(50):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((url.hostname, url.port))
        body = chat(stream=True, n=8, max_tokens=3000, ignore_eos=True)
        client.sendall(head(len(body)) + body)
        clients.append(client)
    time.sleep(5)
    for client in clients:
        client.close()
    return "50 that read nothing"


def slow_loris():
    clients = [connect() for _ in range(200)]
    for letter in b"POST /v1/chat/completions":
        for client in clients:
            client.send(bytes([letter]))
        time.sleep(0.2)
    time.sleep(10)
    dropped = 0
    for client in clients:
        client.settimeout(1)
        try:
            dropped += client.recv(4096)[:12] == b"HTTP/1.1 408"
        except OSError:
            pass
        client.close()
    assert dropped == 200, f"{dropped} of 200 were cut off"
    return "200 cut off with 408"


def large_body():
    assert ask(b"x" * 100, length=10**9) == 413, "1 GB"
    before = resident_mib()
    with connect() as client:  # without saying how much it will be
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        try:
            for _ in range(1000):
                client.sendall(piece)
        except OSError:
            pass
        try:
            status = client.recv(12)[9:]
        except OSError:
            status = b"cut off"
    assert status in (b"413", b"cut off"), status
    grown = resident_mib() - before
    assert grown < 100, f"memory grew by {grown:.0f} MiB"
    return "413, also in chunks; no more than the limit is kept"


def deep_json():
    status = ask(b"[" * 10**6)
    assert status == 400, status
    status = ask(b'{"messages":' + b'{"a":' * 10**6)
    assert status == 400, status
    return "400"


def many_choices():
    status = ask(chat(n=16384))
    assert status == 400, status
    return "400"


def headers():
    status = ask(b"", length=0, more="".join(f"X-{i}: {'y' * 100}\r\n" for i in range(2000)))
    assert status == 431, status
    return "431"


def nonsense():
    import random
    random.seed(1)
    for _ in range(300):
        with connect() as client:
            try:
                client.sendall(random.randbytes(500))
                client.shutdown(socket.SHUT_WR)
                client.recv(4096)
            except OSError:
                pass
    return "300 answered or cut off"


failures = 0
before = resident_mib()
for attack in (killed_mid_stream, slow_readers, slow_loris, large_body, deep_json, many_choices, headers,
               nonsense):
    times, done = [], threading.Event()

    def others():
        while not done.is_set():
            began = time.monotonic()
            status = ask(chat(max_tokens=4))
            times.append((time.monotonic() - began, status))
            time.sleep(0.1)

    ordinary = threading.Thread(target=others)
    ordinary.start()
    try:
        outcome = attack()
    except Exception as error:  # noqa: BLE001 - whatever it was, it is the result
        outcome, failures = f"FAILED: {error!r}", failures + 1
    done.set()
    ordinary.join()
    bad = [status for _, status in times if status != 200]
    failures += bool(bad)
    print(f"{attack.__name__:18} {outcome}; others: {len(times)} asked, slowest {max(times)[0] * 1e3:.0f} ms"
          + (f", FAILED with {bad}" if bad else ""), flush=True)
print(f"memory {before:.0f} MiB before, {resident_mib():.0f} MiB after")
sys.exit(failures > 0)
