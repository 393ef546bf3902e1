"""`keet mcp`, used as its clients use it: with the official client, in this process, over stdin and
stdout of a child, and over HTTP."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.conftest import REPORTS, Keet

SAMPLES = Path(__file__).parent.parent / "kernels_samples"
SLOW, FAST = "slow.ncu-rep", "fast.ncu-rep"
LIMIT = 24_000
"""Characters of any result, as it is sent."""
CLIENT = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", **CLIENT},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Served: two reports of a kernel. Beside it lies another report."""
    parent = tmp_path_factory.mktemp("mcp")
    served = parent / "served"
    served.mkdir()
    for name in (SLOW, FAST):
        shutil.copy(SAMPLES / "matrix_flip" / name, served / name)
    shutil.copy(REPORTS / "range.ncu-rep", parent / "outside.ncu-rep")
    (served / "link.ncu-rep").symlink_to(parent / "outside.ncu-rep")
    return served


def environment() -> dict[str, str]:
    root = str(Path(__file__).parent.parent)
    paths = [root, os.path.join(root, "tools")]  # noqa: PTH118
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def child(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "keet", "mcp", *arguments]


START = [HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A server, which would wait forever if it did not answer."""
    process = subprocess.Popen(
        child(*arguments), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    guard = threading.Timer(300, process.kill)
    guard.start()
    with process:
        yield process
    guard.cancel()


def answer_to(process: subprocess.Popen[str], *lines: str) -> str:
    """The line that it answers with."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("".join(f"{line}\n" for line in lines))
    process.stdin.flush()
    return process.stdout.readline()


async def told(client: Any, name: str, /, **arguments: Any) -> Any:
    """A result, whose length is checked wherever it comes from."""
    result = await client.call_tool(name, arguments)
    assert len(result.model_dump_json(by_alias=True, exclude_none=True)) <= LIMIT
    assert len(result.content) == 1
    if result.is_error:
        assert "\n" not in result.content[0].text
        assert result.content[0].text.startswith("keet: ")
    return result


async def error(client: Any, name: str, /, **arguments: Any) -> str:
    result = await told(client, name, **arguments)
    assert result.is_error
    return result.content[0].text


CLAIM = {"finding": "uncoalesced_global", "kind": "bytes", "of": "global", "removed": "0.5"}
GOOD: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("list_reports", {}, SLOW),
    ("list_reports", {"report": SLOW}, "flip"),
    ("explain", {"report": SLOW}, "Uncoalesced global access"),
    ("line", {"report": SLOW}, "slow.cu:7"),
    ("line", {"report": SLOW, "line": "slow.cu:7"}, "STG.E"),
    ("line", {"report": SLOW, "line": "0x0150"}, "STG.E"),
    ("source", {"report": SLOW, "line": 7}, "L7 41.3% `        out[x * n + y]"),
    ("occupancy", {"report": SLOW, "registers": 64}, "theoretical occupancy 50.0%"),
    ("amounts", {"report": SLOW}, "elements of out are stored"),
    ("metrics", {"report": SLOW, "pattern": "l2 hit"}, "lts__t_sector_hit_rate.pct"),
    ("what_if", {"report": SLOW, "claims": [CLAIM]}, "with the claimed amounts; keet alone"),
    ("diff", {"before": SLOW, "after": FAST}, "7.02x faster"),
    ("context", {"report": SLOW, "max_tokens": 400}, "Causes, by gain"),
    ("verify", {"report": SLOW, "text": "The L2 hit rate is 12 %."}, "89.22"),
    ("cases", {"case": "transpose/power_of_two_tile"}, "transpose/power_of_two_tile"),
)
"""Every tool, and what its text has."""

BAD: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("nothing", {}, "there is no tool nothing; there are list_reports, explain"),
    ("explain", {}, "report: Field required"),
    ("explain", {"report": SLOW, "lunch": 1}, "lunch: Extra inputs are not permitted"),
    ("explain", {"report": SLOW, "launch": "x"}, "launch: Input should be a valid integer"),
    ("explain", {"report": SLOW, "launch": 7}, "launch 7: the report has one launch, number 0"),
    ("explain", {"report": SLOW, "kernel": "zzz"}, "kernel zzz matches no launch"),
    ("explain", {"report": SLOW, "offset": 5}, "offset 5: there are 1"),
    ("explain", {"report": SLOW, "source": "/"}, "no such folder in the folders of this server"),
    ("list_reports", {"match": "zzz"}, "no report has such a path"),
    ("line", {"report": SLOW, "line": "slow.cu:1"}, "no instruction comes from this line"),
    ("source", {"report": SLOW, "file": "/etc/passwd"}, "no such file; files: slow.cu"),
    ("amounts", {"report": SLOW, "per": "zzz"}, "per: String should match pattern"),
    ("metrics", {"report": SLOW, "pattern": "zzz"}, "no metric matches"),
    ("diff", {"before": SLOW}, "after: Field required"),
    ("what_if", {"report": SLOW, "claims": "x"}, "has to be a JSON list"),
    ("what_if", {"report": SLOW, "claims": [{}]}, "a claim needs a `finding`"),
    ("context", {"report": SLOW, "max_tokens": 5}, "greater than or equal to 30"),
    ("verify", {"report": SLOW, "text": "x" * 20_001}, "at most 20000 characters"),
    ("cases", {"finding": "zzz"}, "there are atomic_contention"),
)
OUTSIDE = (
    *("../outside.ncu-rep", "link.ncu-rep", "/etc/passwd", "/proc/self/environ"),
    *("a\0b", "x" * 4_000),
)
ALONE = ("list_reports", "explain", "line", "amounts", "metrics", "source", "occupancy", "context")
TAKE_A_REPORT: tuple[tuple[str, dict[str, Any]], ...] = (
    *((name, {"report": ...}) for name in ALONE),
    ("what_if", {"report": ..., "claims": "[]"}),
    ("diff", {"before": ..., "after": SLOW}),
    ("diff", {"before": SLOW, "after": ...}),
    ("verify", {"report": ..., "text": "a"}),
    ("verify", {"report": SLOW, "before": ..., "text": "a"}),
)


async def use_all(client: Any, folder: Path) -> None:
    """Every tool on a sample, with bad arguments, and with paths outside the folders."""
    from jsonschema import validate

    offered = (await client.list_tools()).tools
    told_of = (tool.model_dump_json(by_alias=True, exclude_none=True) for tool in offered)
    assert sum(map(len, told_of)) <= 12_000, "every session of a client pays for this text"
    schemas = {tool.name: tool.output_schema for tool in offered}
    assert schemas.keys() == {name for name, *_ in GOOD}
    for name, arguments, expected in GOOD:
        result = await told(client, name, **arguments)
        assert not result.is_error, result.content[0].text
        assert expected in result.content[0].text, name
        assert not any("are cut" in note for note in result.structured_content["notes"]), name
        validate(result.structured_content, schemas[name])
    for name, arguments, expected in BAD:
        assert expected in await error(client, name, **arguments)
    for name, arguments in TAKE_A_REPORT:
        for outside in (*OUTSIDE, str(folder.parent / "outside.ncu-rep")):
            asked = {key: outside if value is ... else value for key, value in arguments.items()}
            assert "no such report in the folders of this server" in await error(
                client, name, **asked
            )


def test_in_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol: tools with schemas and hints, progress, errors, and a bug that costs one call."""
    from mcp import Client

    from keet.serve import server
    from keet.serve.reports import AllowedFolders

    def broken(*_: object) -> None:
        raise RuntimeError("line one\nline two")

    async def use() -> None:
        async with Client(server.make_server(AllowedFolders([folder]))) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == list(server.TOOLS)
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
            assert all(tool.output_schema and tool.description for tool in tools)
            messages: list[str | None] = []

            async def progress(_: float, __: float | None, message: str | None) -> None:
                messages.append(message)

            result = await client.call_tool("explain", {"report": SLOW}, progress_callback=progress)
            assert result.structured_content["launches"][0]["limiter"] == "L2"
            assert messages[:2] == [f"reading {SLOW}", "explaining 1 launch"]
            assert "no such report" in await error(client, "explain", report="../outside.ncu-rep")
            assert "report: Field required" in await error(client, "explain")
            tool = server.TOOLS["cases"]._replace(call=broken)
            monkeypatch.setitem(server.TOOLS, "cases", tool)
            message = await error(client, "cases")
            assert "this is a bug in keet: RuntimeError: line one\\nline two; start" in message
            assert not (await told(client, "list_reports")).is_error

    anyio.run(use)


@pytest.mark.slow
def test_a_call_that_is_cancelled_stops_and_others_go_on(folder: Path, monkeypatch) -> None:
    from mcp import Client

    from keet.serve import server
    from keet.serve.reports import AllowedFolders

    began, ended = threading.Event(), threading.Event()

    def endless(_: object, __: object, work: Any) -> None:
        try:
            began.set()
            while True:
                work.check()
        finally:
            ended.set()

    monkeypatch.setitem(server.TOOLS, "cases", server.TOOLS["cases"]._replace(call=endless))

    async def use() -> None:
        async with (
            Client(server.make_server(AllowedFolders([folder])), mode="legacy") as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(client.call_tool, "cases", {})
            await anyio.to_thread.run_sync(began.wait)
            assert not (await told(client, "explain", report=SLOW)).is_error
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(ended.wait)

    anyio.run(use)


@pytest.mark.slow
def test_over_stdin_and_stdout(folder: Path) -> None:
    """Concurrent calls give the same as single ones."""
    from mcp import Client, StdioServerParameters

    async def use() -> None:
        command, *arguments = child(str(folder))
        server = StdioServerParameters(command=command, args=arguments, env=environment())
        async with Client(server) as client:
            await use_all(client, folder)
            single = {at: await told(client, name, **a) for at, (name, a, _) in enumerate(GOOD)}
            found: dict[int, Any] = {}

            async def call(at: int) -> None:
                name, arguments, _ = GOOD[at % len(GOOD)]
                found[at] = await told(client, name, **arguments)

            async with anyio.create_task_group() as group:
                for at in range(2 * len(GOOD)):
                    group.start_soon(call, at)
        assert [at for at, result in found.items() if result != single[at % len(GOOD)]] == []

    anyio.run(use)


@pytest.mark.slow
def test_ctrl_c_ends_it_at_once(folder: Path) -> None:
    with started(str(folder)) as process:
        assert answer_to(process, json.dumps(HELLO))  # it runs
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT


LONE = r'"\ud800"'
"""Half a character, which JSON can escape."""
CALL = '{{"jsonrpc": "2.0", "id": {}, "method": "tools/call", "params": {{"name": {}, "arguments": {}}}}}'
BROKEN: tuple[tuple[str, int | str | None, str], ...] = (
    (CALL.format(2, LONE, "{}"), 2, "there is no tool"),
    (CALL.format(3, '"explain"', f'{{"report": {LONE}}}'), 3, "no such report"),
    (CALL.format(4, '"list_reports"', f'{{"match": {LONE}}}'), 4, "no report has such a path"),
    (CALL.format(5, '"explain"', f"{{{LONE}: 1}}"), 5, "Extra inputs are not permitted"),
    (CALL.format(6, '"verify"', f'{{"report": "{SLOW}", "text": {LONE}}}'), 6, "numbers"),
    (CALL.format('"a"', '"cases"', f'{{"case": {LONE}}}'), "a", "there is no such case"),
    (CALL.format(LONE, '"cases"', "{}"), None, "the id of the request is not Unicode"),
    *(
        (CALL.format(id_, '"cases"', "{}"), None, "-32600")
        for id_ in ("1.5", "1e999", "9" * 5001, "true", "null", "[1]")
    ),
    ('{"id": 7}', 7, "this is not a request of MCP"),
    ("[1]", None, "this is not a request of MCP"),
    ("no JSON", None, "the request is not JSON"),
    ("[" * 200_000, None, "nested too deeply"),
)
"""Lines, the id of the answer, and a part of it."""


@pytest.mark.slow
def test_requests_that_cannot_be_parsed_are_answered(folder: Path) -> None:
    """The child prints nothing but messages, and ends with its client."""
    with started(str(folder)) as process:
        first = json.loads(answer_to(process, *map(json.dumps, START)))
        assert first["result"]["serverInfo"]["name"] == "keet"
        for line, id_, expected in BROKEN:
            answer = answer_to(process, line)
            assert json.loads(answer)["id"] == id_, line[:100]
            assert expected in answer
        out, _ = process.communicate()
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    assert process.returncode == 0


@contextmanager
def listening(folder: Path) -> Iterator[int]:
    """The port of a server; ended by Ctrl-C."""
    with started(str(folder), "--http", "0") as process:
        assert process.stderr
        line = process.stderr.readline()
        assert line.startswith("keet: listening at http://127.0.0.1:"), line
        yield int(line.partition("127.0.0.1:")[2].partition("/")[0])
        process.send_signal(signal.SIGINT)


@pytest.mark.slow
def test_over_http_on_this_machine_only(folder: Path) -> None:
    from mcp import Client

    async def use(port: int) -> None:
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            assert not (await told(client, "explain", report=SLOW)).is_error
            assert "no such report" in await error(client, "explain", report=OUTSIDE[0])

    with listening(folder) as port:
        anyio.run(use, port)
        good = f"127.0.0.1:{port}"
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1:1"):
            assert _status(port, {"Host": host}) == 421
        for origin in ("http://evil.example", "null"):
            assert _status(port, {"Host": good, "Origin": origin}) == 403
        assert _status(port, {"Host": good, "Origin": f"http://localhost:{port}"}) not in (403, 421)


def _status(port: int, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    connection.request("POST", "/mcp", body, {**sent, **headers})
    status = connection.getresponse().status
    connection.close()
    return status


def test_wrong_options(keet: Keet, tmp_path: Path) -> None:
    wrong = {
        ("--http", "0.0.0.0:80"): "keet listens only on 127.0.0.1",
        ("--http", "[::]:80"): "keet listens only on 127.0.0.1",
        ("--http", "99999"): "must be a port",
        ("--http", "x"): "must be a port",
        (str(tmp_path / "missing"),): "there is no such folder",
        ("/",): "must not be served",
    }
    for arguments, expected in wrong.items():
        keet("mcp", *arguments).refuses(expected)


def test_without_the_package_the_extra_is_named(keet: Keet, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)  # as if it were not installed
    keet("mcp").refuses("[mcp]'", code=3)
