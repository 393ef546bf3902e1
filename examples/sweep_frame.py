"""A table over many reports with pandas: the time of each kernel and what limits it, by report.

keet batch kernels_samples -o store
python examples/sweep_frame.py store
"""

import sys
from pathlib import Path

import pandas as pd

import keet


def sweep(store_path: str) -> pd.DataFrame:
    with keet.open_store(store_path) as store:
        frame = store.to_pandas("launches")
    frame["report"] = [Path(path).parent.name + "/" + Path(path).stem for path in frame["path"]]
    frame["best"] = frame.groupby("kernel")["duration_us"].transform("min")
    frame["slower_than_best"] = frame["duration_us"] / frame["best"]
    columns = ["kernel", "report", "duration_us", "slower_than_best", "limiter", "top_finding"]
    return frame[columns].sort_values(["kernel", "duration_us"], ignore_index=True)


def main(store_path: str) -> None:
    print(sweep(store_path).to_string())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python examples/sweep_frame.py STORE", file=sys.stderr)
        sys.exit(2)
    try:
        main(sys.argv[1])
    except keet.KeetError as problem:
        print(problem, file=sys.stderr)
        sys.exit(problem.exit_code)
