"""Checkers of the two timeline formats, written from their descriptions; nothing of the writers is used."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

Json = dict[str, Any]


def cycles(microseconds: float) -> int:
    """Nanoseconds, the same whether a reader rounds or cuts off."""
    assert int(microseconds * 1000.0) == round(microseconds * 1000)
    return round(microseconds * 1000)


def check_chrome(document: Json) -> dict[tuple[str, str], list[Json]]:
    """Trace Event Format: returns the slices of each (process, thread), by their names, with `begin` and `end` in
    cycles.

    Every slice and flow is on a named thread of a named process; a thread belongs to one process and its events are in
    order of time; slices of a thread nest or do not overlap; a flow starts once and ends once, later, each time inside
    of a slice; counters are numbers, in order of time.
    """
    assert document["displayTimeUnit"] in ("ms", "ns")
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    slices: dict[tuple[int, int], list[Json]] = defaultdict(list)
    seen: dict[tuple[int, int], int] = {}
    flows: dict[str, dict[int, tuple[tuple[int, int], int]]] = {"s": {}, "f": {}}
    counters: dict[tuple[int, str], int] = {}
    for event in document["traceEvents"]:
        phase, pid = event["ph"], event["pid"]
        assert isinstance(pid, int)
        assert phase in ("M", "X", "s", "f", "C")
        if phase == "M":
            assert event["name"] in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
            if event["name"] == "process_name":
                assert pid not in processes
                processes[pid] = event["args"]["name"]
            elif event["name"] == "thread_name":
                assert (pid, event["tid"]) not in threads
                threads[pid, event["tid"]] = event["args"]["name"]
            else:
                assert isinstance(event["args"]["sort_index"], int)
            continue
        at = cycles(event["ts"])
        assert at >= 0
        assert event["name"]
        if phase == "C":
            assert event["args"]
            assert all(isinstance(value, int | float) for value in event["args"].values())
            assert counters.get((pid, event["name"]), -1) < at
            counters[pid, event["name"]] = at
            continue
        key = (pid, event["tid"])
        assert seen.get(key, 0) <= at
        seen[key] = at
        if phase == "X":
            assert event["dur"] > 0
            slices[key].append({**event, "begin": at, "end": at + cycles(event["dur"])})
        else:
            assert phase == "s" or event["bp"] == "e"
            assert event["id"] not in flows[phase]
            flows[phase][event["id"]] = (key, at)
    assert set(slices) <= set(threads)
    assert {pid for pid, _ in threads} | {pid for pid, _ in counters} <= set(processes)
    assert len({tid for _, tid in threads}) == len(threads)
    for found in slices.values():
        _check_nesting(found)
    _check_flows(flows, slices)
    return {(processes[pid], threads[pid, tid]): found for (pid, tid), found in slices.items()}


def _check_nesting(slices: list[Json]) -> None:
    open_until: list[int] = []
    for entry in slices:
        while open_until and open_until[-1] <= entry["begin"]:
            open_until.pop()
        assert not open_until or entry["end"] <= open_until[-1]
        open_until.append(entry["end"])


def _check_flows(
    flows: dict[str, dict[int, tuple[tuple[int, int], int]]], slices: dict[tuple[int, int], list[Json]]
) -> None:
    assert flows["s"].keys() == flows["f"].keys()
    begins_of = {key: [entry["begin"] for entry in found] for key, found in slices.items()}
    assert all(begins == sorted(begins) for begins in begins_of.values())
    for ends in flows.values():
        for key, at in ends.values():
            assert any(entry["begin"] <= at < entry["end"] for entry in slices[key])
    for number, (_, at) in flows["s"].items():
        assert at < flows["f"][number][1]


def check_kanata(text: str) -> dict[int, Json]:
    """Kanata 0004: returns the instructions by their numbers: thread, stages as (name, begin, end), retired, label,
    producers.

    The header comes first, then the cycle; numbers are given in order; nothing happens to an instruction before its I
    or after its R; every stage that starts ends, in its lane, before the next begins; an instruction retires once, and
    retirements are numbered in their order.
    """
    lines = text.split("\n")
    assert lines[0] == "Kanata\t0004"
    assert lines[-1] == ""
    assert lines[1].startswith("C=\t")
    now = int(lines[1].split("\t")[1])
    found: dict[int, Json] = {}
    retirements = 0
    for line in lines[2:-1]:
        command, *rest = line.split("\t")
        if command == "C":
            (elapsed,) = rest
            assert int(elapsed) > 0
            now += int(elapsed)
            continue
        number = int(rest[0])
        if command == "I":
            assert number == len(found)
            found[number] = {
                "thread": int(rest[2]),
                "begin": now,
                "stages": [],
                "open": {},
                "retired": None,
                "label": "",
                "producers": [],
            }
            continue
        entry = found[number]
        assert entry["retired"] is None
        if command == "L":
            assert rest[1] in ("0", "1")
            entry["label"] += rest[2] if rest[1] == "0" else ""
        elif command == "S":
            lane, name = rest[1:]
            assert name
            assert lane not in entry["open"]
            entry["open"][lane] = (name, now)
        elif command == "E":
            lane, name = rest[1:]
            begun, at = entry["open"].pop(lane)
            assert begun == name
            assert now > at
            entry["stages"].append((name, at, now))
        elif command == "W":
            assert int(rest[1]) in found
            assert rest[2] == "0"
            entry["producers"].append(int(rest[1]))
        else:
            assert command == "R"
            assert rest[1:] == [str(retirements), "0"]
            assert not entry["open"]
            retirements += 1
            entry["retired"] = now
    assert all(entry["retired"] is not None for entry in found.values())
    return found
