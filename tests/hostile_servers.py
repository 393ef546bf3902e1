"""`keet explain` against hostile servers, each run in a process of its own.

    python -m tests.hostile_servers [PART OF A NAME]

prints what ended each run, how long it took, how much memory keet and its client took, and whether
a key was found in what they wrote.
"""

import base64
import gzip
import html
import os
import re
import socket
import string
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from tests.hostile_behaviours import BEHAVIOURS, Behaviour, Connection

REPORT = Path("kernels_samples/matrix_flip/slow.ncu-rep")
HEADLINE = "uncoalesced global access at slow.cu:7"
"""What the analyst says of it, with or without a model."""
KEY = "sk-proj-Ab12_cd34-ef56GH78ijKL90mnOP"
OTHER = "hf_" + "QwErTyUiOp" * 4
"""A key that the server is not told of."""
GUARD_S = 900.0
"""A run that takes longer hangs: this finds faults, it measures nothing."""


class Run(NamedTuple):
    name: str
    code: int | None
    """None: it was ended by the guard."""
    seconds: float
    """From the first connection to the end: what keet does before takes its own time."""
    megabytes: float
    """The most that keet and its client held, added up."""
    out: str
    err: str
    written: str
    """The transcript, and every other file."""
    problem: str
    """What keet said of the model."""

    @property
    def leaks(self) -> bool:
        return any(
            reveals(text, key)
            for text in (self.out, self.err, self.written)
            for key in (KEY, OTHER)
        )

    @property
    def has_analysis(self) -> bool:
        return HEADLINE in " ".join(self.out.split()).replace('\\"', '"')


# --- the server


@contextmanager
def serving(behaviour: Behaviour, began: list[float] | None = None) -> Iterator[str]:
    """The URL of a server that behaves so; `began` gets the time of each connection."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    times = [] if began is None else began
    threading.Thread(target=_accept, args=(listener, behaviour, times), daemon=True).start()
    try:
        yield f"{behaviour.scheme}://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        listener.close()


def _accept(listener: socket.socket, behaviour: Behaviour, began: list[float]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            who = (connection, behaviour, len(began))
            began.append(time.monotonic())
            threading.Thread(target=_serve, args=who, daemon=True).start()


def _serve(connection: socket.socket, behaviour: Behaviour, number: int) -> None:
    with connection, suppress(OSError):
        head, body = _request(connection) if behaviour.reads else (b"", b"")
        behaviour.send(Connection(connection, head.decode("latin-1"), number, body))


def _request(connection: socket.socket) -> tuple[bytes, bytes]:
    """The head and the body."""
    data, length = b"", None
    while b"\r\n\r\n" not in data or (length and len(data.partition(b"\r\n\r\n")[2]) < length):
        if not (piece := connection.recv(65536)):
            break
        data += piece
        found = re.search(rb"(?i)content-length: (\d+)", data)
        length = int(found[1]) if found else None
    head, _, body = data.partition(b"\r\n\r\n")
    return head, body


# --- a run


def run(behaviour: Behaviour) -> Run:
    began: list[float] = []
    with tempfile.TemporaryDirectory() as folder, serving(behaviour, began) as url:
        process = _start(behaviour, url, Path(folder))
        peaks: dict[int, float] = {}
        watch = threading.Thread(target=_watch, args=(process, peaks), daemon=True)
        watch.start()
        try:
            out, err = process.communicate(timeout=GUARD_S)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            code = None
        watch.join()
        seconds = time.monotonic() - began[0] if began else 0.0
        texts = [path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()]
    written = b"\n".join(texts).decode(errors="replace")
    problem = next((line for line in err.splitlines() if "; explained with" in line), "")
    return Run(behaviour.name, code, seconds, sum(peaks.values()), out, err, written, problem)


def _start(behaviour: Behaviour, url: str, folder: Path) -> subprocess.Popen[str]:
    model = ("--model", "m") if behaviour.names_model else ()
    edits = () if behaviour.asks else ("--no-compile",)
    options = ("--time-limit", str(behaviour.seconds), *edits, *model, *behaviour.options)
    surroundings = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().endswith(("_KEY", "_TOKEN", "_PROXY")) and not name.startswith("KEET")
    }
    surroundings |= {"OPENAI_API_KEY": KEY, "HF_TOKEN": OTHER, "KEET_CACHE": str(folder)}
    surroundings |= {"XDG_CONFIG_HOME": str(folder), "COLUMNS": "300", "NO_COLOR": "1"}
    asked = ("ask", str(REPORT), "Why?") if behaviour.asks else ("explain", str(REPORT))
    return subprocess.Popen(
        [sys.executable, "-m", "keet", *asked, "--base-url", url, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=surroundings,
        encoding="utf-8",
        errors="replace",
    )


def _watch(process: subprocess.Popen[str], peaks: dict[int, float]) -> None:
    """The peak of each process, in MB. Linux keeps it: looking now and then is enough."""
    while process.poll() is None:
        for pid in _family(process.pid):
            with suppress(OSError, IndexError, ValueError):
                status = Path(f"/proc/{pid}/status").read_text()
                peaks[pid] = int(status.split("VmHWM:")[1].split()[0]) / 1024
        time.sleep(0.05)


def _family(pid: int) -> list[int]:
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(each for child in map(int, children) for each in _family(child))]
    return [pid]


def run_all(behaviours: Sequence[Behaviour], at_once: int = 4) -> Iterator[Run]:
    """Most of them wait most of the time."""
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(run, behaviours)


# --- keys, found without any of keet's own code


def reveals(text: str, key: str) -> bool:
    """Whether a reader could put the key together: as it stands, or after undoing what hides it.
    Words of the text are decoded, up to twice."""
    texts = [text]
    for _ in range(4):
        texts += [_undone(texts[-1])]
    texts += [re.sub(r"<[^<>]*>|\x1b\[[0-9;]*m", "", each) for each in texts]
    words = {word for each in texts for word in re.findall(r"[!-~]{16,}", each)}
    codes = [re.findall(r"\b(?:0x)?[0-9a-f]{2,7}\b", each) for each in texts]
    texts += [_codes(each, base) for each in codes for base in (2, 8, 10, 16)]
    texts += [found for word in words for found in _decodings(word, 2)]
    wanted = {_plain(key), _plain(key[::-1])}
    wanted |= {_plain(key.translate(_rotation(by))) for by in range(26)}
    return any(form in _plain(each) for each in texts for form in wanted)


def _rotation(by: int) -> dict[int, int]:
    letters = string.ascii_lowercase
    to = letters[by:] + letters[:by]
    return str.maketrans(letters + letters.upper(), to + to.upper())


def _codes(found: list[str], base: int) -> str:
    said = ""
    for code in found:
        with suppress(ValueError):
            said += chr(min(int(code, base), 0x7F))
    return said


DECODERS: tuple[Callable[[str], bytes], ...] = (
    bytes.fromhex,
    base64.b32decode,
    base64.b85decode,
    base64.a85decode,
    base64.b64decode,
    lambda word: base64.b64decode(word + "=="),
    base64.urlsafe_b64decode,
    lambda word: int(word).to_bytes(len(word), "big"),
    lambda word: gzip.decompress(base64.b64decode(word)),
)


def _decodings(word: str, levels: int) -> Iterator[str]:
    """What is beside it, as quotes, must not hide it."""
    for part in {word, *re.findall(r"[\w+/=-]{16,}", word)} if levels else ():
        for decode in DECODERS:
            with suppress(ValueError, OSError, EOFError, OverflowError):
                found = decode(part).decode("latin-1")
                yield found
                yield from _decodings(found, levels - 1)


def _undone(text: str) -> str:
    text = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", _escaped, text)
    return unquote(html.unescape(text))


def _escaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return "\n" if match[2] == "n" else match[2]


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in folded if char.isalnum())


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [each for each in BEHAVIOURS if wanted in each.name]
    sys.stdout.write(
        f"{'behaviour':32} {'limit':>6} {'took':>7} {'MB':>5} {'exit':>4}  key  analysis  ended by\n"
    )
    for behaviour, done in zip(chosen, run_all(chosen)):
        said = re.sub(r"http\S+", "URL", done.problem.removeprefix("keet: ")).partition("; what")[0]
        sys.stdout.write(
            f"{done.name:32} {behaviour.seconds:4.0f} s {done.seconds:5.1f} s {done.megabytes:5.0f} "
            f"{done.code!s:>4}  {'YES' if done.leaks else 'no':3}  "
            f"{'yes' if done.has_analysis else 'NO':8}  {said[:110] or 'an answer'}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
