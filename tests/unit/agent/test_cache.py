"""The cache of replies: what is cached, and damaged, locked or read-only files."""

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from keet.agent.model.messages import ChatMessage, ChatReply, ChatRequest, ModelFault, TokenCount
from keet.agent.model.messages import ModelToolCall as Call
from keet.agent.open_model import CachedChat, ReplyCache

REQUEST = ChatRequest((ChatMessage("user", "Why?"),))
REPLY = ChatReply("because", (Call("c", "t", {"a": [1]}),), TokenCount(9, 4, estimated=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "answers.sqlite"


class Counting:
    name = "openai:gpt-5"

    def __init__(self, *answers: ChatReply | Exception) -> None:
        self.answers = list(answers)

    def ask(self, request: ChatRequest) -> ChatReply:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def cached(chat: Counting, cache: ReplyCache, prompt: str = "1") -> CachedChat:
    return CachedChat(chat, cache, "ab", prompt)


def test_a_reply_comes_back_as_it_was(path: Path) -> None:
    assert ReplyCache(path).get("k") is None
    assert not path.parent.exists(), "reading creates no file"
    ReplyCache(path).put("k", REPLY)
    cache = ReplyCache(path)
    assert (cache.get("k"), cache.get("other"), cache.problem) == (REPLY, None, None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # rows that keet did not write
    for text in ("{", "[]", "{}", '{"text": 1, "calls": 3}', "null", "[" * 99_999):
        with closing(sqlite3.connect(path)) as base, base:
            base.execute("UPDATE replies SET reply = ?", (text,))
        assert ReplyCache(path).get("k") is None


def test_every_part_of_the_request_changes_the_cache_key(path: Path) -> None:
    chat, cache = Counting(REPLY, REPLY, REPLY, REPLY), ReplyCache(path)
    how = ChatRequest((ChatMessage("user", "How?"),))
    for request in (REQUEST, how, REQUEST._replace(schema={}), REQUEST._replace(max_output=1)):
        assert not cached(chat, cache).ask(request).cached
        assert cached(chat, ReplyCache(path)).ask(request) == REPLY._replace(cached=True)
    with pytest.raises(IndexError):
        cached(chat, cache, prompt="2").ask(REQUEST)
    chat.name = "another"
    with pytest.raises(IndexError):
        cached(chat, cache).ask(REQUEST)


def test_cut_or_empty_replies_are_not_cached(path: Path) -> None:
    fault, empty = ModelFault("timeout", "late"), ChatReply(" ", (), TokenCount(1, 1))
    chat = cached(Counting(fault, REPLY._replace(cut=True), empty, REPLY), ReplyCache(path))
    with pytest.raises(ModelFault):
        chat.ask(REQUEST)
    assert [chat.ask(REQUEST).cut, chat.ask(REQUEST).text] == [True, " "]
    assert chat.ask(REQUEST) == REPLY


def test_keys_are_not_cached(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret-value-2")
    ReplyCache(path).put("k", REPLY._replace(text="see very-secret-value-2"))
    assert b"very-secret" not in path.read_bytes()


def test_only_the_newest_entries_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keet.agent.open_model._MOST_ENTRIES", 3)
    cache = ReplyCache(path)
    for name in "abcd":
        cache.put(name, REPLY)
    cache.put("b", REPLY)
    cache.put("e", REPLY)
    assert [name for name in "abcde" if cache.get(name)] == ["b", "d", "e"]


def test_a_damaged_file_is_set_aside(path: Path) -> None:
    path.parent.mkdir()
    for damage in (b"no database" * 100, b"SQLite format 3\0" * 99):
        path.write_bytes(damage)
        cache = ReplyCache(path)
        assert cache.get("k") is None
        assert "damaged" in (cache.problem or "")
        assert path.with_name("answers.sqlite.broken").read_bytes() == damage
        cache.put("k", REPLY)
        assert cache.get("k") == REPLY
    # damaged in the middle
    for number in range(60):
        cache.put(str(number), REPLY._replace(text="x" * 500))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    chat = Counting(REPLY, REPLY)
    assert cached(chat, cache).ask(REQUEST) == REPLY
    assert cache.problem
    assert cached(chat, cache).ask(REQUEST).text == REPLY.text


def test_a_locked_cache_is_skipped_after_a_short_wait(path: Path, monkeypatch) -> None:
    monkeypatch.setattr("keet.agent.open_model._PATIENCE_S", 0.01)
    cache = ReplyCache(path)
    cache.put("k", REPLY)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert cached(Counting(REPLY), cache).ask(REQUEST) == REPLY
        assert "locked" in (cache.problem or "")
        other.rollback()
    assert ReplyCache(path).get("k") == REPLY


def test_a_read_only_cache_is_still_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root ignores file permissions, so the connection is opened read-only."""
    ReplyCache(path).put("k", REPLY)
    real = sqlite3.connect
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda p, **k: real(p, **k) if "uri" in k else real(f"file:{p}?mode=ro", uri=True, **k),
    )
    cache = ReplyCache(path)
    cache.put("new", REPLY)
    assert "readonly" in (cache.problem or "")
    assert cache.get("k") == REPLY


def test_an_unwritable_cache_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = ReplyCache(tmp_path / "file" / "answers.sqlite")
    assert cached(Counting(REPLY), cache).ask(REQUEST) == REPLY
    assert "KEET_CACHE" in (cache.problem or "")


@pytest.mark.slow
def test_several_processes_at_once(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from keet.agent import open_model\n"
        "from keet.agent.model.messages import ChatReply, TokenCount\n"
        "open_model._PATIENCE_S, c = 20, open_model.ReplyCache(Path(sys.argv[1]))\n"
        "for n in range(15): c.put(f'{sys.argv[2]}-{n}', ChatReply('x', (), TokenCount(1, 1)))\n"
        "sys.exit(c.problem)"
    )
    command = [sys.executable, "-c", code, str(path)]
    runs = [subprocess.Popen([*command, name]) for name in "abc"]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert all(ReplyCache(path).get(f"{name}-14") for name in "abc")
