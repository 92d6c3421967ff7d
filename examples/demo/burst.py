"""One RL step: the requests, all sent at the same instant, and their answers."""

from __future__ import annotations

import http.client
import io
import json
import random
import re
import selectors
import socket
import time
from typing import Callable, NamedTuple, Optional

from children import Failed

PROMPT_BYTES = 6000
MAX_TOKENS = 8
WORDS = "the a red old quick proof answer number sum of and so then if step let prime".split()


class Request(NamedTuple):
    # None for a request that shares its prompt with nobody.
    group: Optional[int]
    body: bytes


class Answer(NamedTuple):
    group: Optional[int]
    # 0 where none came; then `problem` says why.
    status: int
    problem: str
    replica: str
    prompt_tokens: int
    cached_tokens: int
    # What the filter told the replica; empty without the filter.
    decision: str
    # From the beginning of the burst to the last byte.
    seconds: float

    @property
    def prefilled_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def held_ms(self) -> Optional[int]:
        found = re.search(r";wait=(\d+)", self.decision)
        return int(found.group(1)) if found else None

    @property
    def placed_with(self) -> Optional[int]:
        """How many requests of its group the filter placed jointly, itself included.

        None where it says nothing about that.
        """
        if self.decision.startswith("alone"):
            return 1
        found = re.search(r";group=(\d+)", self.decision)
        return int(found.group(1)) if found else None


class Burst(NamedTuple):
    answers: list[Answer]
    # How long it took to send all requests.
    sending_seconds: float
    # How the connections were spread over Envoy's workers.
    connections: list[int]

    @property
    def seconds(self) -> float:
        return max(answer.seconds for answer in self.answers)


def step(groups: int, samples: int, lone: int) -> list[Request]:
    """The requests of a step, in mixed order, the same at each call."""

    def request(group: Optional[int], name: str, sample: int) -> Request:
        message = {"role": "user", "content": _prompt(name)}
        fields = {"model": "stand-in", "messages": [message], "max_tokens": MAX_TOKENS}
        return Request(group, json.dumps({**fields, "temperature": 1.0, "seed": sample}).encode())

    requests = [request(g, f"group {g}", s) for g in range(groups) for s in range(samples)]
    requests += [request(None, f"lone {i}", 0) for i in range(lone)]
    random.Random("order").shuffle(requests)
    return requests


def _prompt(name: str) -> str:
    """Text of its own from the first word on."""
    rng = random.Random(name)
    text = f"Problem {rng.getrandbits(64):016x}:"
    while len(text) < PROMPT_BYTES:
        text += " " + rng.choice(WORDS)
    return text[:PROMPT_BYTES]


class _Connection:
    def __init__(self, request: Request, port: int) -> None:
        self.request = request
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nhost: demo\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(request.body)}\r\n\r\n"
        )
        self.unsent = memoryview(head.encode() + request.body)
        self.received = bytearray()
        self.problem = "no answer came in time"
        self.ended = 0.0
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def events(self) -> int:
        reading = selectors.EVENT_READ
        return reading | selectors.EVENT_WRITE if self.unsent else reading

    def send(self) -> None:
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self.unsent = memoryview(b"")
            self.problem = str(error)

    def receive(self) -> bool:
        """Reads what is there; true at the end of the answer."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return False
        except OSError as error:
            self.problem = str(error)
            return True
        self.received += data
        return not data

    def answer(self) -> Answer:
        try:
            response = http.client.HTTPResponse(_Received(self.received))
            response.begin()
            body = response.read()
            usage = json.loads(body)["usage"] if response.status == 200 else {}
            details = usage.get("prompt_tokens_details") or {}
            return Answer(
                group=self.request.group,
                status=response.status,
                problem=body.decode(errors="replace")[:200],
                replica=response.getheader("x-served-by", "?"),
                prompt_tokens=usage.get("prompt_tokens", 0),
                cached_tokens=details.get("cached_tokens", 0),
                decision=response.getheader("x-echo-x-burst-prefix-cache", ""),
                seconds=self.ended,
            )
        except (http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            problem = f"an answer that is not whole: {error!r}" if self.received else self.problem
            return Answer(self.request.group, 0, problem, "?", 0, 0, "", self.ended)


class _Received:
    """Bytes in the place of a socket, for http.client."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def fire(
    requests: list[Request],
    port: int,
    accepted: Callable[[], list[int]],
    check: Callable[[], None],
    patience_seconds: float,
) -> Burst:
    """Opens a connection for each request, then sends all of them in one go.

    `accepted` tells how many connections each worker has taken; `check` fails when a process is
    gone, so that nobody waits for its answers.
    """
    connections: list[_Connection] = []
    try:
        try:
            connections.extend(_Connection(request, port) for request in requests)
        except OSError as error:
            raise Failed(f"a connection to Envoy failed: {error}", "is `ulimit -n` large enough?")
        spread = _await_accepted(len(connections), accepted, check)
        # From here to the last send nothing else is done: 72 requests take some 2 ms.
        begin = time.monotonic()
        for connection in connections:
            connection.send()
        sending = time.monotonic() - begin
        _receive(connections, begin, check, patience_seconds)
        return Burst([connection.answer() for connection in connections], sending, spread)
    finally:
        for connection in connections:
            connection.socket.close()


def _await_accepted(
    count: int, accepted: Callable[[], list[int]], check: Callable[[], None]
) -> list[int]:
    deadline = time.monotonic() + 10
    while True:
        try:
            spread = accepted()
        except (OSError, http.client.HTTPException):
            check()
            spread = []
        # Where Envoy does not tell, the burst goes off all the same.
        if sum(spread) >= count or time.monotonic() > deadline:
            return spread
        time.sleep(0.02)


def _receive(
    connections: list[_Connection],
    begin: float,
    check: Callable[[], None],
    patience_seconds: float,
) -> None:
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, connection.events(), connection)
        while selector.get_map() and time.monotonic() - begin < patience_seconds:
            ready = selector.select(0.2)
            now = time.monotonic() - begin
            for key, events in ready:
                connection = key.data
                if events & selectors.EVENT_WRITE:
                    connection.send()
                    selector.modify(connection.socket, connection.events(), connection)
                if events & selectors.EVENT_READ and connection.receive():
                    connection.ended = now
                    selector.unregister(connection.socket)
            if not ready:
                check()
        for key in list(selector.get_map().values()):
            key.data.ended = time.monotonic() - begin
