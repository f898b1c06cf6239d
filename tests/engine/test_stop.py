"""A request to stop is never lost, whenever it comes."""

import pytest

from tpuloop.engine.stop import StopFlag


class Limit:
    """In place of the variable: lets a request come just before or just after an assignment."""

    def __init__(self, come_before=None, come_after=None):
        self.value = None
        self._before, self._after = come_before, come_after

    def assign(self, value):
        before, self._before = self._before, None
        if before:
            before()
        self.value = value
        after, self._after = self._after, None
        if after:
            after()


def test_a_call_may_go_on_to_its_limit():
    stop = StopFlag()
    stop.allow(7)
    assert int(stop.limit) == 7
    assert not stop.is_set()


def test_a_request_before_a_call_stands():
    stop = StopFlag()
    stop.set()
    stop.run_begins()
    stop.allow(7)
    assert int(stop.limit) == 0
    assert stop.is_set()


def test_a_request_during_a_call_ends_it():
    stop = StopFlag()
    stop.allow(7)
    stop.set()
    assert int(stop.limit) == 0


@pytest.mark.parametrize("when", ["come_before", "come_after"])
def test_a_request_in_the_middle_of_a_start_is_not_overwritten(when):
    stop = StopFlag()
    stop.limit = Limit(**{when: stop.set})
    stop.allow(7)
    assert stop.limit.value == 0


def test_a_request_ends_with_its_run():
    stop = StopFlag()
    stop.set()
    stop.run_ended(stopped=True)
    assert (stop.ended_run, stop.is_set()) == (True, False)
    stop.run_begins()
    stop.allow(7)
    assert int(stop.limit) == 7
    stop.run_ended(stopped=False)
    assert not stop.ended_run


def test_a_request_that_comes_when_all_is_done_did_not_end_the_run():
    stop = StopFlag()
    stop.set()
    stop.run_ended(stopped=False)
    assert (stop.ended_run, stop.is_set()) == (False, False)


def test_an_evaluation_of_its_own_takes_its_requests_with_it():
    stop = StopFlag()
    stop.set()
    stop.forget_outside_runs()
    assert not stop.is_set()
    stop.run_begins()
    stop.set()
    stop.forget_outside_runs()
    assert stop.is_set()
