"""Compares results of feature_match with the reference, and checks what any match keeps."""

from __future__ import annotations

import itertools
import math
import operator
import struct
import sys
from array import array
from pathlib import Path

KEYS = 128  # values of a descriptor
REACH = 3.0
LEVELS = 4
BORDER = 16
THRESHOLD = 1e-7
RATIO = 0.8
PROBED_ROWS = 6
PROBED_HYPOTHESES = 40

Place = tuple[int, int, int]
Results = dict[str, list[float]]


class WrongResultError(Exception):
    pass


def expect(holds: object, message: str) -> None:
    if not holds:
        raise WrongResultError(message)


def read(path: str) -> Results:
    data = Path(path).read_bytes()
    blocks: Results = {}
    position = 0
    while position < len(data):
        name = data[position : position + 23].rstrip(b"\0").decode()
        kind = chr(data[position + 23])
        (count,) = struct.unpack_from("<Q", data, position + 24)
        values = array(kind)
        end = position + 32 + count * values.itemsize
        values.frombytes(data[position + 32 : end])
        blocks[name] = [float(value) for value in values]
        position = end
    return blocks


def features(results: Results, view: int) -> list[Place]:
    found = results[f"found{view}"]
    return [(int(x), int(y), int(level)) for x, y, level in zip(*(found[k::3] for k in range(3)))]


def finest(place: Place) -> complex:
    size = 1 << place[2]
    return complex((place[0] + 0.5) * size - 0.5, (place[1] + 0.5) * size - 0.5)


def descriptor(results: Results, view: int, i: int) -> list[float]:
    return results[f"descriptors{view}"][i * KEYS : (i + 1) * KEYS]


def check_features(found: Results, view: int) -> None:
    """In the picture, none twice, the strongest first, descriptors of length 1."""
    places, response = features(found, view), found[f"response{view}"]
    width, height, most = (int(size) for size in found["sizes"][:3])
    expect(2 <= len(places) <= most, f"view {view}: {len(places)} features")
    expect(len(set(places)) == len(places), f"view {view}: a feature is there twice")
    expect(len(response) == len(places), f"view {view}: responses of other features")
    expect(all(a >= b for a, b in itertools.pairwise(response)), f"view {view}: not in order")
    expect(response[-1] > THRESHOLD, f"view {view}: a response is below the threshold")
    for x, y, level in places:
        inside = (
            BORDER <= x < (width >> level) - BORDER and BORDER <= y < (height >> level) - BORDER
        )
        expect(0 <= level < LEVELS and inside, f"view {view}: ({x}, {y}) of level {level}")
    expect(len(found[f"descriptors{view}"]) == KEYS * len(places), f"view {view}: descriptors")
    for i in range(len(places)):
        row = descriptor(found, view, i)
        length = math.sqrt(sum(map(operator.mul, row, row)))
        expect(abs(length - 1) <= 1e-4, f"view {view}: descriptor {i} has length {length:g}")


def check_nearest(found: Results) -> None:
    """A few rows once more: of unit vectors the square of the distance is 2 - 2 a b."""
    rows, columns = len(found["found0"]) // 3, len(found["found1"]) // 3
    for name, count in (("nearest", rows), ("distance", rows), ("second", rows), ("back", columns)):
        expect(len(found[name]) == count, f"{name}: another length")
    others = [descriptor(found, 1, j) for j in range(columns)]
    for probe in range(PROBED_ROWS):
        i = (probe * 7919 + 31 * int(found["sizes"][4])) % rows
        row = descriptor(found, 0, i)
        distances = [2 - 2 * sum(map(operator.mul, row, other)) for other in others]
        least, second = sorted(distances)[:2]
        expect(abs(found["distance"][i] - least) <= 1e-4, f"nearest distance of {i} is {least:g}")
        expect(abs(found["second"][i] - second) <= 1e-4, f"second distance of {i} is {second:g}")
        told = distances[int(found["nearest"][i])]
        expect(told <= least + 1e-4, f"nearest of {i} is at {told:g}, not {least:g}")


def check_back(found: Results) -> None:
    """A few columns once more."""
    rows, columns = len(found["found0"]) // 3, len(found["found1"]) // 3
    others = [descriptor(found, 0, i) for i in range(rows)]
    for probe in range(PROBED_ROWS):
        j = (probe * 6007 + 17 * int(found["sizes"][4])) % columns
        column = descriptor(found, 1, j)
        products = [sum(map(operator.mul, column, other)) for other in others]
        told = products[int(found["back"][j])]
        expect(
            told >= max(products) - 1e-4,
            f"nearest of {j} the other way is not {found['back'][j]:g}",
        )


def check_matches(found: Results) -> None:
    """They follow from the nearest of both ways."""
    nearest, distance, second = found["nearest"], found["distance"], found["second"]
    both = (i for i, j in enumerate(nearest) if found["back"][int(j)] == i)
    # In double precision a ratio at the very edge may fall on the other side.
    wide = {(i, nearest[i]) for i in both if distance[i] < RATIO**2 * second[i] * (1 + 1e-5)}
    told = list(zip(found["matches"][0::2], found["matches"][1::2]))
    expect(told == sorted(told), "matches are not in the order of the first view")
    expect(set(told) <= wide, "a match is not a clear nearest neighbour both ways")
    expect(len(wide) - len(told) <= 2 + len(told) // 500, "clear nearest neighbours are left out")


def pick(seed: int, hypothesis: int, which: int, matches: int) -> int:
    h = seed * 0x9E3779B9 + hypothesis * 0x85EBCA6B + which * 0xC2B2AE35 + 0x27D4EB2F
    h &= 0xFFFFFFFF
    h ^= h >> 16
    h = h * 0x7FEB352D & 0xFFFFFFFF
    h ^= h >> 15
    h = h * 0x846CA68B & 0xFFFFFFFF
    h ^= h >> 16
    return h % matches


def pairs_of(found: Results) -> list[tuple[complex, complex]]:
    first = [finest(place) for place in features(found, 0)]
    second = [finest(place) for place in features(found, 1)]
    chosen = zip(found["matches"][0::2], found["matches"][1::2])
    return [(first[int(i)], second[int(j)]) for i, j in chosen]


def count_agreeing(
    pairs: list[tuple[complex, complex]], turn: complex, shift: complex
) -> list[int]:
    """Within a little less, and a little more, than the reach."""
    far = [abs(turn * p + shift - q) for p, q in pairs]
    return [sum(d < REACH + margin for d in far) for margin in (-0.01, 0.01)]


def check_hypotheses(found: Results) -> None:
    pairs, seed = pairs_of(found), int(found["sizes"][4])
    expect(len(found["agreeing"]) == found["sizes"][3], "another number of hypotheses")
    for probe in range(PROBED_HYPOTHESES):
        h = (probe * 104729 + 11) % len(found["agreeing"])
        (p0, q0), (p1, q1) = (pairs[pick(seed, h, which, len(pairs))] for which in (0, 1))
        if p0 == p1:
            expect(found["agreeing"][h] == 0, f"hypothesis {h} is of one place")
            continue
        turn = (q1 - q0) / (p1 - p0)
        if abs(turn) > 100:
            continue  # single precision leaves the count open
        low, high = count_agreeing(pairs, turn, q0 - turn * p0)
        told = found["agreeing"][h]
        expect(low <= told <= high, f"{told:g} matches agree with hypothesis {h}, not {low}")


def check_transform(found: Results) -> None:
    """The camera's own movement, and no pair of matches with more support."""
    width, height = found["sizes"][:2]
    pairs = pairs_of(found)
    a, b, tx, ty = found["transform"]
    turn, shift = complex(a, b), complex(tx, ty)
    ta, tb, ttx, tty = found["truth"]
    for corner in (0j, complex(width, 0), complex(0, height), complex(width, height)):
        apart = abs(turn * corner + shift - (complex(ta, tb) * corner + complex(ttx, tty)))
        expect(apart <= 1.0, f"the transform is {apart:g} pixels off at a corner")
    low, high = count_agreeing(pairs, turn, shift)
    slack = 2 + 0.005 * len(pairs)  # the last fit came after the last count
    expect(low - slack <= found["inliers"][0] <= high + slack, "another number of matches agree")
    expect(found["inliers"][0] >= 0.6 * len(pairs), "too few matches agree")


def check_reference(reference: Results, found: Results) -> None:
    """Rounding may move what is at the very edge of a decision."""
    expect(reference["sizes"] == found["sizes"], "another seed or size than the reference")
    expect(reference["truth"] == found["truth"], "another scene than the reference")
    for view in (0, 1):
        check_same_features(reference, found, view)
    first, second = set(pairs_of(reference)), set(pairs_of(found))
    lost = max(len(first - second), len(second - first))
    expect(lost <= 4 + 0.02 * len(first), f"{lost} of {len(first)} matches differ")
    check_same_distances(reference, found)
    if reference["matches"] == found["matches"]:
        pairs = zip(reference["agreeing"], found["agreeing"])
        wrong = sum(abs(a - b) > 2 for a, b in pairs)
        expect(wrong <= 2 + 0.01 * len(found["agreeing"]), f"support of {wrong} hypotheses differs")
    apart = max(abs(a - b) for a, b in zip(reference["transform"][:2], found["transform"][:2]))
    expect(apart <= 2e-4, f"the transform differs by {apart:g}")


def check_same_distances(reference: Results, found: Results) -> None:
    """Of the first view's features, to the nearest and to the second."""
    before = {place: i for i, place in enumerate(features(reference, 0))}
    expect(len(found["distance"]) == len(features(found, 0)), "distance: another length")
    expect(len(found["second"]) == len(features(found, 0)), "second: another length")
    for name in ("distance", "second"):
        old, new = reference[name], found[name]
        places = enumerate(features(found, 0))
        pairs = [(old[before[place]], new[i]) for i, place in places if place in before]
        wrong = sum(not abs(a - b) <= 5e-3 for a, b in pairs)
        expect(wrong <= 2 + 0.02 * len(pairs), f"{name}: {wrong} of {len(pairs)} differ")


def check_same_features(reference: Results, found: Results, view: int) -> None:
    before = {place: i for i, place in enumerate(features(reference, view))}
    now = {place: i for i, place in enumerate(features(found, view))}
    common = before.keys() & now.keys()
    allowed = 2 + 0.005 * len(before)
    lost = max(len(before), len(now)) - len(common)
    expect(lost <= allowed, f"view {view}: {lost} of {len(before)} features differ")
    wrong = turned = 0
    for place in common:
        a, b = reference[f"response{view}"][before[place]], found[f"response{view}"][now[place]]
        wrong += not abs(a - b) <= 1e-3 * a + 1e-9
        old = descriptor(reference, view, before[place])
        new = descriptor(found, view, now[place])
        turned += not max(map(abs, map(operator.sub, old, new))) <= 2e-3
    expect(wrong == 0, f"view {view}: {wrong} responses differ")
    expect(turned <= 2 + 0.02 * len(before), f"view {view}: {turned} descriptors differ")


def main() -> int:
    reference, found = read(sys.argv[1]), read(sys.argv[2])
    try:
        for view in (0, 1):
            check_features(found, view)
        check_reference(reference, found)
        check_nearest(found)
        check_back(found)
        check_matches(found)
        check_hypotheses(found)
        check_transform(found)
    except (WrongResultError, KeyError, IndexError, ValueError) as wrong:
        sys.stdout.write(f"FAILED: {wrong}\n")
        return 1
    sys.stdout.write("PASSED\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
