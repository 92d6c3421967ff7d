"""One RL step through Envoy, without and with the filter. `--help` lists the options."""

from __future__ import annotations

import signal
import sys

# Until there is something to clean up, Ctrl-C ends the demo on the spot.
signal.signal(signal.SIGINT, signal.SIG_DFL)
# Leaves no files beside the sources.
sys.dont_write_bytecode = True

import argparse  # noqa: E402
import contextlib  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import shutil  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Optional  # noqa: E402

import burst  # noqa: E402
import gateway  # noqa: E402
import report  # noqa: E402
from children import Children, Failed, Signals, Stopped  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
# Tried in this order while the burst comes in too slowly to fit into one window.
WINDOWS_MS = (100, 300, 1000)
# As many as the filter places jointly unless its maxBatchSize says otherwise.
MOST_REQUESTS = 1000


def main() -> int:
    options = parse()
    if sys.stdout is not None:
        # Whatever the locale, a letter that it lacks is no reason to fail.
        sys.stdout.reconfigure(errors="replace")
    signals = Signals()
    children = Children(signals)
    home: Optional[Path] = None
    try:
        try:
            signals.install()
            # A signal between the making of the directory and the note of it would leave it.
            with signals.shielded():
                home = Path(tempfile.mkdtemp(prefix="burst-demo-"))
            return guarded(options, children, home)
        finally:
            signals.close()
    except Stopped as stopped:
        print(f"demo: stopped by {signal.Signals(stopped.signum).name}", file=sys.stderr)
        return 128 + stopped.signum
    finally:
        children.end()
        if home is not None and options.keep_logs:
            print(f"logs and configurations: {home}", file=sys.stderr)
        elif home is not None:
            shutil.rmtree(home, ignore_errors=True)


def guarded(options: argparse.Namespace, children: Children, home: Path) -> int:
    """The demo, its failures told on stderr."""
    style = report.Style()
    try:
        return demo(options, children, style, home)
    except Failed as failure:
        tell(failure, style, options.keep_logs)
    except BrokenPipeError:
        # Whoever read the output has gone: nothing more is to be said, at the exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1


def demo(
    options: argparse.Namespace, children: Children, style: report.Style, home: Path
) -> int:
    setting = gateway.Setting(
        replica_bin=existing(options.replica_bin, "the stand-in replica"),
        envoy=existing(options.envoy, "Envoy"),
        wasm=existing(options.wasm, "the filter"),
        config=existing(ROOT / "envoy" / "envoy.yaml", "Envoy's configuration"),
        replicas=options.replicas,
        workers=options.workers,
    )
    requests = burst.step(options.groups, options.samples, options.lone)
    raise_open_files()
    say(
        style.bold(
            f"One RL step: {options.groups} prompts x {options.samples} samples and "
            f"{options.lone} lone requests, {len(requests)} at the same instant"
        )
    )
    say(
        f"client -> Envoy with {options.workers} workers -> {options.replicas} replicas with cold "
        f"prefix caches\n(stand-ins: a clock in the place of a model, "
        f"{gateway.PREFILL_US_PER_TOKEN} us for each token to prefill)\n"
    )

    def run(window_ms: Optional[int]) -> burst.Burst:
        return one_run(setting, window_ms, requests, children, home)

    without = run(None)
    windows = (options.window_ms,) if options.window_ms else WINDOWS_MS
    for window_ms in windows:
        with_filter = run(window_ms)
        if not report.torn(with_filter) or window_ms == windows[-1]:
            break
        say(
            f"    they came in too slowly for one window of {window_ms} ms; is the machine busy?\n"
            "    once more, with a longer one"
        )

    say("\n" + report.tables(without, with_filter, options.replicas, style) + "\n")
    fault = report.fault(without, with_filter)
    if fault:
        say(style.bad(f"Failed: {fault}."))
        return 1
    say(style.good(report.verdict(without, with_filter)))
    say(
        "\nNext: `make envoy` runs Envoy with the filter as envoy/envoy.yaml has it, and\n"
        "`examples/burst.sh --help` tells how to fire bursts at it. README.md tells how to\n"
        "put the filter in front of your own replicas."
    )
    return 0


def one_run(
    setting: gateway.Setting,
    window_ms: Optional[int],
    requests: list[burst.Request],
    children: Children,
    home: Path,
) -> burst.Burst:
    """Fires the step at fresh replicas and a fresh Envoy, and ends them all."""
    kind = "without the filter" if window_ms is None else f"with the filter, window {window_ms} ms"
    say(f"  {kind}: starting {setting.replicas} replicas and Envoy ... ", end="")
    own = home / ("without" if window_ms is None else f"with-{window_ms}-ms")
    own.mkdir()
    # The answers' clocks run one after the other at worst.
    worst = len(requests) * burst.PROMPT_BYTES / 4 * gateway.PREFILL_US_PER_TOKEN / 1e6
    try:
        envoy = gateway.start(setting, window_ms, children, own)
        say("firing ... ", end="")
        fired = burst.fire(requests, envoy.port, envoy.connections, children.check, 30 + worst)
        children.check()
    except BaseException:
        say("")
        raise
    finally:
        children.end()
    say(f"done in {fired.seconds:.2f} s")
    if fired.connections:
        spread = ", ".join(map(str, fired.connections))
        say(f"    connections of each worker: {spread}")
    return fired


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


def tell(failure: Failed, style: report.Style, keep_logs: bool) -> None:
    """Says why the demo failed."""
    print(style.bad(f"demo: {failure}"), file=sys.stderr)
    if failure.log:
        print("the end of its log:", file=sys.stderr)
        for line in failure.log.splitlines():
            print(f"    {line}", file=sys.stderr)
    if failure.advice:
        print(f"what to do: {failure.advice}", file=sys.stderr)
    if failure.log and not keep_logs:
        print("            --keep-logs leaves the whole logs", file=sys.stderr)


def existing(path: Path, what: str) -> Path:
    if not path.is_file():
        raise Failed(f"{what} is not at {path}", "`make demo` builds and installs all it needs.")
    return path.resolve()


def raise_open_files() -> None:
    """As many files as the system lets this process have: it and Envoy hold many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * MOST_REQUESTS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def parse() -> argparse.Namespace:
    def within(low: int, high: int):
        def convert(text: str) -> int:
            if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
                raise argparse.ArgumentTypeError(f"takes {low} to {high}, not {text}")
            return int(text)

        return convert

    target = ROOT / "target"
    installed = sorted(target.glob("tools/envoy-*/envoy/_bin/envoy"))
    envoy = os.environ.get("ENVOY") or (installed[-1] if installed else target / "tools" / "envoy")
    parser = argparse.ArgumentParser(
        prog="demo",
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=24, width=96),
        description="Fires one RL step through Envoy at stand-in replicas, first without and then "
        "with the filter, and shows which replicas prefilled each prompt. `make demo` builds what "
        "it needs and runs it; `make demo ARGS='--groups 4'` gives it options.",
        epilog="Exit status: 0 if with the filter every group landed on one replica and all "
        "requests of both runs were answered 200, 1 if not, 2 for a wrong option.",
    )
    for name, default, low, high, text in (
        ("groups", 8, 1, 100, "prompts that several requests share"),
        ("samples", 8, 2, 100, "requests for each of these prompts"),
        ("lone", 8, 0, 500, "requests that share their prompt with nobody"),
        ("replicas", 4, 2, 32, "replicas to start"),
        ("workers", 4, 1, 32, "Envoy's worker threads"),
    ):
        told = f"{text}, {low} to {high} [default: {default}]"
        kind = within(low, high)
        parser.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=told)
    parser.add_argument(
        "--window-ms",
        type=within(1, 10000),
        metavar="MS",
        help="the filter's windowDurationMs, 1 to 10000 [default: 100, and a longer one where the "
        "machine turns out to be too slow for that]",
    )
    parser.add_argument(
        "--keep-logs", action="store_true", help="leave logs and configurations, and tell where"
    )
    wasm = target / "wasm32-wasip1" / "release" / "burst_prefix_cache.wasm"
    replica = target / "debug" / "examples" / "replica"
    for name, path, text in (
        ("replica-bin", replica, "the stand-in replica [default: what `make demo` builds]"),
        ("wasm", wasm, "the filter [default: what `make build` builds]"),
        ("envoy", Path(envoy), "Envoy [default: $ENVOY, or what `make tools` installs]"),
    ):
        parser.add_argument(f"--{name}", type=Path, default=path, metavar="FILE", help=text)
    options = parser.parse_args()
    total = options.groups * options.samples + options.lone
    if total > MOST_REQUESTS:
        parser.error(
            f"--groups x --samples + --lone makes {total} requests, at most {MOST_REQUESTS}"
        )
    return options


if __name__ == "__main__":
    sys.exit(main())
