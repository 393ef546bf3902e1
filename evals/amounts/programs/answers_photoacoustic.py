"""True answers about photoacoustic.cu."""

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

SENSORS, SAMPLES, SLICES, PLANE = 32768, 1536, 16, 256 * 256
VOXELS = PLANE * SLICES
TERMS = SENSORS * SAMPLES * 4
RECORDS = SENSORS * SAMPLES * 2
POSITIONS = SENSORS * 16
ROW_SAMPLES, MARGIN = 512, 16

KERNELS = [
    Kernel("place_sensors", 1, [grid([128, 1, 1], [256, 1, 1], 1)]),
    Kernel("simulate_records", 1, [grid([6, SENSORS, 1], [256, 1, 1], 1)]),
    Kernel("record_means", 1, [grid([SENSORS, 1, 1], [192, 1, 1], 1)]),
    Kernel("condition_records", 1, [grid([3, SENSORS, 1], [256, 1, 1], 1)]),
    Kernel("back_project", 1, [grid([16, 16, SLICES], [256, 1, 1], 1)]),
    Kernel("slice_peaks", 1, [grid([16, SLICES, 1], [256, 1, 1], 1)]),
    Kernel("window_slices", 1, [grid([1024, 1, 1], [256, 1, 1], 1)]),
]


def answers(source: Source, data: dict[str, Any]) -> list[Answer]:
    kernel = "back_project"
    pairs = VOXELS * SENSORS
    share = data["share_of_a_record_read_by_a_slice"]
    low = source.line("float low = row[sample];", kernel)
    high = source.line("float high = row[sample + 1];", kernel)
    outer = source.line("for (int base = 0;", kernel)
    inner = source.line("for (int s = 0; s < kSensorTile;", kernel)
    phases = "condition_records"
    barriers = source.barriers(phases)
    return [
        Answer(
            "instructions_per_item",
            [kernel],
            "How many instructions per voxel and sensor?",
            {
                "item": "one voxel and one sensor",
                "items": pairs,
                "divide": "32 * smsp__inst_executed.sum / items, or "
                "smsp__thread_inst_executed.sum / items",
                "float_pairs_loaded": pairs,
            },
            "256 x 256 x 16 voxels x 32,768 sensors; no lane is ever idle",
            "counters",
            {"loop": inner},
        ),
        Answer(
            "bytes_against_array",
            [kernel],
            "How often is the intermediate array read?",
            {
                "array": "terms",
                "array_bytes": TERMS,
                "readers": "every slice (blockIdx.z) on its own",
                "times_read": SLICES,
                "share_read_by_one_slice": share,
                "bytes_if_each_slice_reads_its_share_once": SLICES * share["mean"] * TERMS,
                "requested_bytes": 8 * pairs,
                "requested_times_array_size": 8 * pairs / TERMS,
            },
            "each slice goes over all sensors; the share of a record that lies between the nearest "
            "and the farthest voxel was counted for 65 sensors and 4 slices",
            "data",
            {"low": low, "high": high, "slice": source.line("float z = (blockIdx.z", kernel)},
        ),
        Answer(
            "bytes_against_array",
            [kernel],
            "How often is the array of sensor positions read?",
            {
                "array": "sensors",
                "array_bytes": POSITIONS,
                "times_read": 16 * 16 * SLICES,
                "requested_bytes": 16 * 16 * SLICES * POSITIONS,
            },
            "each of the 4,096 blocks loads all positions into its tile",
            "design",
            {"load": source.line("tile[threadIdx.x] = sensors", kernel)},
        ),
        Answer(
            "bytes_against_array",
            [phases],
            "How much more than the array is loaded because of the margins?",
            {
                "array": "records",
                "array_bytes": RECORDS,
                "samples_loaded_per_record": 3 * (ROW_SAMPLES + 2 * MARGIN) - 2 * MARGIN,
                "samples_of_a_record": SAMPLES,
                "factor": (3 * (ROW_SAMPLES + 2 * MARGIN) - 2 * MARGIN) / SAMPLES,
            },
            "three blocks per record load 512 + 2 x 16 samples; the outer margins are not loaded",
            "design",
            {"load": source.line("static_cast<float>(row[sample]) - mean", phases)},
        ),
        Answer(
            "loop_counts",
            [kernel],
            "How often does each loop run?",
            {
                "outer_per_block": SENSORS // 256,
                "inner_per_outer": 256,
                "inner_per_thread": SENSORS,
                "source_unroll_of_inner": 4,
                "inner_warp_visits": pairs // 32,
            },
            "32,768 sensors in tiles of 256",
            "design",
            {"outer_loop": outer, "inner_loop": inner},
        ),
        Answer(
            "barriers",
            [kernel, phases],
            "How many barriers per iteration and per block?",
            {
                kernel: {"per_iteration": 2, "per_block": 2 * SENSORS // 256},
                phases: {"per_iteration": 0, "per_block": 2},
                "barrier_lines": {kernel: source.barriers(kernel), phases: barriers},
            },
            "two around the load of a tile; two between the phases",
            "design",
            {"outer_loop": outer},
        ),
        Answer(
            "phases",
            [phases],
            "Which lines of a block load, compute and store?",
            {
                "load": [source.line("for (int i = threadIdx.x; i < loaded;", phases), barriers[0]],
                "compute": [barriers[0] + 1, barriers[1]],
                "store": [barriers[1] + 1, source.line("out[i] = 2.0f", phases)],
                "global_bytes_loaded_per_block": (ROW_SAMPLES + 2 * MARGIN) * 2 + 4,
                "global_bytes_stored_per_block": ROW_SAMPLES * 4,
                "filter_multiply_adds_per_block": (ROW_SAMPLES + 2) * 16,
            },
            "barriers separate the phases; 514 sums of 16 products (the filter is symmetric)",
            "design",
            {"first_barrier": barriers[0], "second_barrier": barriers[1]},
        ),
        Answer(
            "sectors_per_load",
            [kernel],
            "How many sectors per warp instruction do the loads of the terms need?",
            {
                "low": data["sectors_per_warp_low"],
                "high": data["sectors_per_warp_high"],
                "least_possible": 4,
                "tolerance": 0.1,
                "tile_load_sectors": 16,
            },
            "times of flight of all warps to 65 sensors and 4 slices, 8 samples per sector",
            "data",
            {"low": low, "high": high, "tile_load": source.line("tile[threadIdx.x] =", kernel)},
        ),
        Answer(
            "sectors_per_load",
            ["simulate_records", "record_means", phases],
            "Which loads are uniform, which dense?",
            {
                "simulate_records sensors": {
                    "pattern": "uniform",
                    "bytes": 16,
                    "sectors": 1,
                },
                "record_means records": {"pattern": "dense", "bytes": 16, "sectors": 16},
                "condition_records row[sample]": {"pattern": "dense", "bytes": 2, "sectors": 2},
                "condition_records means[sensor]": {"pattern": "uniform", "bytes": 4, "sectors": 1},
            },
            "32 lanes x bytes / 32; first - margin is a multiple of 16 samples",
            "design",
            {
                "sensor": source.line("float4 s = sensors[sensor];"),
                "packed": source.line("int4 packed = records["),
                "sample": source.line("static_cast<float>(row[sample]) - mean"),
                "mean": source.line("float mean = means[sensor];"),
            },
        ),
        handovers(
            [
                Handover("place_sensors", "simulate_records", "sensors", POSITIONS),
                Handover("place_sensors", kernel, "sensors", POSITIONS),
                Handover("simulate_records", "record_means", "records", RECORDS),
                Handover("simulate_records", phases, "records", RECORDS),
                Handover("record_means", phases, "means", SENSORS * 4),
                Handover(phases, kernel, "terms", TERMS),
                Handover(kernel, "slice_peaks", "volume", VOXELS * 4),
                Handover(kernel, "window_slices", "volume", VOXELS * 4),
                Handover("slice_peaks", "window_slices", "peaks", SLICES * 4),
            ],
            "slice_peaks only reads the volume; window_slices changes it after its last reader",
        ),
        Answer(
            "below_one_percent",
            [name.name for name in KERNELS if name.name != kernel],
            "Which kernels take less than 1 % of the time each?",
            {
                "expected_below_1_percent": [name.name for name in KERNELS if name.name != kernel],
                "check": "a kernel's time / sum of all times in the run table",
            },
            "back_project does 34 billion items; the others move at most 0.3 GB each",
            "run table",
        ),
        Answer(
            "fits_on_chip",
            [kernel],
            "Does the array that the slices share fit into L2?",
            {"array": "terms", "bytes": TERMS, "l2_bytes": L2_BYTES, "fits": False},
            "32,768 x 1,536 x 4 bytes",
            "design",
        ),
        traffic_answer(
            kernel,
            round(TERMS * share["mean"]) + POSITIONS,
            VOXELS * 4,
            "terms once (the share that is read at all is at least that of one slice) + positions; "
            "the volume written",
        ),
        traffic_answer(phases, RECORDS + SENSORS * 4, TERMS, "records + means read, terms written"),
        Answer(
            "changes_nothing",
            ["window_slices"],
            "How many voxels does the clamp set to zero?",
            {"printed": "N of 1048576 voxels are zero", "voxels": VOXELS},
            "the program counts the zeros of the volume",
            "output",
            {"clamp": source.line("v.x = fmaxf(v.x * scale, 0.0f);")},
        ),
    ]
