"""Run against run: which ops of which size take longer, run other kernels, came or went; per replay, noise and all.

Ops are matched by shape, op and dims, kernels by family, so that a renumbered kernel is no change. A row says `same`
where the difference is within what the replays of these two runs vary, and `unsure` where there are too few of them to
tell, with the reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from shapescope.analyse.environment import Difference, differences
from shapescope.analyse.shape_ops import KEY, Key, Op, OpName, ShapeOps, shape_ops
from shapescope.analyse.spread import Common, Pair, common
from shapescope.errors import UsageError
from shapescope.read.run import Run

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "runner": pl.String,
    "size": pl.Int64,
    "variant": pl.String,
    "context_len": pl.Int64,
    "op": pl.String,
    "class": pl.String,
    "dims": pl.String,
    "family_base": pl.String,
    "family_head": pl.String,
    "base_ns": pl.Int64,
    "head_ns": pl.Int64,
    "ratio": pl.Float64,
    "cost_ns": pl.Int64,
    "verdict": pl.String,
    "n_base": pl.Int64,
    "n_head": pl.Int64,
    "reason": pl.String,
}
BY = ("op", "family", "class")
# Below so many replays on either side times are not judged.
_FEWEST = 3
# A smaller change is within what two runs of one build differ by, unless a rule asks for less.
SMALLEST = 0.05
# A change must be worth this share of its replay, and be more than clocks can tell.
_LEAST_SHARE, _LEAST_NOISY_SHARE, _LEAST_NS = 0.002, 0.005, 100
# Two runs on one CPU differ by so much as a whole, by its clock and its neighbours, and an op in them by so much more or
# less than the others (log); a device is its own. Chosen on recordings, counted right by benchmarks/verdicts.py.
_CPU_DRIFT, _CPU_LEAST = math.log(1.5), math.log(1.3)
_ORDER = ("replaced", "slower", "added", "removed", "faster", "unsure", "same")


@dataclass(frozen=True, slots=True)
class Rule:
    """What `--fail-on` forbids: any kernel switch, or ops and replays slower by more than a share."""

    slower_than: float | None = None

    @classmethod
    def parse(cls, text: str) -> Rule:
        """`switch`, or `time>5%`. Raises UsageError."""
        word = text.replace(" ", "")
        if word == "switch":
            return cls()
        number = word.removeprefix("time>").removesuffix("%")
        try:
            percent = float(number)
        except ValueError:
            percent = math.nan
        if not word.startswith("time>") or not word.endswith("%") or not 0 <= percent < math.inf:
            raise UsageError(f"unknown rule {text!r}", "Pass --fail-on 'time>5%' or --fail-on switch.")
        return cls(percent / 100)

    def broken_by(self, row: Mapping[str, Any]) -> bool:
        replaced = bool(row["verdict"] == "replaced")
        if self.slower_than is None:
            return replaced
        slower = row["verdict"] == "slower" or (replaced and str(row["reason"]).startswith("slower:"))
        return slower and bool(row["ratio"] > 1 + self.slower_than)


@dataclass(frozen=True, slots=True)
class DiffResult:
    """Rows as in `SCHEMA`, changes first; `shapes` compares whole replays; `environment` are named differences."""

    rows: pl.DataFrame
    shapes: tuple[dict[str, Any], ...]
    environment: tuple[Difference, ...]
    partial: bool
    warnings: tuple[tuple[str, str], ...]

    @property
    def summary(self) -> dict[str, Any]:
        """The totals as plain values."""
        verdicts = dict(self.rows.group_by("verdict", maintain_order=True).len().iter_rows())
        return {
            "verdicts": {verdict: verdicts[verdict] for verdict in _ORDER if verdict in verdicts},
            "shapes": list(self.shapes),
            "environment": [{"field": d.field, "base": d.base, "head": d.head} for d in self.environment],
        }

    def broken(self, rules: Sequence[Rule]) -> list[dict[str, Any]]:
        """The rows, and whole replays, that break a rule."""
        found = [row for row in self.rows.iter_rows(named=True) if any(rule.broken_by(row) for rule in rules)]
        return found + [row for row in self.shapes if any(rule.broken_by(row) for rule in rules)]


def diff(
    base: Run,
    head: Run,
    *,
    by: str = "op",
    smallest: float = SMALLEST,
) -> DiffResult:
    """Compare two runs per shape and op, or per kernel family or class where `by` says so.

    Changes below `smallest` (a share) are `same`. Raises UsageError for any other `by`.
    """
    if by not in BY:
        raise UsageError(f"runs cannot be compared by {by!r}", f"One of {', '.join(BY)}.")
    one, other = shape_ops(base, by=by), shape_ops(head, by=by)
    rows: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    other, renamed = _met_by_size(one, other) if by != "op" else (other, ())
    for key in sorted({*one, *other}, key=str):
        about = dict(zip(KEY, key, strict=True))
        if key in one and key in other:
            shared = _common(one[key], other[key])
            rows += [
                about | row for row in _compared(one[key], other[key], shared, _least(one[key], other[key], smallest))
            ]
            shapes.append(_whole(about, one[key], other[key], shared, smallest))
        else:
            rows.append(about | _alone(one.get(key), other.get(key)))
    rows.sort(key=lambda row: (_ORDER.index(row["verdict"]), -abs(row.get("cost_ns") or 0)))
    table = pl.DataFrame([{name: row.get(name) for name in SCHEMA} for row in rows], schema=SCHEMA)
    changed = tuple(differences(base, head))
    warnings = (*renamed, *_warnings(table, shapes, changed))
    partial = base.partial or head.partial or not shapes or "unsure" in table["verdict"]
    return DiffResult(table, tuple(shapes), changed, partial, warnings)


def _met_by_size(
    one: Mapping[Key, ShapeOps], other: Mapping[Key, ShapeOps]
) -> tuple[dict[Key, ShapeOps], tuple[tuple[str, str], ...]]:
    """Engines name their runners and variants, and count sizes, each in its own way: where two runs share no shape, but
    each has one of a size, those meet. The second run under the keys of the first, and a warning that says so.
    """
    if not set(one).isdisjoint(other):
        return dict(other), ()
    size = KEY.index("size")
    here, there = (Counter(key[size] for key in shapes) for shapes in (one, other))
    lone = {key[size]: key for key in one if here[key[size]] == 1 == there[key[size]]}
    met = {lone.get(key[size], key): shape for key, shape in other.items()}
    if not lone:
        return met, ()
    names = [", ".join(sorted({_said(key) for key in shapes if key[size] in lone})) for shapes in (one, other)]
    return met, (("runners-differ", f"Compared by size alone: {names[0]} against {names[1]}."),)


def _said(key: Key) -> str:
    named = dict(zip(KEY, key, strict=True))
    return " ".join(str(named[name]) for name in ("runner", "phase", "variant", "unit") if named[name])


def _warnings(
    table: pl.DataFrame, shapes: Sequence[Mapping[str, Any]], changed: Sequence[Difference]
) -> Iterator[tuple[str, str]]:
    """(code, message), each once."""
    for difference in changed:
        here, there = difference.base or "not stated", difference.head or "not stated"
        yield "environment-changed", f"{difference.field}: {here} in the base, {there} in the head."
    if not shapes:
        yield "no-common-shape", "The runs have no shape in common: nothing is compared."
    alone = table.filter(pl.col("op").is_null() & pl.col("verdict").is_in(["added", "removed"]))
    if alone.height:
        sizes = ", ".join(f"{size} ({verdict})" for size, verdict in alone.select("size", "verdict").iter_rows())
        yield "sizes-differ", f"Sizes that one run alone has: {sizes}."
    unsure = table.filter(pl.col("verdict") == "unsure")
    for reason in unsure["reason"].unique(maintain_order=True).drop_nulls():
        count = unsure.filter(pl.col("reason") == reason).height
        yield "unsure", f"{count} ops are not judged: {reason}."
    for shape in shapes:
        if abs(math.log(shape["drift"])) > math.log1p(SMALLEST):
            yield (
                "drift",
                f"All ops of size {shape['size']} took {shape['drift']:.2f} times as long, within what the machine varies:"
                " they are compared without that factor.",
            )


def _common(one: ShapeOps, other: ShapeOps) -> Common:
    ops: dict[str | None, list[Pair]] = {}
    for name in one.ops:
        if (pair := _pair(name, one, other)) is not None:
            ops.setdefault(name[0], []).append(pair)
    return common(list(ops.values()), _CPU_DRIFT if _on_cpu(one, other) else 0.0)


def _least(one: ShapeOps, other: ShapeOps, smallest: float) -> float:
    """The smallest change of an op that counts (log)."""
    return max(math.log1p(smallest), _CPU_LEAST if _on_cpu(one, other) else 0.0)


def _on_cpu(one: ShapeOps, other: ShapeOps) -> bool:
    return one.on_tape and other.on_tape


def _pair(name: OpName, one: ShapeOps, other: ShapeOps) -> Pair | None:
    base, head = one.ops.get(name), other.ops.get(name)
    if base is None or head is None or base.times is None or head.times is None:
        return None
    return Pair(base.times, head.times)


def _compared(one: ShapeOps, other: ShapeOps, shared: Common, least: float) -> list[dict[str, Any]]:
    pairs = {name: pair for name in one.ops if (pair := _pair(name, one, other)) is not None}
    replay_ns = sum(pair.base_ns for pair in pairs.values())
    doubt = _doubt(one, other)
    rows = []
    for name, op in one.ops.items():
        if name not in other.ops:
            rows.append(_named(name, op) | _gone(op, "removed"))
        elif name not in pairs:
            rows.append(_named(name, op) | _untimed(op, other.ops[name]))
        else:
            judged = _judged(pairs[name], shared, least, replay_ns)
            rows.append(_named(name, op) | _verdict(op, other.ops[name], judged, doubt))
    rows += [_named(name, op) | _gone(op, "added") for name, op in other.ops.items() if name not in one.ops]
    return rows


def _named(name: OpName, op: Op) -> dict[str, Any]:
    return {"op": name[0], "dims": name[1], "class": op.kernel_class}


def _judged(pair: Pair, shared: Common, least: float, replay_ns: float) -> dict[str, Any]:
    """A pair's times, ratio and verdict. The ratio is head over base less what all ops of the shape share."""
    base, head = pair.base_ns, pair.head_ns
    change = shared.change(pair)
    worth = abs(math.expm1(change)) * base
    share = _LEAST_SHARE if pair.quiet else _LEAST_NOISY_SHARE
    verdict, reason = "same", None
    if shared.exceeded_by(pair, least) and worth > max(share * replay_ns, _LEAST_NS):
        verdict = "slower" if change > 0 else "faster"
        reason = None if pair.quiet else "noisy replays: the lowest times of each kernel are compared"
    elif abs(change) > math.log1p(SMALLEST):
        reason = f"within what these replays vary (±{math.expm1(shared.tolerance(pair, least)):.0%})"
    return {
        "base_ns": round(base),
        "head_ns": round(head),
        "cost_ns": round(head) - round(base),
        "ratio": math.exp(change) if base else None,
        "verdict": verdict,
        "reason": reason,
        "n_base": pair.base.count,
        "n_head": pair.head.count,
    }


def _verdict(one: Op, other: Op, judged: Mapping[str, Any], doubt: str | None) -> dict[str, Any]:
    row = {**judged, "family_base": one.family, "family_head": other.family}
    if one.family != other.family:
        kernels = f"{one.family} -> {other.family}"
        return row | {
            "verdict": "replaced",
            "reason": f"{judged['verdict'] if doubt is None else 'not timed'}: {doubt or kernels}",
        }
    # Identical replays are the same however few they are.
    if doubt and one.times != other.times:
        return row | {"verdict": "unsure", "reason": doubt}
    return row


def _untimed(one: Op, other: Op) -> dict[str, Any]:
    """An op of which one side or both know the kernels only."""
    row = {"family_base": one.family, "family_head": other.family, "reason": "no times: kernels alone are compared"}
    verdict = "replaced" if one.family != other.family else "same" if one.times is other.times else "unsure"
    return row | {"verdict": verdict, "n_base": 0, "n_head": 0}


def _doubt(one: ShapeOps, other: ShapeOps) -> str | None:
    """Why times of this shape are not judged, if so."""
    for side, shape in (("base", one), ("head", other)):
        if shape.doubt:
            return f"in the {side} {shape.doubt}"
    fewest = min(one.replays, other.replays)
    if fewest < _FEWEST:
        side = "base" if one.replays == fewest else "head"
        return f"the {side} has {fewest} replay{'' if fewest == 1 else 's'}, too few to tell a change from noise"
    return None


def _gone(op: Op, verdict: str) -> dict[str, Any]:
    removed = verdict == "removed"
    time = None if op.times is None else round(op.times.typical)
    count = op.times.count if op.times else 0
    return {
        "family_base": op.family if removed else None,
        "family_head": None if removed else op.family,
        "base_ns": time if removed else None,
        "head_ns": None if removed else time,
        "cost_ns": None if time is None else -time if removed else time,
        "verdict": verdict,
        "n_base": count if removed else 0,
        "n_head": 0 if removed else count,
    }


def _alone(one: ShapeOps | None, other: ShapeOps | None) -> dict[str, Any]:
    """A shape that one run alone has: one row, without an op."""
    return {
        "verdict": "added" if one is None else "removed",
        "reason": f"the {'head' if one is None else 'base'} alone has this shape",
        "n_base": one.replays if one else 0,
        "n_head": other.replays if other else 0,
    }


def _whole(about: Mapping[str, Any], one: ShapeOps, other: ShapeOps, shared: Common, smallest: float) -> dict[str, Any]:
    """Whole replays, unprofiled: slower or faster where their medians are further apart than the middle four fifths of
    each run spread, both together.
    """
    row = {
        **about,
        "base_ns": None,
        "head_ns": None,
        "ratio": None,
        "verdict": "unsure",
        "reason": "no unprofiled replays",
    }
    row["drift"] = math.exp(shared.drift)
    if one.whole is None or other.whole is None:
        return row
    base, head = one.whole, other.whole
    row.update(base_ns=base["time_ns"], head_ns=head["time_ns"], ratio=head["time_ns"] / max(base["time_ns"], 1))
    if min(base["replays"], head["replays"]) < _FEWEST:
        return row | {"reason": "too few replays to tell a change from noise"}
    least = max(math.log1p(smallest), _CPU_DRIFT if _on_cpu(one, other) else 0.0)
    spread = sum(math.log(max(side["high_ns"], 1) / max(side["low_ns"], 1)) for side in (base, head))
    shift = math.log(max(head["time_ns"], 1) / max(base["time_ns"], 1))
    shift = min(shift, shift - shared.drift, key=abs)  # the machine may have changed between these replays and those
    if abs(shift) > max(least, spread):
        return row | {"verdict": "slower" if shift > 0 else "faster", "reason": None}
    within = f"within what these replays vary (±{math.expm1(max(least, spread)):.0%})"
    return row | {"verdict": "same", "reason": within if abs(shift) > math.log1p(smallest) else None}
