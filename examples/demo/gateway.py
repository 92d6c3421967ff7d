"""Envoy and the replicas: envoy/envoy.yaml with other ports, and the start of it all."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import time
from pathlib import Path
from typing import NamedTuple, Optional, Sequence

from children import Child, Children, Failed

# Only there so that a hang ends: a slow machine may take its time.
START_SECONDS = 90.0
PREFILL_US_PER_TOKEN = 100
DECODE_US_PER_TOKEN = 2000

FILTER = re.compile(r"^ *# >>> the filter\n.*?^ *# <<<\n", re.M | re.S)
# Envoy's admin, and the cluster by which the filter asks it for the replicas: a port that must be
# known before Envoy runs, and none here is. So it is a socket file instead.
ADMIN = re.compile(r"\{ socket_address: \{ address: 127\.0\.0\.1, port_value: 9901 \} \}")
ENDPOINTS = re.compile(r"(?:^ *- \{ endpoint: .*port_value: 800\d.*\n)+", re.M)


class Setting(NamedTuple):
    """What to run."""

    replica_bin: Path
    envoy: Path
    wasm: Path
    config: Path
    replicas: int
    workers: int


class Gateway(NamedTuple):
    """A running Envoy: a port on the loopback, and the socket file of its admin."""

    port: int
    admin: Path

    def connections(self) -> list[int]:
        """The open connections of each worker."""
        stats = ask(self.admin, "/stats?filter=worker_.*downstream_cx_active")
        return [int(n) for n in re.findall(r"worker_\d+\.downstream_cx_active: (\d+)", stats)]


def start(setting: Setting, window_ms: Optional[int], children: Children, home: Path) -> Gateway:
    """Starts fresh replicas and Envoy in front of them, without the filter if `window_ms` is None.

    Every process takes ports that the kernel gives it and tells which, so that none is ever taken
    by somebody else in between.
    """
    names = [f"r{i + 1}" for i in range(setting.replicas)]
    replicas = [start_replica(setting, name, children, home) for name in names]
    ports = [await_replica(replica) for replica in replicas]
    config = home / "envoy.yaml"
    template = setting.config.read_text(encoding="utf-8")
    admin = home / "admin.sock"
    text = configuration(template, ports, admin, setting.wasm, window_ms)
    config.write_text(text, encoding="utf-8")
    command = [str(setting.envoy), "-c", str(config), "--concurrency", str(setting.workers)]
    # Without hot restart it shares nothing with another Envoy on this machine.
    command += ["--disable-hot-restart"]
    envoy = children.start("Envoy", command, home / "envoy.log")
    return await_envoy(envoy, admin, None if window_ms is None else len(ports))


def configuration(
    template: str, ports: Sequence[int], admin: Path, wasm: Path, window_ms: Optional[int]
) -> str:
    """The configuration with these replicas, this admin and filter, and a port of the kernel's
    choice."""

    def replace(pattern: str | re.Pattern, by, text: str, places: int = 1) -> str:
        text, count = re.subn(pattern, by, text)
        if count != places:
            what = pattern if isinstance(pattern, str) else pattern.pattern
            raise Failed(
                f"envoy/envoy.yaml has {count} places that match {what}, and {places} expected",
                "examples/demo makes its configuration from that file; change both together.",
            )
        return text

    def for_each_port(match: re.Match) -> str:
        line = match.group().splitlines(keepends=True)[0]
        return "".join(re.sub(r"\b800\d\b", str(port), line) for port in ports)

    pipe = f"{{ pipe: {{ path: {json.dumps(str(admin))} }} }}"
    text = replace(ADMIN, lambda _: pipe, template, places=2)
    text = replace(r"port_value: 10000\b", "port_value: 0", text)
    text = replace(ENDPOINTS, for_each_port, text)
    if window_ms is None:
        return replace(FILTER, "", text)
    text = replace(r"windowDurationMs: \d+", f"windowDurationMs: {window_ms}", text)
    quoted = json.dumps(str(wasm))
    return replace(r"filename: [^ }]+\.wasm", lambda _: f"filename: {quoted}", text)


def start_replica(setting: Setting, name: str, children: Children, home: Path) -> Child:
    command = [str(setting.replica_bin), "--listen", "127.0.0.1:0", "--name", name]
    command += ["--prefill-us-per-token", str(PREFILL_US_PER_TOKEN)]
    command += ["--decode-us-per-token", str(DECODE_US_PER_TOKEN)]
    # Room for everything: that a cache overflows is no part of this.
    command += ["--cache-blocks", "1000000"]
    return children.start(f"replica {name}", command, home / f"{name}.log")


def await_replica(child: Child) -> int:
    deadline = time.monotonic() + START_SECONDS
    while True:
        found = re.search(r"^listening on \S+:(\d+)$", child.output(), re.M)
        if found:
            return int(found.group(1))
        child.check("`make demo` builds it; was it built for this machine?")
        if time.monotonic() > deadline:
            what = f"did not listen after {START_SECONDS:.0f} s"
            raise child.failed(what, "is the machine busy?")
        time.sleep(0.01)


def await_envoy(child: Child, admin: Path, replicas: Optional[int]) -> Gateway:
    """Waits until it serves, and until the filter, if there is one, knows so many replicas."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        # The admin answers, the workers listen, the filter has asked: in this order.
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            if ask(admin, "/ready").strip() == "LIVE" and replicas in (None, known(admin)):
                listeners = json.loads(ask(admin, "/listeners?format=json"))["listener_statuses"]
                address = listeners[0]["local_address"]["socket_address"]
                return Gateway(int(address["port_value"]), admin)
        child.check(
            "ENVOY=/path/to/envoy uses another Envoy (1.35 or later, with V8); `make clean demo` "
            "installs and builds everything anew."
        )
        if time.monotonic() > deadline:
            what = f"was not ready after {START_SECONDS:.0f} s"
            raise child.failed(what, "is the machine busy?")
        time.sleep(0.05)


def known(admin: Path) -> int:
    """The replicas that the filter knows."""
    stats = ask(admin, "/stats?filter=burst_prefix_cache.replicas$")
    found = re.search(r": (\d+)$", stats.strip())
    return int(found.group(1)) if found else 0


def ask(admin: Path, path: str) -> str:
    """What the admin answers to a GET; errors are the caller's."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.settimeout(10)
        connection.sock.connect(str(admin))
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()
