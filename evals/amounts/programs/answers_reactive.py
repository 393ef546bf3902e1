"""True answers about reactive.cu."""

from __future__ import annotations

from typing import Any

from evals.amounts.programs.answer_tools import (
    L2_BYTES,
    SMS,
    Answer,
    Handover,
    Kernel,
    Source,
    grid,
    handovers,
    traffic_answer,
)

CELLS, STEPS, MODES, SPECIES, REACTIONS, BINS = 128 * 128 * 64, 3, 24, 8, 12, 1024
POINTS = 4096
FIELD = CELLS * 8
ALL_SPECIES = SPECIES * FIELD
MODE_BYTES = MODES * FIELD
RATES = REACTIONS * BINS * 8
WARPS = CELLS // 32
PAIR_BLOCKS = CELLS // 512
TILE_BLOCKS = 4 * 4 * 64
ITERATIONS = 16  # of each step; checked against truth.cu below
DOTS = STEPS * (1 + 2 * ITERATIONS)


def _kernel(name: str, blocks: list[int], launches: int) -> Kernel:
    return Kernel(name, launches, [grid(blocks, [256, 1, 1], launches)])


KERNELS = [
    _kernel("integrate_rates", [48, 1, 1], STEPS),
    _kernel("rebuild_flow", [4096, 1, 1], STEPS),
    _kernel("react_cells", [4096, 1, 1], STEPS),
    _kernel("transport", [4, 4, 64 * (SPECIES + 1)], STEPS),
    _kernel("apply_operator", [PAIR_BLOCKS, 1, 1], STEPS * ITERATIONS),
    _kernel("finish_dot", [1, 1, 1], DOTS),
    _kernel("update_solution", [PAIR_BLOCKS, 1, 1], STEPS * ITERATIONS),
    _kernel("update_direction", [PAIR_BLOCKS, 1, 1], STEPS * (1 + ITERATIONS)),
]


def answers(source: Source, data: dict[str, Any]) -> list[Answer]:
    if [step["iterations"] for step in data["steps"]] != [ITERATIONS] * STEPS:
        raise ValueError("the number of iterations has changed")
    return [
        *_chemistry(source, data),
        *_flow(source),
        *_solver(source, data),
        _pairs(),
        *_traffic(),
    ]


def _chemistry(source: Source, data: dict[str, Any]) -> list[Answer]:
    step = data["steps"][0]
    warp_visits = int(step["substeps_per_warp"]["sum"])
    kernel = "react_cells"
    accesses = warp_visits * REACTIONS * 4 + WARPS * 4
    reaction = {
        name: source.line(text, kernel)
        for name, text in {
            "load_x": "double x = amount_of[reaction.x];",
            "load_y": "double y = amount_of[reaction.y];",
            "store_x": "amount_of[reaction.x] = x - turned;",
            "store_y": "amount_of[reaction.y] = y - turned;",
            "add_z": "amount_of[reaction.z] += turned;",
            "add_w": "amount_of[reaction.w] += turned;",
        }.items()
    }
    loops = {
        "substeps": source.line("for (int n = 0; n < steps; ++n)", kernel),
        "reactions": source.line("for (int r = 0; r < kReactions; ++r)", kernel),
    }
    points = source.line("for (int point = 0; point < kPoints", "integrate_rates")
    return [
        Answer(
            "instructions_per_item",
            [kernel, "integrate_rates"],
            "How many instructions per reaction of a cell, and per point of an integral?",
            {
                kernel: {
                    "item": "one reaction in one substep of one cell (first launch)",
                    "items_of_threads": int(step["substeps_per_cell"]["sum"]) * REACTIONS,
                    "items_of_warps": warp_visits * REACTIONS,
                    "divide": "smsp__inst_executed.sum / items_of_warps",
                },
                "integrate_rates": {
                    "item": "one point of one integral",
                    "items_of_threads": REACTIONS * BINS * POINTS,
                    "items_of_warps": REACTIONS * BINS * POINTS // 32,
                    "divide": "smsp__inst_executed.sum / items_of_warps",
                },
            },
            "substeps of all cells x 12 reactions; 12 x 1,024 integrals of 4,096 points",
            "counters",
            {**loops, "points": points},
        ),
        Answer(
            "loop_counts",
            [kernel, "integrate_rates"],
            "How often does each loop run?",
            {
                "substeps_per_cell": [item["substeps_per_cell"] for item in data["steps"]],
                "substeps_per_warp": [item["substeps_per_warp"] for item in data["steps"]],
                "reactions_per_substep": REACTIONS,
                "reactions_loop_is_unrolled": True,
                "points_loop_per_thread": POINTS // 2,
                "lanes_busy_in_substeps": step["substeps_per_cell"]["sum"] / (32 * warp_visits),
            },
            "substeps follow from the temperature: 1 + (T - 300) / 200, 8 at most; a warp runs as "
            "often as its hottest cell; one entry per launch",
            "data",
            {**loops, "points": points},
        ),
        Answer(
            "local_memory",
            [kernel],
            "Which accesses go to local memory, and how many?",
            {
                "array": "amount_of",
                "bytes_per_thread": SPECIES * 8,
                "why": "indexed by the reaction table, so it cannot be in registers",
                "spills": 0,
                "local_loads_of_warps_first_launch": accesses,
                "local_stores_of_warps_first_launch": accesses,
                "sectors_per_8_byte_access_of_a_full_warp": 8,
                "local_bytes_of_the_launch": CELLS * SPECIES * 8,
                "part_of_l2": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum and _st.sum, and "
                "their misses, against lts__t_sectors.sum",
            },
            "4 loads and 4 stores of 8 bytes per reaction and substep of a warp, and 4 of 16 bytes "
            "at the start and at the end (PTX)",
            "data",
            reaction,
        ),
        Answer(
            "few_sms",
            ["integrate_rates", "finish_dot"],
            "How many SMs are used, and how busy is the pipe on those?",
            {
                "integrate_rates": {
                    "blocks": 48,
                    "sms": SMS,
                    "active_sms": 48,
                    "share_of_sms": 48 / SMS,
                    "pipe": "fp64",
                    "per_active_sm": "sm__inst_executed_pipe_fp64 ... pct over all SMs x 132 / 48",
                    "factor": SMS / 48,
                },
                "finish_dot": {"blocks": 1, "active_sms": 1, "share_of_sms": 1 / SMS},
            },
            "12,288 threads in blocks of 256: fewer blocks than SMs, each on an SM of its own",
            "design",
            {"points": points},
        ),
    ]


def _flow(source: Source) -> list[Answer]:
    kernel = "rebuild_flow"
    matrix = source.line("float4 matrix = matrices[m];", kernel)
    mode = source.line("float2 mode = modes[", kernel)
    barriers = source.barriers("transport")
    tile, blocks = 32, TILE_BLOCKS * (SPECIES + 1)
    return [
        Answer(
            "sectors_per_load",
            [kernel],
            "Which load is uniform, which dense, with how many sectors per warp instruction?",
            {
                "matrix": {"pattern": "uniform", "bytes_per_thread": 16, "sectors": 1},
                "mode": {"pattern": "dense", "bytes_per_thread": 8, "sectors": 8},
                "instructions_of_warps_each": WARPS * MODES,
                "mean_sectors_per_load": 4.5,
                "shared_by_all_threads_bytes": MODES * 16,
            },
            "matrices[m] is one address for all lanes, in one sector; 32 x 8 bytes are 8 sectors",
            "design",
            {"matrix": matrix, "mode": mode},
        ),
        Answer(
            "instructions_per_item",
            [kernel, "transport"],
            "How many instructions per cell and mode, and per cell and field?",
            {
                kernel: {"item": "cell and mode", "items": CELLS * MODES},
                "transport": {"item": "cell and field", "items": CELLS * (SPECIES + 1)},
                "divide": "32 * smsp__inst_executed.sum / items",
            },
            "1,048,576 cells x 24 modes; x 9 fields",
            "counters",
            {"mode": mode},
        ),
        Answer(
            "bytes_against_array",
            [kernel, "transport"],
            "How often is each array read?",
            {
                "modes": {"array_bytes": MODE_BYTES, "times_read": 1},
                "matrices": {
                    "array_bytes": MODES * 16,
                    "times_read_by_warps": WARPS,
                },
                "transport fields": {
                    "array_bytes": ALL_SPECIES + FIELD,
                    "times_read": (tile + 4) ** 2 / tile**2,
                },
                "transport flow": {
                    "array_bytes": FIELD,
                    "times_read": (SPECIES + 1) * (tile + 2) ** 2 / tile**2,
                },
            },
            "a tile of 32 x 32 cells loads 36 x 36 values and 34 x 34 speeds, once per field",
            "design",
            {
                "mode": mode,
                "value": source.line("value[row][column] = in[", "transport"),
                "speed": source.line("speed[row][column] = flow[", "transport"),
            },
        ),
        Answer(
            "phases",
            ["transport"],
            "Which lines of a block load, compute and store?",
            {
                "load": [
                    source.line("k < (kTile + 4) * (kTile + 4)", "transport"),
                    barriers[0],
                ],
                "compute": [barriers[0] + 1, barriers[1]],
                "store": [
                    barriers[1] + 1,
                    source.line("species_out[field * kCells + cell] = moved;", "transport"),
                ],
                "global_bytes_loaded_per_block": (tile + 4) ** 2 * 8 + (tile + 2) ** 2 * 8,
                "fluxes_per_block": 2 * tile * (tile + 1),
                "global_bytes_stored_per_block": tile**2 * 8,
                "blocks": blocks,
            },
            "barriers separate the phases; blocks of the temperature also load heat while storing "
            "and add up squares afterwards",
            "design",
            {"first_barrier": barriers[0], "second_barrier": barriers[1]},
        ),
        Answer(
            "barriers",
            ["transport", "apply_operator", "update_solution", "finish_dot"],
            "How many barriers per block?",
            {
                "transport": {"blocks_of_species": 2, "blocks_of_temperature": 3},
                "transport_barriers_in_all": TILE_BLOCKS * (2 * SPECIES + 3),
                "apply_operator": 1,
                "update_solution": 1,
                "finish_dot": 1,
                "others": 0,
                "barrier_lines": barriers,
            },
            "species blocks return before the third; the sums use one in store_block_sum",
            "design",
        ),
    ]


def _solver(source: Source, data: dict[str, Any]) -> list[Answer]:
    solver = ["apply_operator", "finish_dot", "update_solution", "update_direction"]
    launches = {kernel.name: kernel.launches for kernel in KERNELS}
    return [
        Answer(
            "loop_counts",
            solver,
            "How many iterations does the solver need?",
            {
                "iterations": [step["iterations"] for step in data["steps"]],
                "relative_residuals": [step["relative_residual"] for step in data["steps"]],
                "apply_operator loop": 2,
                "finish_dot loop": {"start": TILE_BLOCKS // 256, "alpha, beta": PAIR_BLOCKS // 256},
            },
            "the host runs the same steps; the residual is looked at every 4 iterations; "
            "2,048 x 256 threads over 1,048,576 cells",
            "data",
            {
                "host_loop": source.line("while (iteration < kMaxIterations)"),
                "apply_operator": source.line("for (int i = blockIdx.x", "apply_operator"),
                "finish_dot": source.line("for (int i = threadIdx.x", "finish_dot"),
            },
        ),
        Answer(
            "short_launches",
            solver,
            "How many short launches are there whose fixed cost matters?",
            {
                "launches": {name: launches[name] for name in solver},
                "in_the_solver": sum(launches[name] for name in solver),
                "per_iteration": 5,
                "all": sum(launches.values()),
                "finish_dot_adds_numbers": [TILE_BLOCKS, PAIR_BLOCKS],
                "host_waits": STEPS * ITERATIONS // 4,
            },
            "5 launches per iteration x 16 iterations x 3 steps, and 2 at the start of each step",
            "data",
        ),
        Answer(
            "fits_on_chip",
            solver,
            "Does what the solver's launches read and write fit into L2?",
            {
                "arrays": ["p", "q", "r", "x", "conduct"],
                "bytes": 5 * FIELD,
                "l2_bytes": L2_BYTES,
                "fits": True,
            },
            "5 arrays of 1,048,576 doubles: 40 of 60 MiB",
            "design",
        ),
        Answer(
            "below_one_percent",
            [kernel.name for kernel in KERNELS],
            "Which kernels take less than 1 % of the time each?",
            {
                "expected_below_1_percent": [],
                "smallest_expected": ["rebuild_flow", "transport", "update_direction"],
                "check": "sum of a kernel's times / sum of all times in the run table",
            },
            "all eight take part in every step; the run table decides",
            "run table",
        ),
        Answer(
            "changes_nothing",
            ["update_solution", "update_direction"],
            "Which work of the solver has no effect on the result?",
            {
                "iterations_after_the_tolerance_was_reached": [
                    step["iterations"] - step["tolerance_reached_after"] for step in data["steps"]
                ],
                "last_update_direction_of_a_step": STEPS,
                "first_update_direction_reads_p_for_nothing": STEPS,
            },
            "the host looks every 4 iterations; p of the last iteration is overwritten by the next "
            "step, which starts with beta = 0",
            "data",
            {"launch": source.line("if (++iteration % kCheckEvery == 0)")},
        ),
    ]


def _pairs() -> Answer:
    part = max(PAIR_BLOCKS, TILE_BLOCKS) * 8
    return handovers(
        [
            Handover("integrate_rates", "react_cells", "rates", RATES),
            Handover("rebuild_flow", "transport", "flow", FIELD),
            Handover("react_cells", "transport", "species", ALL_SPECIES),
            Handover("react_cells", "transport", "heat", FIELD),
            Handover("transport", "react_cells", "species", ALL_SPECIES),
            Handover("transport", "update_direction", "r", FIELD),
            Handover("transport", "update_solution", "r", FIELD),
            Handover("transport", "finish_dot", "partial", TILE_BLOCKS * 8),
            Handover("apply_operator", "update_solution", "q", FIELD),
            Handover("apply_operator", "finish_dot", "partial", part),
            Handover("update_solution", "finish_dot", "partial", part),
            Handover("update_solution", "update_solution", "r", FIELD),
            Handover("update_solution", "update_solution", "x", FIELD),
            Handover("update_solution", "update_direction", "r", FIELD),
            Handover("update_solution", "react_cells", "x (temperature of the next step)", FIELD),
            Handover("update_solution", "transport", "x (temperature of the next step)", FIELD),
            Handover("update_direction", "apply_operator", "p", FIELD),
            Handover("update_direction", "update_solution", "p", FIELD),
            Handover("update_direction", "update_direction", "p", FIELD),
            Handover("finish_dot", "update_solution", "scalars", 32),
            Handover("finish_dot", "update_direction", "scalars", 32),
            Handover("finish_dot", "finish_dot", "scalars", 32),
        ],
        "temperature, x, r, p, q, heat, flow and conduct all have 8,388,608 bytes; conduct and "
        "modes come from the host; q is read by update_solution alone, heat and flow by transport "
        "alone; apply_operator reads nothing that update_solution writes",
    )


def _traffic() -> list[Answer]:
    return [
        traffic_answer(
            "rebuild_flow", MODE_BYTES + MODES * 16, FIELD, "modes and matrices read, flow written"
        ),
        traffic_answer(
            "react_cells",
            ALL_SPECIES + FIELD + RATES,
            ALL_SPECIES + FIELD,
            "species, temperature and rates read; species and heat written",
        ),
        traffic_answer(
            "transport",
            ALL_SPECIES + 3 * FIELD,
            ALL_SPECIES + FIELD,
            "species, temperature, flow and heat read; species and right-hand side written",
        ),
        traffic_answer("apply_operator", 2 * FIELD, FIELD, "p and conduct read, q written"),
        traffic_answer("update_solution", 4 * FIELD, 2 * FIELD, "p, q, x, r read; x, r written"),
        traffic_answer("update_direction", 2 * FIELD, FIELD, "r and p read, p written"),
    ]
