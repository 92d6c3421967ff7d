"""What the two runs of the step show, as tables and as a verdict."""

from __future__ import annotations

import collections
import os
import statistics
import sys
from typing import Iterable, Optional, Sequence

from burst import Answer, Burst

# Above this a list of replicas becomes a number.
MOST_LISTED = 4
# The width of the first column of a table, and of each of its halves.
FIRST = 16
HALF = 35


class Style:
    """Colours, where they are wanted."""

    def __init__(self) -> None:
        terminal = sys.stdout is not None and sys.stdout.isatty()
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._on = terminal and not plain

    def _wrapped(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._on else text

    def bold(self, text: str) -> str:
        return self._wrapped("1", text)

    def good(self, text: str) -> str:
        return self._wrapped("1;32", text)

    def bad(self, text: str) -> str:
        return self._wrapped("1;31", text)


def replicas_of(answers: Iterable[Answer]) -> list[str]:
    """Who answered, in the order of their numbers."""
    names = {answer.replica for answer in answers if answer.status == 200}
    return sorted(names, key=lambda name: (len(name), name))


def in_groups(burst: Burst) -> dict[Optional[int], list[Answer]]:
    """The answers of each group, and those of the lone requests under `None`, at the end."""
    groups = collections.defaultdict(list)
    for answer in burst.answers:
        groups[answer.group].append(answer)
    order = sorted(groups, key=lambda group: (group is None, group))
    return {group: groups[group] for group in order}


def prefilled(answers: Iterable[Answer]) -> int:
    return sum(answer.prefilled_tokens for answer in answers)


def cached(answers: Iterable[Answer]) -> int:
    return sum(answer.cached_tokens for answer in answers)


def together(burst: Burst) -> int:
    """How many groups sat on one replica each."""
    groups = in_groups(burst)
    groups.pop(None, None)
    return sum(len(replicas_of(answers)) == 1 for answers in groups.values())


def torn(burst: Burst) -> bool:
    """Whether groups came apart because their requests did not all join one window."""
    groups = in_groups(burst)
    groups.pop(None, None)
    return any(
        all(answer.placed_with is not None for answer in answers)
        and any(answer.placed_with != len(answers) for answer in answers)
        for answers in groups.values()
        if len(replicas_of(answers)) > 1
    )


def tables(without: Burst, with_filter: Burst, replicas: int, style: Style) -> str:
    runs = (without, with_filter)
    return "\n\n".join([_groups(runs, style), _loads(runs, replicas, style), _times(runs, style)])


def _table(first: str, columns: str, rows: Iterable[tuple[str, list[str]]], style: Style) -> str:
    """A table with a half for each run."""
    lines = [
        style.bold(f"{'':<{FIRST}}{'without the filter':<{HALF}}with the filter"),
        f"{first:<{FIRST}}{columns:<{HALF}}{columns}",
    ]
    lines += [f"{name:<{FIRST}}{halves[0]:<{HALF}}{halves[1]}".rstrip() for name, halves in rows]
    return "\n".join(lines)


def _half(first: object, second: object = "", third: object = "") -> str:
    return f"{first:<12}{second:>9} {third:>9}"


def _tokens(first: object, answers: Sequence[Answer]) -> str:
    return _half(first, f"{prefilled(answers):,}", f"{cached(answers):,}")


def _groups(runs: Sequence[Burst], style: Style) -> str:
    groups = [in_groups(run) for run in runs]
    rows = []
    for group in groups[0]:
        name = f"group {group + 1}" if group is not None else f"{len(groups[0][None])} lone"
        members = [run[group] for run in groups]
        rows.append((name, [_tokens(_listed(replicas_of(some)), some) for some in members]))
    rows.append(("all", [_tokens("", run.answers) for run in runs]))
    rows.append(("hit rate", [_half("", "", f"{hit_rate(run):.0%}") for run in runs]))
    return _table("tokens of", _half("replicas", "prefilled", "cached"), rows, style)


def hit_rate(burst: Burst) -> float:
    return cached(burst.answers) / max(1, sum(answer.prompt_tokens for answer in burst.answers))


def _listed(replicas: Sequence[str]) -> str:
    if len(replicas) > MOST_LISTED:
        return f"{len(replicas)} replicas"
    return " ".join(replicas) or "none"


def _loads(runs: Sequence[Burst], replicas: int, style: Style) -> str:
    rows = []
    for name in (f"r{i + 1}" for i in range(replicas)):
        served = [[answer for answer in run.answers if answer.replica == name] for run in runs]
        rows.append((name, [_tokens(len(answers), answers) for answers in served]))
    return _table("load of", _half("requests", "prefilled", "cached"), rows, style)


def _times(runs: Sequence[Burst], style: Style) -> str:
    def spread(values: Sequence[float]) -> str:
        if not values:
            return _half("", "-", "-")
        return _half("", f"{statistics.median(values):.0f}", f"{max(values):.0f}")

    held = [[a.held_ms for a in run.answers if a.held_ms is not None] for run in runs]
    answered = [[a.seconds * 1000 for a in run.answers if a.status == 200] for run in runs]
    rows = [
        ("held by filter", [spread(values) for values in held]),
        ("answered after", [spread(values) for values in answered]),
        ("whole step", [_half("", "", f"{run.seconds * 1000:.0f}") for run in runs]),
    ]
    return _table("milliseconds", _half("", "p50", "max"), rows, style)


def fault(without: Burst, with_filter: Burst) -> str:
    """What went wrong, or nothing."""
    for burst, name in ((without, "without"), (with_filter, "with")):
        bad = [answer for answer in burst.answers if answer.status != 200]
        if bad:
            status = bad[0].status or "no status"
            return (
                f"{len(bad)} of {len(burst.answers)} requests were not answered 200 in the run "
                f"{name} the filter; one of them: {status}, {bad[0].problem.strip()}"
            )
    groups = len(in_groups(with_filter).keys() - {None})
    landed = together(with_filter)
    if landed == groups:
        return ""
    what = f"{groups - landed} of {groups} groups did not land on one replica"
    decisions = collections.Counter(
        answer.decision.partition(";")[0] or "no decision" for answer in with_filter.answers
    )
    if torn(with_filter):
        sent = with_filter.sending_seconds * 1000
        return (
            f"{what}: their requests joined different windows. Sending took {sent:.0f} ms; "
            "is the machine busy? A longer --window-ms may help"
        )
    told = ", ".join(f"{name} x{count}" for name, count in decisions.most_common())
    return f"{what}; the filter's decisions: {told}"


def verdict(without: Burst, with_filter: Burst) -> str:
    groups = len(in_groups(with_filter).keys() - {None})
    before, after = prefilled(without.answers), prefilled(with_filter.answers)
    less = f"{before / max(1, after):.1f}x fewer tokens prefilled"
    if before <= after:
        less = "no fewer tokens prefilled"
    return (
        f"{together(with_filter)} of {groups} groups on one replica; {less}; "
        f"the step took {with_filter.seconds:.2f} s instead of {without.seconds:.2f} s."
    )
