"""A stream behind which nothing takes anything keeps nobody waiting."""

import io
import threading

import pytest

from trackside.sinks import patient
from trackside.sinks.patient import PatientStream

pytestmark = pytest.mark.usefixtures("leak_check")


class Stuck(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.is_met = threading.Event()

    def write(self, text: str) -> int:
        self.is_met.set()
        self.goes_on.wait(30)
        return super().write(text)


def test_text_arrives_in_order_before_the_end() -> None:
    target = io.StringIO()
    with PatientStream(target) as stream:
        for number in range(100):
            print(number, file=stream)
    stream.write("after the end")
    assert target.getvalue() == "".join(f"{number}\n" for number in range(100))


def test_a_target_that_hangs_is_not_waited_for_and_what_was_dropped_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "MOST_PIECES", 3)
    monkeypatch.setattr(patient, "END_S", 0.05)
    target = Stuck()
    stream = PatientStream(target)
    stream.write("0 ")
    assert target.is_met.wait(10)
    for number in range(1, 6):
        stream.write(f"{number} ")
    stream.close()
    target.goes_on.set()
    stream._thread.join(10)
    assert target.getvalue() == "0 1 2 3 (2 pieces of text were dropped here while nobody took them)\n"


def test_a_target_that_is_gone_is_no_trouble() -> None:
    target = io.StringIO()
    stream = PatientStream(target)
    target.close()
    stream.write("lost")
    stream.close()
