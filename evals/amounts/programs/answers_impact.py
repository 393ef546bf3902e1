"""True answers about impact.cu."""

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

CELLS, STEPS = 96, 60
ELEMENTS, NODES = CELLS**3, (CELLS + 1) ** 3
LAYER, FACE = CELLS**2, (CELLS + 1) ** 2
NODE_ARRAY = NODES * 8
STRESS = ELEMENTS * 6 * 8
CORNERS = ELEMENTS * 8 * 4
ELEMENT_BLOCKS, NODE_BLOCKS = ELEMENTS // 256, -(-NODES // 256)
ELEMENT_WARPS = ELEMENTS // 32


def _once(name: str, blocks: int) -> Kernel:
    return Kernel(name, 1, [grid([blocks, 1, 1], [256, 1, 1], 1)])


def _each_step(name: str, blocks: int, launches: int = STEPS) -> Kernel:
    return Kernel(name, launches, [grid([blocks, 1, 1], [256, 1, 1], launches)])


KERNELS = [
    _once("lump_masses", ELEMENT_BLOCKS),
    _once("invert_masses", NODE_BLOCKS),
    _once("stable_step", ELEMENT_BLOCKS),
    _each_step("set_supports", -(-FACE // 256)),
    _each_step("update_stresses", ELEMENT_BLOCKS),
    _each_step("scatter_forces", ELEMENT_BLOCKS),
    _each_step("update_nodes", NODE_BLOCKS),
    _each_step("kinetic_energy", 264, 6),
]


def answers(source: Source, data: dict[str, Any]) -> list[Answer]:
    return [
        *_amounts(source, data),
        _waiting_loads(source),
        *_nothing_changes(source),
        _pairs(),
        *_times(),
    ]


def _waiting_loads(source: Source) -> Answer:
    kernel = "update_nodes"
    velocity = {axis: source.line(f"nodes.v{axis}[i] = kDamping", kernel) for axis in "xyz"}
    place = {axis: source.line(f"nodes.u{axis}[i] += dt", kernel) for axis in "xyz"}
    clear = {axis: source.line(f"nodes.f{axis}[i] = 0.0", kernel) for axis in "xyz"}
    trips = []
    for axis in "xyz":
        trips.append(
            {
                "loads": [f"v{axis}", f"f{axis}", "inverse_mass"],
                "line": velocity[axis],
                "then_store": f"v{axis}",
                "store_line": velocity[axis],
            }
        )
        trips.append(
            {
                "loads": [f"u{axis}"],
                "line": place[axis],
                "then_store": f"u{axis}, f{axis}",
                "store_line": place[axis],
            }
        )
    return Answer(
        "waiting_loads",
        [kernel],
        "Which loads wait one after the other because a store that may alias stands between them?",
        {
            "round_trips": 6,
            "trips": trips,
            "loads_per_thread": 12,
            "needed_loads_per_thread": 10,
            "loaded_again": {"array": "inverse_mass", "times": 2},
            "could_be_issued_together": 10,
            "round_trips_then": 1,
            "why": "NodeState holds plain pointers; the compiler must assume that a store to vx "
            "may change ux, vy or inverse_mass",
            "stores_per_thread": 9,
        },
        "order of loads and stores in the PTX: 3 loads, store, 1 load, 2 stores, three times",
        "compiler",
        {
            **{f"v{axis}": velocity[axis] for axis in "xyz"},
            **{f"u{axis}": place[axis] for axis in "xyz"},
            **{f"f{axis}": clear[axis] for axis in "xyz"},
            "struct": source.line("struct NodeState {"),
        },
    )


def _amounts(source: Source, data: dict[str, Any]) -> list[Answer]:
    gather = data["sectors_per_warp_of_a_gather"]
    red_sectors = 3 * int(gather["sum"])
    adds = {
        axis: source.line(f"atomicAdd(&nodes.f{axis}[corner[c]]", "scatter_forces")
        for axis in "xyz"
    }
    gathers = {
        f"{kernel} {array}": source.line(f"nodes.{array}[corner[c]]", kernel)
        for kernel, arrays in (
            ("update_stresses", ("x", "y", "z", "vx", "vy", "vz")),
            ("scatter_forces", ("x", "y", "z")),
        )
        for array in arrays
    }
    return [
        Answer(
            "instructions_per_item",
            ["update_stresses", "scatter_forces", "update_nodes"],
            "How many instructions per element and per node?",
            {
                "update_stresses": {"item": "element", "items": ELEMENTS},
                "scatter_forces": {"item": "element", "items": ELEMENTS},
                "update_nodes": {"item": "node", "items": NODES},
                "divide": "32 * smsp__inst_executed.sum / items",
            },
            "96^3 elements and 97^3 nodes, one thread each",
            "counters",
        ),
        Answer(
            "sectors_per_load",
            ["update_stresses", "scatter_forces"],
            "How many sectors per warp instruction do the gathers touch?",
            {
                "gather": gather,
                "least_possible": 8,
                "corners": {"pattern": "dense", "bytes_per_thread": 4, "sectors": 4},
                "stress": {"pattern": "dense", "bytes_per_thread": 8, "sectors": 8},
                "gathers_per_thread": {"update_stresses": 48, "scatter_forces": 24},
                "gather_sectors_per_launch": {
                    "update_stresses": 6 * int(gather["sum"]),
                    "scatter_forces": 3 * int(gather["sum"]),
                },
            },
            "node numbers of the 32 elements of a warp / 4 (doubles per sector), counted for all "
            "corners and all warps; node numbers are shuffled in windows of 256",
            "data",
            gathers,
        ),
        Answer(
            "l2_atomics",
            ["scatter_forces"],
            "Which part of the L2's work is atomics, which gathers?",
            {
                "red_instructions_per_element": 24,
                "red_lane_operations": 24 * ELEMENTS,
                "red_instructions_of_warps": 24 * ELEMENT_WARPS,
                "red_sectors": red_sectors,
                "gather_sectors_before_l1": 3 * int(gather["sum"]),
                "dense_sectors": ELEMENT_WARPS * (8 * 4 + 6 * 8),
                "share": "lts__t_sectors_op_red.sum / lts__t_sectors.sum",
            },
            "8 corners x 3 directions; L1 does not hold atomics, it can hold gathers",
            "data",
            adds,
        ),
        Answer(
            "bytes_against_array",
            ["update_nodes"],
            "How many bytes of which arrays are read and written?",
            {
                "bytes_per_array": NODE_ARRAY,
                "arrays_read": 10,
                "arrays_written": 9,
                "bytes_read": 10 * NODE_ARRAY,
                "bytes_written": 9 * NODE_ARRAY,
                "requested_read": 12 * NODE_ARRAY,
                "bytes_written_without_clearing_the_forces": 6 * NODE_ARRAY,
            },
            "v, u, f (3 each) and inverse_mass; inverse_mass is loaded three times",
            "design",
            {"kernel": source.line("update_nodes(NodeState nodes, double dt)")},
        ),
        Answer(
            "bytes_against_array",
            ["update_stresses"],
            "How often are the nodes' arrays requested?",
            {
                "arrays": ["x", "y", "z", "vx", "vy", "vz"],
                "bytes_per_array": NODE_ARRAY,
                "requested_bytes_per_array": 8 * ELEMENTS * 8,
                "times_array_size": 8 * ELEMENTS * 8 / NODE_ARRAY,
            },
            "8 corners per element; an inner node belongs to 8 elements",
            "design",
        ),
        Answer(
            "loop_counts",
            ["kinetic_energy", "update_stresses", "scatter_forces"],
            "How often does each loop run?",
            {
                "kinetic_energy": {
                    "least": NODES // (264 * 256),
                    "mean": NODES / (264 * 256),
                    "most": -(-NODES // (264 * 256)),
                },
                "corner loops": 8,
                "corner loops are unrolled": True,
            },
            "912,673 nodes over 264 x 256 threads",
            "design",
            {"kinetic_energy": source.line("for (int i = blockIdx.x", "kinetic_energy")},
        ),
        traffic_answer(
            "update_nodes", 10 * NODE_ARRAY, 9 * NODE_ARRAY, "10 arrays read, 9 written, once each"
        ),
        traffic_answer(
            "update_stresses",
            6 * NODE_ARRAY + CORNERS + STRESS,
            STRESS,
            "6 node arrays + corners + stress read, stress written (plastic: yielding ones only)",
        ),
        traffic_answer(
            "scatter_forces",
            6 * NODE_ARRAY + CORNERS + STRESS,
            3 * NODE_ARRAY,
            "x, y, z, corners and stress read, forces read and written by atomics",
        ),
    ]


def _nothing_changes(source: Source) -> list[Answer]:
    quiet = [ELEMENTS - LAYER * step for step in range(1, STEPS + 1)]
    moved = sum((step + 1) * FACE for step in range(1, STEPS + 1))
    return [
        Answer(
            "changes_nothing",
            ["scatter_forces"],
            "How often does an atomic add nothing?",
            {
                "elements_without_stress_in_launch_n": "884736 - 9216 * n, n = 1 to 60",
                "first_launch": quiet[0],
                "last_launch": quiet[-1],
                "share_over_all_launches": sum(quiet) / (STEPS * ELEMENTS),
                "adds_of_zero_in_last_launch": 24 * quiet[-1],
                "printed": "884736 elements, 552960 with stress",
            },
            "the wave from the upper face reaches one layer of 96 x 96 elements per step; all "
            "other stresses are exactly zero",
            "design",
            {
                axis: source.line(f"atomicAdd(&nodes.f{axis}[corner[c]]", "scatter_forces")
                for axis in "xyz"
            },
        ),
        Answer(
            "changes_nothing",
            ["update_nodes"],
            "How many nodes are written back unchanged?",
            {
                "changed_in_launch_n": "(n + 1) * 9409",
                "unchanged_share_over_all_launches": 1 - moved / (STEPS * NODES),
            },
            "in step n forces act on n + 1 layers of 97 x 97 nodes; the others have v = 0, f = 0",
            "design",
        ),
        Answer(
            "changes_nothing",
            ["update_stresses"],
            "In how many elements does the return to the yield surface change nothing?",
            {"printed": "N yielded in the last step", "elements": ELEMENTS},
            "the host repeats the last step and counts",
            "output",
            {"branch": source.line("if (square <= limit) return 0.0;")},
        ),
        Answer(
            "changes_nothing",
            ["stable_step"],
            "How many atomics compete for one word?",
            {"atomics": ELEMENT_WARPS, "addresses": 1},
            "one per warp; the minimum rarely falls",
            "design",
            {"atomic": source.line("atomicMin(smallest", "stable_step")},
        ),
    ]


def _pairs() -> Answer:
    def each(writer: str, reader: str, arrays: str, size: int = NODE_ARRAY) -> list[Handover]:
        return [Handover(writer, reader, name, size) for name in arrays.split()]

    return handovers(
        [
            *each("lump_masses", "invert_masses", "inverse_mass"),
            *each("invert_masses", "update_nodes", "inverse_mass"),
            *each("invert_masses", "kinetic_energy", "inverse_mass"),
            *each("set_supports", "update_stresses", "vx vy", FACE * 8),
            *each("set_supports", "update_stresses", "vz", 2 * FACE * 8),
            *each("set_supports", "update_nodes", "vx vy", FACE * 8),
            *each("set_supports", "update_nodes", "vz", 2 * FACE * 8),
            *each("update_stresses", "scatter_forces", "stress", STRESS),
            *each("update_stresses", "update_stresses", "stress", STRESS),
            *each("update_stresses", "update_stresses", "plastic", ELEMENTS * 8),
            *each("scatter_forces", "update_nodes", "fx fy fz"),
            *each("update_nodes", "scatter_forces", "fx fy fz"),
            *each("update_nodes", "update_stresses", "vx vy vz"),
            *each("update_nodes", "update_nodes", "vx vy vz"),
            *each("update_nodes", "update_nodes", "ux uy uz"),
            *each("update_nodes", "kinetic_energy", "vx vy vz"),
        ],
        "x, y, z and corners come from the host; ux, uy, uz are read by update_nodes alone; the "
        "13 arrays of the nodes have equal sizes; set_supports writes only the 9,409 nodes of a "
        "face (vz: of two faces)",
    )


def _times() -> list[Answer]:
    small = ["lump_masses", "invert_masses", "stable_step", "kinetic_energy"]
    state = 13 * NODE_ARRAY + STRESS + CORNERS + ELEMENTS * 8
    return [
        Answer(
            "below_one_percent",
            [*small, "set_supports"],
            "Which kernels take less than 1 % of the time each?",
            {
                "expected_below_1_percent": small,
                "near_1_percent": ["set_supports"],
                "check": "sum of a kernel's times / sum of all times in the run table",
            },
            "they run once, or 6 times, against 60 launches of each main kernel",
            "run table",
        ),
        Answer(
            "launches_that_take_the_time",
            ["update_stresses", "scatter_forces", "update_nodes"],
            "Which launches of the kernels take the time?",
            {"launches": STEPS, "alike": True},
            "one shape, the same elements and nodes in each step",
            "design",
        ),
        Answer(
            "short_launches",
            ["set_supports"],
            "How many short launches are there?",
            {"launches": {"set_supports": STEPS, "kinetic_energy": 6}, "threads": FACE},
            "one per step, 9,409 nodes",
            "design",
        ),
        Answer(
            "fits_on_chip",
            ["update_stresses", "scatter_forces", "update_nodes"],
            "Does the state that all steps read and write fit into L2?",
            {"bytes": state, "l2_bytes": L2_BYTES, "fits": False},
            "13 arrays of nodes, 6 stresses, plastic strain and 8 corners per element",
            "design",
        ),
        Answer(
            "barriers",
            [kernel.name for kernel in KERNELS],
            "How many barriers?",
            {"all_kernels": 0},
            "no __syncthreads in the source",
            "design",
        ),
    ]
