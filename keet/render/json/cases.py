"""`keet cases --format json`: the types of the document, and the code that fills it."""

from __future__ import annotations

import json

from keet.catalog.cases import CaseEntry
from keet.documents.cases import CaseDocument, CasesDocument


def case_document(entry: CaseEntry) -> CaseDocument:
    fields = entry._asdict()
    fields["steps"] = [step._asdict() for step in entry.steps] or None
    fields["moved"] = entry.moved._asdict()
    return CaseDocument(**fields)


def cases_json(entries: list[CaseEntry]) -> str:
    """Cases without steps have no key `steps`."""
    document = CasesDocument(cases=[case_document(entry) for entry in entries])
    content = document.to_dict()
    for case in content["cases"]:
        if case["steps"] is None:
            del case["steps"]
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
