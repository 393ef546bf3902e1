"""Words that state or compare amounts, and names with digits that do not."""

from __future__ import annotations

import re

_SMALL = "two|three|four|five|six|seven|eight|nine|ten"
_TEENS = "eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|fou?rty|fifty|sixty|seventy|eighty|ninety"
_COUNTED = rf"(?:{_SMALL}|{_TEENS})"
_RUN = (
    r"warps?|schedulers?|SMs?|SMSPs?|GPUs?|blocks?|waves?|launches|registers?|cycles?|clocks?|bytes?|"
    r"[kMGT]i?B|sectors?|requests?|wavefronts?|transactions?|samples?|instructions?|conflicts?|"
    r"(?:micro|milli|nano)?seconds?|[mun]s|hits|misses|spills?|atomics|iterations?|entries|"
    r"active|inactive|idle|eligible|resident|stalled|busy|more|fewer|less|faster|slower|"
    r"ways?|cache lines?|pipes?|units?|slices?|"
    r"threads? (?:of|in|per) (?:an?|each|the) warp"
)
"""What a report measures: a count of these is a number of the run, not of the code."""
_AMOUNT = "IPC|occupancy|rate|ratio|factor|speed-?up|throughput|latency|bandwidth|utili[sz]ation"
COUNT = re.compile(
    rf"(?<!power of )(?<!powers of )\b(?:(?:{_TENS})\w*(?:-\w+)?|(?:{_TEENS})\b|"
    rf"(?:{_SMALL})(?:(?:[- ](?!per\b|and\b|in\b)\w+){{0,2}}[- ](?:{_RUN})\b|"
    rf"(?<!\bthe \w{{3}})(?<!\bthe \w{{4}})(?<!\bthe \w{{5}})(?=\s*(?:[.,;:!?)]|$)))|"
    rf"(?:{_AMOUNT})(?: \w+){{1,2}} (?:{_SMALL})\b)"
    r"(?! (?:times|percent|per cent|thirds|fifths|tenths)\b)",
    re.IGNORECASE,
)
"""`thirty-one`, `two warps`, `is four.`: allowed in proposals only. Counts of other things are of
the code: "two loads", "in two steps", "one of the two"."""
RATIO = re.compile(
    r"\b(?:"
    rf"(?:{_COUNTED}|{_TENS}|many|several) times|(?:{_COUNTED}|{_TENS}) to one|"
    r"hundred\w*|thousand\w*|(?:m|b|tr)illion\w*|dozen\w*|per ?cents?|"
    r"(?:twice|thrice)(?=[\s+*-]+(?:the|that|as|its|more|over)\b|\s*$)|"
    r"percentages?|"
    r"per ?mille?|percentiles?|quartiles?|deciles?|"
    rf"(?:{_COUNTED}|{_TENS}|hundred|thousand|many|several|\w+-)fold|"
    r"(?<!\bare )(?<!\bas )(?<!\bin )(?<!\bof )(?<!\bto )doubl(?:es|ed|ing)(?![- ]buffer)|"
    r"double (?:the|that|of|its|as|speed|throughput|performance)|"
    r"trebl\w+|tripl\w+|quadrupl\w+|quintupl\w+|sextupl\w+|"
    r"halv(?:es|ed|e|ing)(?= (?:\w+ ){0,3}(?:time|duration|traffic|bytes|sectors|requests|"
    r"instructions|cycles|latency|occupancy|work)\b)|"
    r"(?<!first )(?<!second )(?<!upper )(?<!lower )(?<!left )(?<!right )(?<!other )(?<!each )"
    r"half(?![- ](?:precision|warps?|floats?|type))|"
    r"quarters?|thirds|fifths|sixths|eighths|ninths|tenths|\w+(?:ieth|dth|nth)s|"
    r"(?:one|a|an|by|last)[ -](?:third|fifth|tenth)(?= of\b|[^\w ]|$)|"
    r"(?:third|fifth|tenth) of (?:the|all|its)|"
    r"(?:twent|thirt|fort|fift|sixt|sevent|eight|ninet)ie(?:s|th)|"
    r"(?:single|double|triple|two|three)[- ]digits?|"
    r"every (?:second|third|fourth|fifth|tenth)|one (?:in|out of) (?:every|an?)|"
    r"one (?:\w+ )?(?:warp|block|instruction|sector|request) per (?:scheduler|SM|cycle|request)|"
    r"orders? of magnitude|\d+x)\b|"
    r"(?:\d[\d.,]{0,12}\s?)?[%‰‱]",
    re.IGNORECASE,
)
"""Numbers that are never list numbers."""
ROMAN = re.compile(
    r"\b(?!(?:CC|CI|CD|CL|CM|DC|DI|DL|LC|MC|MD|MI|MIX|MM|XL|DM|ID)\b)(?=[MDCLXVI]{2,}\b)"
    r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?<=\w)\b"
)
ENGLISH = re.compile(
    r"\b(?:the|a|an|is|are|of|at|in|on|to|and|by|for|with|it|that|this|each|not|be|from|its|which|has|have|but|"
    r"only|than|while|because|every|both|into|instead|where|when|how|there|one|as|so|no|all|or|if|do|does|"
    r"per|would|could|can|will|their|them|these|more|most|then|after|before|between|through|without)\b",
    re.IGNORECASE,
)
COMPARED = re.compile(
    r"\bthan\b|\bexceed\w*|\boutweigh\w*|\bsurpass\w*|"
    r"\bdominat\w+|\boutnumber\w*|\bdwarf\w*|\boutstrip\w*|\boutpac\w*|\beclips\w*|\bovershadow\w*|\brivals\b|"
    r"\b(?:on|at) (?:a )?par with\b|\blags? behind\b|\btrails?\b|\bahead of\b|"
    r"\bas (?:much|many|busy|high|large|long|often|low|little|few)(?: \w+)? as\b|"
    r"\b(?:is|are|was|were|stays?|remains?|runs?|sits?)(?: \w+){0,2} "
    r"(?:busier|higher|lower|larger|smaller|greater|"
    r"(?:more|less) (?:busy|loaded|used|utili[sz]ed))\b|"
    r"\b(?:above|below|under|over|beyond) (?:that|those|its|the)\b[^.{}]{0,20}\{\}|"
    r"\bequals\b|\bequal to\b|\bthe same as\b|\bthe same (?:number|amount|share) of\b",
    re.IGNORECASE,
)
NO_COMPARISON = re.compile(
    r"\b(?:rather|other|further|later|earlier|either|whether|no (?:more|fewer|less)) than\b|"
    r"\b(?:is|are) (?:larger|bigger|wider|longer|smaller|shorter) than (?:a|an|one|the) "
    r"(?:cache line|line|sector|word|warp|tile|row|column|page|cache|L1|L2|array)\b",
    re.I,
)
"""The second: sizes of the code, against those of the hardware."""
MEASURED = re.compile(
    r"\{\}|\b(?:DRAM|L1|L2|HBM|LSU|FMA|ALU|XU|FP16|FP32|FP64|tensor|issue slots?|hit rate|"
    r"occupancy|stall\w*|samples?|sectors?|wavefronts?|traffic|bandwidth|throughput|registers?|latency|"
    r"cycles?|instructions?|bytes?|utili[sz]ation|busy|busier|time|duration|conflicts?|loads?|stores?|"
    r"requests?|pipes?|units?|barriers?|queues?|crossbar|work)\b",
    re.IGNORECASE,
)
"""Amounts that a report measures: comparing them is a claim about numbers."""
FASTER = re.compile(
    r"\{\}\s?x?\b[^.{}]{0,12}\b(?:faster|quicker|speed-?ups?)\b|"
    r"\b(?:speed-?ups?|faster|quicker)\b[^.{}]{0,25}\{\}",
    re.IGNORECASE,
)
"""An amount next to the word."""
SPEED = re.compile(
    r"\bspeed-?ups?\b|\b(?:fast|quick|slow)(?:er)?\b|\bspeed\b|\bperformance\b|\brun ?-?times?\b",
    re.IGNORECASE,
)
"""Speed-ups: only keet forecasts them."""
