"""Write a page for each report of a folder. A report that can't be read does not stop the others.

python examples/pages.py kernels_samples/matrix_flip pages
"""

import sys
from pathlib import Path

import keet


def main(folder: str, out: str) -> int:
    reports = sorted(Path(folder).rglob("*.ncu-rep*"))
    if not reports:
        print(f"{folder}: there is no report; name a folder that has some", file=sys.stderr)
        return 2
    failed = 0
    for report in reports:
        try:
            explanation = keet.explain(report)
        except keet.KeetError as problem:
            failed += 1
            print(problem, file=sys.stderr)
            continue
        page = Path(out) / report.relative_to(folder).with_suffix(".html")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(explanation.to_html(), encoding="utf-8")
        print(f"{page}: {explanation.launches[0].headline}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: python examples/pages.py FOLDER OUT", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1], sys.argv[2]))
