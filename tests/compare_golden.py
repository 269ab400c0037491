#!/usr/bin/env python3
"""Compares golden files with ones that another version made: python3 tests/compare_golden.py COMMITTED FRESH

Both are folders. Every file of COMMITTED must be in FRESH and have the same lines; numbers may differ by roundings (below),
comments in what they say. Prints each difference and a count; exit status 1 if there is one.
"""
import math
import pathlib
import re
import sys

# Another version sums in another order and has other approximations of functions; formulas magnify that. An element may
# be off by this much of itself, or of the largest number beside it.
RELATIVE = {"float64": 1e-10, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
NUMBER = re.compile(r"[-+]?(?:0x[0-9a-f.]+p[-+]?\d+|inf|nan|\d+\.?\d*(?:e[-+]?\d+)?)", re.IGNORECASE)


def value(text):
    return float.fromhex(text) if "0x" in text.lower() else float(text)


def differences(old, new, relative):
    """Pairs of words of a line that are not close; None if the lines are not alike otherwise."""
    # A number for itself may be what is left of a sum; in tests/parity all magnitudes matter.
    floor = 0 if old.startswith("?") else 1e-3
    if NUMBER.sub("#", old) != NUMBER.sub("#", new):
        return None
    olds, news = (NUMBER.findall(line) for line in (old, new))
    values = [value(word) for word in olds]
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0)
    close = lambda a, b: a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= relative * max(largest, floor)
    return [(a, b) for a, b, v in zip(olds, news, values) if a != b and not close(v, value(b))]


def slackless(line):
    """Without the `~slack` of tests/parity: what the other version is unsure of is another matter."""
    return re.sub(r"~\S+", "", line)


def compare(old_path, new_path):
    comment = lambda line: line.startswith("#") or line.startswith("//")
    old, new = ([line for line in path.read_text().splitlines() if not comment(line)] for path in (old_path, new_path))
    if len(old) != len(new):
        return [f"{len(new)} lines, expected {len(old)}"]
    found, dtype, name = [], "float64", ""
    for number, (a, b) in enumerate(zip(old, new)):
        name = a if a.startswith(("case ", "== ")) or re.match(r"[a-z]\S+ (float64|int64)", a) else name
        named = re.search(r"\b(float64|float32|bfloat16|float16)\b", a)
        dtype = named[1] if named else dtype
        if a == b:
            continue
        words = differences(slackless(a), slackless(b), RELATIVE[dtype])
        if words is None:
            found.append(f"line {number + 1} ({name}): '{b[:120]}', expected '{a[:120]}'")
        elif words:
            found.append(f"line {number + 1} ({name}): {words[0][1]}, expected {words[0][0]}, and {len(words) - 1} more")
    return found


def main():
    committed, fresh = map(pathlib.Path, sys.argv[1:3])
    count = 0
    for old in sorted(p for p in committed.iterdir() if p.suffix in (".txt", ".h")):
        new = fresh / old.name
        found = compare(old, new) if new.exists() else ["is not made any more"]
        count += len(found)
        for what in found:
            print(f"{old.name}: {what}")
    print(f"{fresh.name}: {count} differences")
    sys.exit(count != 0)


if __name__ == "__main__":
    main()
