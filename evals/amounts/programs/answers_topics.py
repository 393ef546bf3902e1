"""True answers about topics.cu."""

from __future__ import annotations

from typing import Any

from evals.amounts.programs.answer_tools import (
    L2_BYTES,
    Answer,
    Handover,
    Kernel,
    Source,
    grid,
    handovers,
    traffic_answer,
)

TOPICS, VOCABULARY, BATCH, HELD_OUT = 64, 16384, 4096, 264
STEPS, TRAIN_ITERATIONS, HELD_OUT_ITERATIONS, HELD_OUT_LAUNCHES = 24, 64, 16, 7
ROW = TOPICS * 4
TABLE = VOCABULARY * ROW
WEIGHTS = BATCH * ROW

KERNELS = [
    Kernel("topic_sums", STEPS, [grid([256, 1, 1], [256, 1, 1], STEPS)]),
    Kernel("refresh_topics", STEPS, [grid([4096, 1, 1], [256, 1, 1], STEPS)]),
    Kernel(
        "infer_documents",
        STEPS + HELD_OUT_LAUNCHES,
        [
            grid([BATCH, 1, 1], [256, 1, 1], STEPS, "training, 64 iterations"),
            grid([HELD_OUT, 1, 1], [256, 1, 1], HELD_OUT_LAUNCHES, "held out, 16 iterations"),
        ],
    ),
    Kernel("scatter_counts", STEPS, [grid([BATCH, 1, 1], [256, 1, 1], STEPS)]),
    Kernel("update_topics", STEPS, [grid([1024, 1, 1], [256, 1, 1], STEPS)]),
    Kernel("score_documents", 6, [grid([HELD_OUT, 1, 1], [256, 1, 1], 6)]),
]


def answers(source: Source, data: dict[str, Any]) -> list[Answer]:
    batch, held = data["batch_0"], data["held_out"]
    length, visits = batch["entries_per_document"], batch["entries_per_warp_and_iteration"]
    entries = int(length["sum"])
    kernel = "infer_documents"
    outer = source.line("for (int iteration = 0; iteration < iterations;", kernel)
    inner = source.line("for (int n = begin + warp;", kernel)
    row_load = source.line("float2 row = exp_beta[", kernel)
    entry_load = source.line("int2 entry = entries[n]", kernel)
    lines = {"loop": outer, "inner_loop": inner, "row_load": row_load, "entry_load": entry_load}
    work = entries * TRAIN_ITERATIONS
    held_work = int(held["entries_per_document"]["sum"]) * HELD_OUT_ITERATIONS
    all_entries = int(data["all_batches"]["entries_per_document"]["sum"])
    train_work = 2 * all_entries * TRAIN_ITERATIONS
    scatter_loads = source.line("float2 row = exp_beta[", "scatter_counts")
    return [
        Answer(
            "instructions_per_item",
            [kernel],
            "How many instructions per document entry and iteration?",
            {
                "item": "one entry of a document in one iteration, handled by one warp",
                "items_in_training_launch_of_batch_0": work,
                "items_by_batch": {
                    key: data["entries_per_batch"][key] * TRAIN_ITERATIONS
                    for key in ("least", "mean", "most")
                },
                "items_in_training_launches": [
                    count * TRAIN_ITERATIONS for count in data["entries_of_each_batch"]
                ],
                "items_in_held_out_launch": held_work,
                "divide": "smsp__inst_executed.sum / items (warp instructions per item); the "
                "update of 64 topics per iteration is in it",
            },
            "entries of the batch x iterations; training launch n has batch n modulo 12",
            "counters",
            lines,
        ),
        Answer(
            "same_data_every_iteration",
            [kernel],
            "Which data does a block load again in every iteration?",
            {
                "array": "exp_beta",
                "also": "entries",
                "iterations": {"training": TRAIN_ITERATIONS, "held_out": HELD_OUT_ITERATIONS},
                "bytes_per_block_and_iteration": {
                    key: length[key] * ROW for key in ("least", "mean", "most")
                },
                "entries_bytes_per_block_and_iteration_mean": length["mean"] * 8,
                "loaded_once_would_be_bytes": entries * ROW,
                "loaded_bytes": work * ROW,
                "addresses_depend_on_the_iteration": False,
            },
            "entries of the document x 64 topics x 4 bytes; neither entry.x nor lane depends on "
            "the iteration",
            "data",
            lines,
        ),
        Answer(
            "bytes_against_array",
            [kernel],
            "How often is the array read?",
            {
                "array": "exp_beta",
                "array_bytes": TABLE,
                "bytes_read_of_it_at_least_once": batch["distinct_words"] * ROW,
                "requested_bytes_in_training_launch_of_batch_0": work * ROW,
                "times_array_size": work * ROW / TABLE,
            },
            "16,384 words x 64 topics x 4 bytes; entries x iterations x 256 bytes requested",
            "data",
            {"row_load": row_load},
        ),
        Answer(
            "loop_counts",
            [kernel],
            "How often does each loop run?",
            {
                "outer_per_block": {"training": TRAIN_ITERATIONS, "held_out": HELD_OUT_ITERATIONS},
                "inner_per_warp_and_outer_iteration": visits,
                "inner_warp_visits_in_training_launch_of_batch_0": work,
                "inner_per_warp_and_outer_iteration_held_out": held[
                    "entries_per_warp_and_iteration"
                ],
                "warps_of_a_block_are_uneven_by_at_most": 1,
                "warp_sum_steps": 5,
            },
            "a warp takes every eighth entry: (entries - warp + 7) / 8",
            "data",
            lines,
        ),
        Answer(
            "barriers",
            [kernel],
            "How many barriers per iteration?",
            {
                "per_iteration": 2,
                "per_block_in_training": 1 + 2 * TRAIN_ITERATIONS,
                "per_block_held_out": 1 + 2 * HELD_OUT_ITERATIONS,
                "barrier_lines": source.barriers(kernel),
            },
            "one before the loop, two in it",
            "design",
            {"loop": outer},
        ),
        Answer(
            "launches_that_take_the_time",
            [kernel],
            "Which launches of the kernel take the time?",
            {
                "long": {"grid": BATCH, "launches": STEPS, "work_items": train_work},
                "short": {
                    "grid": HELD_OUT,
                    "launches": HELD_OUT_LAUNCHES,
                    "work_items": held_work * HELD_OUT_LAUNCHES,
                },
                "share_of_work_in_long_launches": train_work
                / (train_work + held_work * HELD_OUT_LAUNCHES),
                "long_launches_differ_in_work_by": data["entries_per_batch"]["most"]
                / data["entries_per_batch"]["least"],
            },
            "entries x iterations of all launches",
            "data",
            {
                "train_launch": source.line("infer_documents<<<kBatchDocs"),
                "inference_loop": outer,
            },
        ),
        Answer(
            "fits_on_chip",
            ["topic_sums", "refresh_topics", "scatter_counts", "update_topics", kernel],
            "Does the state that all steps read and write fit into L2?",
            {
                "arrays": {"lambda": TABLE, "exp_beta": TABLE, "counts": TABLE},
                "bytes": 3 * TABLE,
                "l2_bytes": L2_BYTES,
                "fits": True,
            },
            "3 arrays of 16,384 x 64 floats",
            "design",
        ),
        handovers(
            [
                Handover("topic_sums", "refresh_topics", "sums", TOPICS * 4),
                Handover("refresh_topics", kernel, "exp_beta", TABLE),
                Handover("refresh_topics", "scatter_counts", "exp_beta", TABLE),
                Handover("refresh_topics", "score_documents", "exp_beta", TABLE),
                Handover(kernel, "scatter_counts", "theta", WEIGHTS),
                Handover(kernel, "score_documents", "gamma", HELD_OUT * ROW),
                Handover("scatter_counts", "update_topics", "counts", TABLE),
                Handover("update_topics", "scatter_counts", "counts", TABLE),
                Handover("update_topics", "topic_sums", "lambda", TABLE),
                Handover("update_topics", "refresh_topics", "lambda", TABLE),
                Handover("update_topics", "update_topics", "lambda", TABLE),
            ],
            "gamma of the training launches is read by nobody; lambda, exp_beta and counts have "
            "equal sizes, theta and gamma too",
        ),
        Answer(
            "below_one_percent",
            ["topic_sums", "refresh_topics", "update_topics", "score_documents"],
            "Which kernels take less than 1 % of the time each?",
            {
                "expected_below_1_percent": ["topic_sums", "update_topics", "score_documents"],
                "near_1_percent": ["refresh_topics"],
                "expected_above_1_percent": [kernel],
                "check": "sum of a kernel's times / sum of all times in the run table",
            },
            "infer_documents requests 6 GB per launch, the others less than 25 MB",
            "run table",
        ),
        Answer(
            "sectors_per_load",
            [kernel],
            "Which load is uniform, which dense, with how many sectors per warp instruction?",
            {
                "row_load": {"bytes_per_thread": 8, "pattern": "dense", "sectors": 8},
                "entry_load": {"bytes_per_thread": 8, "pattern": "uniform", "sectors": 1},
                "sector_ratio_row_to_entry": 8,
            },
            "32 lanes x 8 bytes from a multiple of 256 = 8 sectors; entries[n] is the same for all "
            "lanes of a warp",
            "design",
            {"row_load": row_load, "entry_load": entry_load},
        ),
        Answer(
            "l2_atomics",
            ["scatter_counts"],
            "Which part of the L2's work is atomics?",
            {
                "red_instructions_per_entry": 2,
                "sectors_per_red_instruction": 8,
                "red_sectors_in_launch_of_batch_0": 16 * entries,
                "load_sectors_of_rows_before_l1": 8 * entries,
                "share": "lts__t_sectors_op_red.sum / lts__t_sectors.sum",
            },
            "a lane adds to two neighbouring floats with two instructions; each touches the whole "
            "row of 256 bytes",
            "data",
            {
                "first_add": source.line("atomicAdd(target, ratio", "scatter_counts"),
                "second_add": source.line("atomicAdd(target + 1", "scatter_counts"),
                "row_load": scatter_loads,
            },
        ),
        Answer(
            "changes_nothing",
            ["update_topics"],
            "How often does the work change nothing?",
            {
                "what": "clearing the counts of words that the batch does not contain",
                "words_without_counts_batch_0": VOCABULARY - batch["distinct_words"],
                "share_of_the_clearing_stores": 1 - batch["distinct_words"] / VOCABULARY,
            },
            "words of the vocabulary that occur in no document of the batch keep the count 0",
            "data",
            {"clear": source.line("counts[i] = make_float4", "update_topics")},
        ),
        traffic_answer(
            kernel,
            batch["distinct_words"] * ROW + entries * 8 + (BATCH + 1) * 4,
            2 * WEIGHTS,
            "distinct rows x 256 + entries x 8 + row starts; theta and gamma written",
        ),
    ]
