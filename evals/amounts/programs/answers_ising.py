"""True answers about ising.cu."""

from __future__ import annotations

from typing import Any

from evals.amounts.programs.answer_tools import (
    L2_BYTES,
    SHARED_BYTES,
    SMS,
    Answer,
    Handover,
    Kernel,
    Source,
    grid,
    handovers,
    traffic_answer,
)

COLOUR = 3072 * 4096  # spins and bytes of one colour
WORDS = COLOUR // 16
LAUNCHES, MEASUREMENTS, BLOCKS = 1200, 12, 264

KERNELS = [
    Kernel("hot_start", 2, [grid([3072, 1, 1], [256, 1, 1], 2)]),
    Kernel("update_colour", LAUNCHES, [grid([3, 1024, 1], [64, 4, 1], LAUNCHES)]),
    Kernel("measure_partial", MEASUREMENTS, [grid([BLOCKS, 1, 1], [256, 1, 1], MEASUREMENTS)]),
    Kernel("measure_final", MEASUREMENTS, [grid([1, 1, 1], [32, 1, 1], MEASUREMENTS)]),
]


def answers(source: Source, _data: dict[str, Any]) -> list[Answer]:
    kernel = "update_colour"
    loads = {
        "self": source.line("uint4 self = spins[index];", kernel),
        "up": source.line("uint4 up = others[", kernel),
        "same": source.line("uint4 same = others[index];", kernel),
        "down": source.line("uint4 down = others[", kernel),
        "beside": source.line("uint4 beside = others[", kernel),
    }
    store = source.line("spins[index] = self;", kernel)
    dense = {"pattern": "dense", "bytes_per_thread": 16, "sectors": 16}
    threads = BLOCKS * 256
    return [
        Answer(
            "instructions_per_item",
            [kernel],
            "How many instructions per spin?",
            {
                "item": "one spin of one colour, updated once",
                "items_per_launch": COLOUR,
                "spins_per_thread": 16,
                "random_numbers": "16 bits per spin: two calls of Philox (10 rounds) per thread",
                "divide": "32 * smsp__inst_executed.sum / items",
            },
            "3,072 x 4,096 spins of a colour",
            "counters",
        ),
        Answer(
            "bytes_against_array",
            [kernel],
            "How many bytes of which array does a launch read and write?",
            {
                "spins": {"array_bytes": COLOUR, "requested_read": COLOUR, "written": COLOUR},
                "others": {"array_bytes": COLOUR, "requested_read": 4 * COLOUR, "times_read": 4},
                "requested_bytes": 5 * COLOUR,
                "unique_bytes_read": 2 * COLOUR,
            },
            "a thread loads one word of its colour and four of the other",
            "design",
            {**loads, "store": store},
        ),
        Answer(
            "fits_on_chip",
            [kernel],
            "Does the state that the launches read and write again and again fit on the chip?",
            {
                "launches": LAUNCHES,
                "arrays": {"black": COLOUR, "white": COLOUR},
                "bytes": 2 * COLOUR,
                "l2_bytes": L2_BYTES,
                "fits_l2": True,
                "shared_memory_bytes_of_all_sms": SMS * SHARED_BYTES,
                "fits_shared_memory": 2 * COLOUR < SMS * SHARED_BYTES,
                "register_bytes_of_all_sms": SMS * 65536 * 4,
                "bytes_read_by_all_launches": LAUNCHES * 2 * COLOUR,
                "bytes_written_by_all_launches": LAUNCHES * COLOUR,
            },
            "two colours of 3,072 x 4,096 bytes; each launch reads both and writes one",
            "design",
            {"launch": source.line("update_colour<<<grid, block>>>(black, white")},
        ),
        Answer(
            "changes_nothing",
            [kernel],
            "How often does the work change nothing?",
            {
                "printed": "the last update changed A of the black spins, B of the words not",
                "what": "rejected flips: the word is written back whether a spin changed or not",
                "share_of_words_written_unchanged": "B",
                "words": WORDS,
            },
            "the program compares the black spins before and after the last update; the share "
            "falls with the temperature, from 3.0 to 1.75 in 6 stages of 200 launches",
            "output",
            {"store": store},
        ),
        Answer(
            "short_launches",
            ["update_colour", "measure_partial", "measure_final", "hot_start"],
            "How many short launches are there, and what do they cost at least?",
            {
                "launches": {item.name: item.launches for item in KERNELS},
                "all": sum(item.launches for item in KERNELS),
                "work_per_launch_bytes": 3 * COLOUR,
                "launches_that_must_wait_for_the_one_before": LAUNCHES - 1,
                "gaps": "starts and ends in the run table",
            },
            "two launches per sweep, 600 sweeps, each colour needs the other",
            "design",
        ),
        handovers(
            [
                Handover("hot_start", kernel, "black", COLOUR),
                Handover("hot_start", kernel, "white", COLOUR),
                Handover(kernel, kernel, "black", COLOUR),
                Handover(kernel, kernel, "white", COLOUR),
                Handover(kernel, "measure_partial", "black", COLOUR),
                Handover(kernel, "measure_partial", "white", COLOUR),
                Handover("measure_partial", "measure_final", "partial", BLOCKS * 16),
            ],
            "series is read by the host only",
        ),
        Answer(
            "below_one_percent",
            ["hot_start", "measure_partial", "measure_final"],
            "Which kernels take less than 1 % of the time each?",
            {
                "expected_below_1_percent": ["hot_start", "measure_final"],
                "near_1_percent": ["measure_partial"],
                "check": "sum of a kernel's times / sum of all times in the run table",
            },
            "26 of 1,226 launches, none of which does more work than an update",
            "run table",
        ),
        Answer(
            "sectors_per_load",
            [kernel],
            "How many sectors per warp instruction?",
            {
                "self": dense,
                "up": dense,
                "same": dense,
                "down": dense,
                "beside": {"pattern": "dense, moved by 16 bytes", "sectors": 17},
                "store": dense,
            },
            "32 lanes x 16 bytes = 16 sectors; the neighbour word starts half a sector later, and "
            "at the row's end one lane reads the other end: 17 in both cases",
            "design",
            {**loads, "store": store},
        ),
        Answer(
            "loop_counts",
            ["measure_partial", "measure_final"],
            "How often does each loop run?",
            {
                "measure_partial": {
                    "least": WORDS // threads,
                    "mean": WORDS / threads,
                    "most": -(-WORDS // threads),
                },
                "measure_final": {"least": BLOCKS // 32, "mean": BLOCKS / 32, "most": 9},
                "update_colour": "no loop",
            },
            "786,432 words over 264 x 256 threads; 264 parts over 32 threads",
            "design",
            {
                "measure_partial": source.line("for (int index = blockIdx.x", "measure_partial"),
                "measure_final": source.line("i < kMeasureBlocks; i += 32", "measure_final"),
            },
        ),
        Answer(
            "barriers",
            [kernel, "measure_partial", "measure_final"],
            "How many barriers per block?",
            {kernel: 1, "measure_partial": 1, "measure_final": 0},
            "count of __syncthreads",
            "design",
            {"update_colour": source.barriers(kernel)[0]},
        ),
        Answer(
            "few_sms",
            ["measure_final"],
            "How many SMs does the launch use?",
            {"blocks": 1, "sms": SMS, "active_sms": 1},
            "grid of one block",
            "design",
        ),
        traffic_answer(
            kernel,
            2 * COLOUR,
            COLOUR,
            "both colours read, one written",
        ),
    ]
