"""Texts by anyone against real reports: what is right is confirmed, what is wrong never is."""

import re
from pathlib import Path

import pytest

from keet.catalog import metrics, synonyms
from keet.profile import Profile
from keet.report import read_profile
from keet.verification.metric_names import find_terms
from keet.verification.verdicts import CheckedNumber
from keet.verification.verify import verify_text
from kernels_samples.samples import report_of
from tests.conftest import CORPUS, needs_corpus
from tests.long_texts import CLAIMS, repeated
from tests.rows import each_row

SAMPLES = Path(__file__).parents[3] / "kernels_samples"


def checks(text: str, profile: Profile) -> list[CheckedNumber]:
    return [check for found in verify_text(text, profile.launches) for check in found.checks]


def verdicts(text: str, profile: Profile) -> list[str]:
    return [check.verdict for check in checks(text, profile)]


RIGHT = [
    "transpose_rows takes 69.34 us and transpose_tiles<float, 32> 12.26 us.",
    "transpose_rows and transpose_tiles take 69.34 us and 12.26 us.",
    "It takes 69.34 us for transpose_rows and 12.26 us for transpose_tiles.",
    "Launch 0 reaches 76.6 % of the L2 throughput, while DRAM idles at 5.9 %.",
    "In launch 0 the L1 and L2 hit rates are 66.3 % and 89.9 %, respectively.",
    "transpose_rows: L2 89.92 % hit rate, 0.8992 hit rate in L2.",
    "#0 runs for 0.0693 ms with 5.9% DRAM throughput and 76.6% L2 throughput.",
    "Launch 0 has an L2 miss rate of 10.1 %.",
    "transpose_rows uses 16 registers per thread and 15.5 waves per SM.",
    "transpose_rows needs 16 registers and runs 16,384 blocks of 256 threads.",
    "The grid of transpose_rows is 64x256 and its block is (32, 8, 1).",
    "transpose_tiles uses 4.22 kB, or 4.125 KB, of shared memory per block.",
    "transpose_rows moves 284.2 GB/s of memory throughput, its memory throughput is 76.6 %.",
    "transpose_rows has an achieved occupancy of 71.6 %, of a theoretical occupancy of 100 %.",
    "gpu__time_duration.sum of launch 1 is 12,256 ns.",
    "`lts__t_sector_hit_rate.pct` of launch 0 is 89.9.",
    "transpose_rows is 5.66x slower than transpose_tiles.",
    "transpose_tiles is 5.7 times faster than transpose_rows.",
    "transpose_rows takes 57.1 us longer than transpose_tiles.",
    "transpose_rows takes 69.34 us, more than 60 us.",
    "All launches take 96.3 us in all, of which transpose_rows takes 72 % of the time.",
    "| Duration | us | 69.34 |",
    "#0 transpose_rows\n\nDuration  us  69.34\nL2 Hit Rate  %  89.92\nMemory Throughput  Gbyte/s  284.2",
    "Issue slots of transpose_rows are busy for 4.2 %; no eligible warp in 95.6 % of cycles.",
    "transpose_rows has 11.58 active warps per scheduler, of which 0.07 warps are eligible.",
    "Launch 0 has an L2 hit rate of ninety percent.",
    "transpose_tiles is 5.66 times as fast as transpose_rows.",
    "DRAM busy of transpose_rows is 5.9 %.",
    "In launch 0, L2 is under 80 % of its peak.",
]

WRONG = {
    "milliseconds for microseconds": "transpose_rows takes 69.34 ms.",
    "seconds for microseconds": "transpose_rows takes 69.34 s.",
    "another launch's": "transpose_rows takes 12.26 us.",
    "another launch's, by number": "In launch 1 the duration is 69.34 us.",
    "another launch's, by it": "transpose_rows is slow. It takes 12.26 us.",
    "two launches swapped": "transpose_rows and transpose_tiles take 12.26 us and 69.34 us.",
    "two metrics swapped": "In launch 0 L2 throughput is 5.9 % and DRAM throughput is 76.6 %.",
    "a list swapped": "In launch 0 the L1 and L2 hit rates are 89.9 % and 66.3 %.",
    "L2's for DRAM's": "DRAM throughput of transpose_rows is 76.6 %.",
    "the part's": "In transpose_rows DRAM is at 76.6 % of its peak.",
    "a thousand times": "transpose_rows has a memory throughput of 284.2 MB/s.",
    "a thousandth": "transpose_rows executes in 69.34 ns.",
    "a fraction as per cent": "The L2 hit rate of transpose_rows is 0.9 %.",
    "a hundredfold": "The L2 hit rate of transpose_rows is 8992 %.",
    "rounded up": "transpose_rows takes 70 us.",
    "rounded too far": "The L2 hit rate of transpose_rows is 91 %.",
    "one digit off": "transpose_rows takes 69.35 us.",
    "a wrong unit": "The achieved occupancy of transpose_rows is 71.62 us.",
    "an invented counter": "sm__imagined_rate.avg of launch 0 is 45.",
    "hit for miss": "Launch 0 has an L2 miss rate of 89.9 %.",
    "achieved for theoretical": "The theoretical occupancy of transpose_rows is 71.6 %.",
    "registers": "transpose_rows uses 24 registers per thread.",
    "a grid": "The grid of transpose_rows is 64x64.",
    "the other way round": "transpose_rows is 5.66x faster than transpose_tiles.",
    "a multiple": "transpose_rows is 7.2x slower than transpose_tiles.",
    "a difference": "transpose_rows takes 67.1 us longer than transpose_tiles.",
    "a bound": "transpose_rows takes less than 60 us.",
    "a number in words": "Launch 0 has an L2 hit rate of ninety-one percent.",
    "a multiple in words": "transpose_tiles is ten times faster than transpose_rows.",
    "shared memory": "transpose_tiles uses 8.4 kB of shared memory per block.",
}

UNKNOWN = [
    "In launch 0 the warp entropy is 45.2 %.",
    "Launch 0 has an L3 hit rate of 89.9 %.", "There are 17 reasons.",
    "With tiling, transpose_rows would take 12 us.",
    "transpose_rows could reach an occupancy of 95 %.", "A warp has 32 threads.", "It takes 69.34.",
    "With that mended it runs ten times faster.",
    "With that mended it runs at twice the speed.",
    "With that mended it runs in half the time.",
    "Barrier share of warp cycles 53.12 %, in the words of Nsight Compute.",
]  # fmt: skip


VERDICTS = {"confirmed": RIGHT, "contradicted": WRONG.values(), "not_found": UNKNOWN}


@each_row(("verdict", "text"), [(v, text) for v, texts in VERDICTS.items() for text in texts])
def test_verdicts(verdict: str, text: str, tour: Profile) -> None:
    found = checks(text, tour)
    assert found
    assert [(c.number.text, c.reason) for c in found if c.verdict != verdict] == []


@each_row(("text", "reason"), [
    ("transpose_rows takes 69.34 ms.", "Duration of #0 is 69.34 us; wrong by a factor of 1,000"),
    ("transpose_rows takes 12.26 us.", "12.26 us is the value of launch 1"),
    ("DRAM throughput of launch 0 is 76.6 %.", "76.6 % is "),
    ("transpose_rows takes 70 us.", "Duration of #0 is 69.34 us; rounded too far"),
    ("sm__imagined_rate.avg is 45.", "there is no metric sm__imagined_rate.avg"),
    ("Launch 0 has an L3 hit rate of 89.9 %.", "L2 Hit Rate has this value"),
    ("transpose_rows takes 12.26 us longer than transpose_tiles.", "is 57.09 us"),
])  # fmt: skip
def test_the_reason_says_what_is_right(text: str, reason: str, tour: Profile) -> None:
    (check,) = checks(text, tour)
    assert reason in check.reason


def of_sample(name: str) -> Profile:
    return read_profile(report_of(name))


@each_row(("sample", "text", "verdict"), [
    ("scan_rows", "Evidence: Barrier share of warp cycles 53.12 %\nNsight Compute agrees.",
     "confirmed"),
    ("sparse_apply", "Evidence: average over longest active SM 0.0771;", "not_found"),
    ("score_tiles", "shared wavefronts lost to bank conflicts 59.58 %", "not_found"),
    ("score_tiles", "There are 210,181,342 bank conflicts in shared memory.", "confirmed"),
    ("score_tiles", "There are 210,181,343 bank conflicts in shared memory.", "contradicted"),
    ("tap_filter", "L1 data stage (LSU) busy 98.72 %", "confirmed"),
    ("tap_filter", "L1 data stage (LSU) busy 98.62 %", "contradicted"),
    ("gas_state", "Where: state_math.h:34 (30% of the samples)", "confirmed"),
    ("gas_state", "Where: cmath:1073 (12% of the samples)", "confirmed"),
    ("gas_state", "Where: cmath:1073 (13% of the samples)", "contradicted"),
    ("xs_lookup", "L1 is at less than 17 % of its peak.", "not_found"),
    ("xs_lookup", "L1/TEX cache (active cycles) busy is less than 17 %.", "contradicted"),
    ("xs_lookup", "L1/TEX cache (active cycles) busy is less than 30 %.", "confirmed"),
])  # fmt: skip
def test_words_of_keet(sample: str, text: str, verdict: str) -> None:
    assert verdicts(text, of_sample(sample)) == [verdict]


def test_a_page_of_ncu() -> None:
    """It prints a ratio with a percent sign, and averages under the name of what they are of."""
    text = "Branch Instructions Ratio           %         0.04"
    assert verdicts(text, of_sample("band_scale")) == ["confirmed"]
    assert verdicts(text.replace("0.04", "0.05"), of_sample("band_scale")) == ["contradicted"]
    text = "Avg. Executed Instructions Per Scheduler        inst    25,817.21"
    assert verdicts(text, of_sample("band_scale")) == ["not_found"]


def test_which_launch_is_meant(tour: Profile, profile_of, wording) -> None:
    text = "transpose_rows is slow. It reads L2, and so does #1 transpose_tiles. Its L2 hit rate is"
    assert verdicts(f"{text} 89.92 %.", tour) == ["confirmed"]
    (check,) = checks("The L2 hit rate is 89.9 %.", profile_of("metrics_only.ncu-repz"))
    assert check.verdict == "not_found"
    wording(check.reason)
    (found,) = verify_text("It takes 12.26 us.", tour.launches[:1], tour.launches)
    (check,) = found.checks
    assert check.verdict == "contradicted"
    assert "value of launch 1" in check.reason


@each_row("text", ["It moves 5 GB of DRAM traffic.", "Shared memory throughput is 40 %."])
def test_what_keet_computes_may_be_missing(text: str, profile_of) -> None:
    """The names have no row in the catalog."""
    assert verdicts(text, profile_of("graph.ncu-repz")) == ["not_found"]


def test_prose_written_without_keet() -> None:
    """Written before the code was tried on it; what was wrong then is held here."""
    profile = of_sample("panel_product")
    right = (
        "The dense_layer kernel spends 560 us, and its tensor cores are active 38.5% of the time. "
        "It has 174 registers/thread together with 48 KB of static shared memory. "
        "DRAM bandwidth is 241.4 GB/s, i.e. 5.0% of peak, and L2 sits at 18%. "
        "Most accesses hit L2 (89.3%), hardly any hit L1 (6.7%). "
        "Global loads need 15.7 sectors per request. 75.7 MB were fetched from DRAM."
    )
    assert set(verdicts(right, profile)) == {"confirmed"}
    for wrong in (
        "Global loads take 8 sectors per request.",
        "It runs 32x32 threads in each block.",
        "No eligible warp is available in 12% of the cycles.",
        "The kernel reaches 38.7% of DRAM bandwidth.",
        "slow.cu:152 alone is responsible for 39.4% of all samples.",
    ):
        assert verdicts(wrong, profile) == ["contradicted"], wrong


def test_source_lines(wording) -> None:
    profile = of_sample("column_physics")
    right = (
        "slow.cu:95 has 14.4 % of the samples and 19 samples, all on Long Scoreboard. "
        "19.7 % of the samples are at slow.cu:110; 96 % of these wait for Long Scoreboard. "
        "Line 95 takes 14.4 %."
    )
    assert set(verdicts(right, profile)) == {"confirmed"}
    (check,) = checks("slow.cu:96 has 14.4 % of the samples.", profile)
    assert check.verdict == "contradicted"
    wording(check.reason)
    assert verdicts("slow.cu:1 has 21.8 % of the samples.", profile) == ["contradicted"]


TEMPLATES = {
    "duration": "The kernel takes {}.",
    "dram_throughput_pct": "DRAM throughput reaches {} of its peak.",
    "l2_throughput_pct": "The L2 throughput is {}.",
    "l2_hit_rate_pct": "With {} L2 hit rate, little is left.",
    "l1_hit_rate_pct": "Its L1 hit rate ({}) is what it is.",
    "achieved_occupancy_pct": "Achieved occupancy: {}.",
    "theoretical_occupancy_pct": "It could be more, as the theoretical occupancy is {}.",
    "registers_per_thread": "It uses {}.",
    "no_eligible_pct": "In {} of cycles there is no eligible warp.",
    "dram_bytes_read": "{} are read from DRAM.",
    "inst_executed_total": "Executed instructions number {}.",
    "warp_cycles_per_issued_inst": "Warp cycles per issued instruction stand at {}.",
    "sm_frequency": "At an SM frequency of {}, that is slow.",
    "memory_throughput_pct": "Memory throughput is {}.",
    "eligible_warps_per_scheduler": "{} were eligible: eligible warps per scheduler are few.",
}


@each_row(
    "path", sorted(SAMPLES.glob("*/slow.ncu-rep*"))[::2], ids=lambda path: path.parent.name, few=3
)
def test_true_and_false_texts_about_samples(path: Path) -> None:
    """The values as keet writes them, and the same with a lie."""
    profile = read_profile(path)
    (launch, *_) = profile.launches
    told = 0
    for metric_id, template in TEMPLATES.items():
        quantity = launch.get(metric_id)
        if quantity is None or not quantity.value > 0:
            continue
        number, unit = quantity.parts()
        lie = f"{float(number.replace(',', '')) * 1.37:.6g}"
        for written, verdict in ((number, "confirmed"), (lie, "contradicted")):
            text = f"About launch {launch.id}:\n\n" + template.format(f"{written} {unit}")
            assert verdicts(text, profile) == [verdict], text
        told += 1
    assert told >= 12


@needs_corpus
@pytest.mark.slow
def test_what_nvidia_says_of_a_launch_is_never_contradicted() -> None:
    """Their texts are about the same numbers, in words of their own, without the links in it."""
    confirmed = 0
    for path in (*sorted(CORPUS.glob("*.ncu-rep")), *sorted(SAMPLES.glob("*/slow.ncu-rep*"))[::3]):
        for launch in read_profile(path).launches[:2]:
            for rule in launch.rules:
                text = re.sub(r"@\w+:([^@]*?):[^@]*@", r"\1", rule.message)
                for found in verify_text(text, [launch]):
                    told = [check.verdict for check in found.checks]
                    assert "contradicted" not in told, found.sentence.text
                    confirmed += told.count("confirmed")
    assert confirmed > 150


@each_row("piece", CLAIMS, few=2)
def test_long_texts_are_verified(piece: str, tour: Profile) -> None:
    """How long that takes, and how it grows with the text, `make bench` tells."""
    assert verify_text(repeated(piece, 1500), tour.launches) is not None


def test_synonyms_name_existing_metrics_and_are_unique() -> None:
    computed = {"time_share", "l1_over_elapsed"}
    computed |= {f"roofline:{level}" for level in ("dram", "l2", "l1", "shared", "fp64")}
    phrases = [phrase for synonym in synonyms().values() for phrase in synonym.phrases]
    assert len(phrases) == len(set(phrases))
    for synonym in synonyms().values():
        assert set(synonym.metrics) <= {*metrics(), *computed}


@each_row(("text", "names"), [
    ("the L1 and L2 hit rates", ["L1", "L2 hit rates"]),
    ("Compute (SM) Throughput", ["Compute (SM) Throughput"]),
    ("long-scoreboard stalls and barrier stalls", ["long-scoreboard stalls", "barrier stalls"]),
    ("the L3 hit rate", []),
    ("requests to L2 go far", []),
    ("L2's throughput", ["L2's throughput"]),
    ("dram_throughput_pct", ["dram_throughput_pct"]),
])  # fmt: skip
def test_terms(text: str, names: list[str]) -> None:
    assert [text[term.start : term.end] for term in find_terms(text)] == names
