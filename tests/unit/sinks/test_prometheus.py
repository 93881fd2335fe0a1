import asyncio

from tests.unit.server.made_run import MadeRun
from trackside.sinks.prometheus import escape_label, format_value, take_scrape
from trackside.wire.documents import Diagnosis, Verdict


def write_metrics(run: MadeRun, wall: float) -> str:
    return asyncio.run(take_scrape(run, wall)).text()


def test_every_last_value_with_its_rank_host_and_run():
    text = write_metrics(MadeRun(), 2000.0)
    assert 'trackside_metric{run="run-a",host="node-a",rank="0",name="loss"} 0.5\n' in text
    assert 'trackside_metric{run="run-a",host="node-b",rank="1",name="a\\"b\\\\c\\nd"} NaN\n' in text
    assert 'trackside_up{run="run-a",name="<b>tiny</b>"} 1.0\n' in text
    assert 'trackside_rank_state{run="run-a",host="node-a",rank="0",state="alive"} 1.0\n' in text
    assert 'trackside_rank_state{run="run-a",host="node-a",rank="0",state="lost"} 0.0\n' in text


def test_d89_the_last_sign_of_life_is_a_timestamp():
    text = write_metrics(MadeRun(), 2000.0)
    assert 'trackside_rank_seen_timestamp_seconds{run="run-a",host="node-a",rank="0"} 1999.5\n' in text


def test_b13_what_is_unknown_is_left_out():
    text = write_metrics(MadeRun(), 2000.0)
    assert "trackside_run_epoch" not in text
    assert "None" not in text


def test_a_verdict_is_there_while_it_holds():
    run = MadeRun()
    held = Verdict(id=1, kind="straggler", text="rank 1 is behind", path="root/node-b/rank1", rank=1, phase="forward")
    over = Verdict(id=2, kind="imbalance", text="", path="root/node-a/rank0", rank=0, active=False)
    run.change(diagnosis=Diagnosis(steps=64, step_seconds=0.1, bound=None, bound_text="", verdicts=[held, over]))
    (line,) = [line for line in write_metrics(run, 2000.0).splitlines() if line.startswith("trackside_verdict{")]
    assert 'kind="straggler",path="root/node-b/rank1",rank="1",phase="forward"} 1.0' in line
    assert "trackside_verdict" not in write_metrics(MadeRun(), 2000.0)


def test_the_format_is_kept():
    lines = write_metrics(MadeRun(), 2000.0).split("\n")
    assert lines[-1] == ""
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    for line in lines[:-1]:
        assert line.startswith("#") or line.rpartition(" ")[0].endswith("}")


def test_numbers_and_labels():
    assert [format_value(v) for v in (1, 0.1, float("inf"), float("-inf"), float("nan"))] == [
        "1.0", "0.1", "+Inf", "-Inf", "NaN",
    ]  # fmt: skip
    assert escape_label('a\\b"c\nd') == 'a\\\\b\\"c\\nd'
