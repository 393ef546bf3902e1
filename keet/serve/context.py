"""The tool `context`: one launch explained within a number of tokens."""

from __future__ import annotations

from keet.errors import one_line
from keet.serve.arguments import ContextArguments
from keet.serve.name_patterns import longest_in, selected_launches
from keet.serve.report_cache import ReportCache
from keet.serve.results import ContextToolResult
from keet.serve.tool_call import ToolCall
from keet.serve.tool_reply import ToolReply

_CAUSES = 5
"""Findings that `keet context` has room for."""


def context(cache: ReportCache, asked: ContextArguments, call: ToolCall) -> ToolReply:
    from keet.explanation.capture_hints import caution_about
    from keet.pages.context import context_text

    with cache.reading(asked.report, call, source=asked.source) as report:
        launches = selected_launches(report.profile, asked.launch, asked.kernel)
        launch = longest_in(report.profile, launches)
        explanation = report.explained([launch], _CAUSES, call)
        text = context_text(explanation, asked.max_tokens, of=len(launches))
        command = explanation.capture_hints.command
        caution = caution_about(command) if one_line(command or "") in text else None
        result = ContextToolResult(
            report=report.name,
            launch=launch.id,
            kernel=launch.kernel,
            chosen_from=len(launches),
            context=text,
            notes=[caution] if caution else [],
        )
        return ToolReply(result, text)
