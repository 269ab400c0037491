#!/usr/bin/env python3
"""Writes files of cases for tests/parity: what operations do, as PyTorch computes it. README.md has the format.

    generate.py --golden                           the committed ones: tests/parity/data
    generate.py --out FOLDER --count N --seed S    N fresh ones
    generate.py --out FOLDER --replay FOLDER2      those of FOLDER2 again, as this PyTorch has them
"""
import argparse
import collections
import pathlib
import re
import time
import warnings

import torch

import cases
import graphs
import layers
import places
import training
from cases import as_list, refs
from differences import DIFFERENCES
from draw import Draw
from program import Program, add_line, dtype_name, read

DATA = pathlib.Path(__file__).parent / "data"
FAMILIES = {  # name: (function, share of fresh cases, number of committed ones)
    "unary": (cases.unary, 12, 80), "predicate": (cases.predicate, 1, 8), "binary": (cases.binary, 14, 80),
    "compare": (cases.compare, 4, 24), "ternary": (cases.ternary, 6, 30), "reduction": (cases.reduction, 14, 80),
    "product": (cases.product, 8, 40), "indexed": (cases.indexed, 8, 30), "view": (cases.view, 6, 40),
    "join": (cases.join, 3, 16), "copy": (cases.copy, 4, 20), "in_place": (cases.in_place, 8, 40),
    "conv": (layers.conv, 4, 16), "pool": (layers.pool, 4, 24), "norm": (layers.norm, 4, 16), "lstm": (layers.lstm, 3, 10),
    "loss": (layers.loss, 8, 30), "graph": (graphs.graph, 12, 24),
    "indexing": (places.indexing, 10, 40), "rearranged": (places.rearranged, 8, 40), "sorting": (places.sorting, 6, 30),
    "multiplied": (places.multiplied, 8, 40), "activation": (training.activation, 4, 24),
    "normalised": (training.normalised, 4, 20), "attending": (training.attending, 4, 20), "resized": (training.resized, 2, 14),
    "recurring": (training.recurring, 3, 10), "pair_loss": (training.pair_loss, 6, 30), "training": (training.training, 6, 40),
    "scanned": (places.scanned, 6, 40),
}


def add_derivatives(draw, program, outputs):
    """First and second order, of all differentiable outputs with respect to all leaves; numbers of the results."""
    env = program.run()
    outputs = [n for n in outputs if env[n].requires_grad]
    leaves = [i.number for i in program.inputs() if i.grad]
    if not outputs or not leaves:
        return []
    # PyTorch's batch norm of one image may read an incoming gradient of another layout as if it were contiguous.
    plain = program.name.startswith("norm/")
    like = lambda number, grad: draw.input(program, list(env[number].shape), dtype_name(env[number]), grad,
                                           plain_layout=plain, overlapping=False)
    seeds = [like(n, True) for n in outputs]
    first = as_list(program.step("grad", refs(outputs), refs(leaves), refs(seeds), results=len(leaves)))
    found = list(first)
    # Which of the infinities and cancellations of an exotic value a second derivative meets depends on the formula.
    if draw.plain and draw.chance(0.75):
        env = program.run()
        again = [like(n, False) for n in first]
        second = as_list(program.step("grad", refs(first), refs(leaves + seeds), refs(again), results=len(leaves + seeds)))
        env = program.run()
        if not any(env[n].isnan().any() for n in second):  # nor is there more to say of a NaN
            found += second
    return found


def make_case(family, seed, largest):
    draw = Draw(seed, largest)
    program = Program(f"{family}/{seed}")
    outputs = as_list(FAMILIES[family][0](draw, program))
    numbers = outputs + add_derivatives(draw, program, outputs)
    program.expect(numbers, draw.random)
    if family == "graph" and not program.is_steady(numbers, draw.random):
        raise ValueError("a result depends on rounding")
    return program


def header(seed):
    return f"# Made by tests/parity/generate.py with PyTorch {torch.__version__}, seed {seed}\n"


def write(path, family, count, seed, largest, refused):
    made = 0
    with open(path, "w") as file:
        file.write(header(seed))
        for number in range(20 * count):
            if made == count:
                break
            try:
                program = make_case(family, seed * 1_000_000 + number, largest)
            except (RuntimeError, IndexError, ValueError, TypeError) as error:  # PyTorch refuses such operands
                refused[f"{family}: {str(error).splitlines()[0][:90]}"] += 1
                continue
            file.write(program.text())
            made += 1
    return made


def differences(path):
    with open(path, "w") as file:
        file.write(header(0))
        for name, why, lines, ours in DIFFERENCES:
            program = Program(f"differences/{name}")
            for line in lines.split("\n"):
                if line.strip():
                    add_line(program, line.strip())
            ours = [line.strip() for line in ours.split("\n") if line.strip()]
            program.notes = [f"differs {why}"] + ours
            results = [r for step in program.steps() for r in step.results]
            wanted = [int(line.split()[1][1:]) for line in ours if line != "refuses"] or results
            try:
                program.expect(wanted)
            except RuntimeError:
                program.notes.append("raises")
            file.write(program.text())


def replay(path, out):
    """The same programs, as this PyTorch has them."""
    comments, cases = read(path)
    made = [line for line in comments if "generate.py" in line]
    with open(out, "w") as file:
        file.writelines(header(re.search(r"seed (\d+)", made[0])[1]) if line in made else line + "\n" for line in comments)
        for program, numbers in cases:
            try:
                program.expect(numbers)
            except (RuntimeError, TypeError) as error:
                if not program.raises:  # the same lines, for who compares
                    program.expected = [f"? %{n} refused: {str(error).splitlines()[0]}" for n in numbers]
            file.write(program.text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one family")
    parser.add_argument("--seconds", type=float, default=600, help="when to stop, whatever the count")
    parser.add_argument("--refusals", action="store_true", help="say what PyTorch refused")
    parser.add_argument("--replay", type=pathlib.Path, metavar="FOLDER", help="instead: the cases that are there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.replay:
        for path in sorted(options.replay.glob("*.txt")):
            replay(path, options.out / path.name)
        return
    end, refused = time.monotonic() + options.seconds, collections.Counter()
    folder = DATA if options.golden else options.out
    folder.mkdir(parents=True, exist_ok=True)
    shares = sum(share for _, share, _ in FAMILIES.values())
    for family, (_, share, golden) in FAMILIES.items():
        if options.only not in (None, family) or time.monotonic() > end:
            continue
        count = golden if options.golden else -(-options.count * share // shares)
        made = write(folder / f"{family}.txt", family, count, options.seed, 12 if options.golden else 24, refused)
        if not options.golden:  # and larger ones: more than a vector's width, more than one thread's share
            made += write(folder / f"{family}_large.txt", family, -(-count // 20), options.seed, 3000, refused)
    if options.golden and not options.only:
        differences(DATA / "differences.txt")
    if options.refusals:
        for what, times in refused.most_common():
            print(f"{times:5} {what}")


if __name__ == "__main__":
    main()
