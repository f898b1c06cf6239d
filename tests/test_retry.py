import pytest

from tpuloop.retry import ONCE, Retry


class Flaky:
    """Fails some times, then gives its number of calls."""

    def __init__(self, failures, error=OSError):
        self.failures, self.error, self.calls = failures, error, 0

    def __call__(self):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(f"try {self.calls}")
        return self.calls


def test_waits_grow_up_to_the_longest():
    retry = Retry(attempts=6, first_wait=1.0, factor=3.0, longest_wait=20.0)
    assert list(retry.waits()) == [1.0, 3.0, 9.0, 20.0, 20.0]


@pytest.mark.parametrize(("failures", "slept"), [(0, []), (1, [0.5]), (2, [0.5, 1.0])])
def test_sleeps_only_between_tries(failures, slept):
    sleeps, action = [], Flaky(failures)
    assert Retry(attempts=3).call(action, on=(OSError,), sleep=sleeps.append) == failures + 1
    assert sleeps == slept


def test_raises_the_last_error():
    sleeps, action = [], Flaky(9)
    with pytest.raises(OSError, match="try 3"):
        Retry(attempts=3).call(action, on=(OSError,), sleep=sleeps.append)
    assert sleeps == [0.5, 1.0]


def test_another_kind_of_error_is_not_tried_again():
    action = Flaky(1, error=KeyError)
    with pytest.raises(KeyError):
        Retry().call(action, on=(OSError,), sleep=pytest.fail)
    assert action.calls == 1


def test_once():
    action = Flaky(1)
    with pytest.raises(OSError):
        ONCE.call(action, on=(OSError,), sleep=pytest.fail)
