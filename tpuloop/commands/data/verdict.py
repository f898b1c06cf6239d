"""Whether a step waits for its data, for which stage of the pipeline, and what helps. Pure."""

import dataclasses
from typing import Sequence

# Of a step's time; as TensorFlow Profiler judges them.
_SOMEWHAT, _HIGHLY = 0.05, 0.20

READ, PARSE, BATCH, TO_DEVICE = "read", "parse", "batch", "to device"

_CACHE = "Keep what fits in memory (source.cached(), or the field cache of --data=records)"

PACKED, RECORDS, MEMORY, DATASET = "packed", "records", "memory", "dataset"


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of a pipeline, with all before it.

    Attributes:
      name: of the stage.
      examples_per_second: that come out of it.
      bytes_per_example: of what comes out of it.
    """

    name: str
    examples_per_second: float
    bytes_per_example: float

    @property
    def megabytes_per_second(self) -> float:
        """That come out of it; a megabyte is 10**6 bytes."""
        return self.examples_per_second * self.bytes_per_example / 1e6


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How data and step fit together.

    Attributes:
      waiting: the share of a step's time that it waits for data, from 0 to 1.
      judgement: "not", "somewhat" or "highly" input-bound.
      bottleneck: the stage that takes longest.
      share: of the pipeline's time, what that stage takes.
      sentence: for people.
    """

    waiting: float
    judgement: str
    bottleneck: str
    share: float
    sentence: str


def verdict(stages: Sequence[Stage], *, wanted: float, stored: str) -> Verdict:
    """Judges a pipeline.

    Args:
      stages: from the first to the last, which hands batches to the step.
      wanted: the examples a second that the step takes if it never waits.
      stored: what is read: PACKED or other RECORDS, arrays in MEMORY, or a DATASET of which nothing is known.
    """
    supplied = stages[-1].examples_per_second
    waiting = max(0.0, 1 - supplied / wanted)
    judgement = "not" if waiting < _SOMEWHAT else "somewhat" if waiting <= _HIGHLY else "highly"
    # A stage's own time for an example: what it adds to those before it, which it cannot be quicker than.
    totals = [1 / stage.examples_per_second for stage in stages]
    own = [max(0.0, total - before) for total, before in zip(totals, [0.0, *totals])]
    slowest = max(range(len(stages)), key=own.__getitem__)
    name, share = stages[slowest].name, own[slowest] / sum(own)
    if judgement == "not":
        more = supplied / wanted
        fits = f"the data comes {more:.1f} times as fast as the step takes it" if more > 1 else "the data keeps up"
        sentence = f"Not input-bound: {fits}; of the pipeline's time, {share:.0%} goes to the stage {name!r}."
    else:
        sentence = (
            f"{judgement.capitalize()} input-bound: the step waits for data {waiting:.0%} of its time; of the "
            f"pipeline's time, {share:.0%} goes to the stage {name!r}. {_remedy(name, stored)}"
        )
    return Verdict(waiting, judgement, name, share, sentence)


def _remedy(stage: str, stored: str) -> str:
    if stage == READ:
        return {
            PACKED: f"{_CACHE}, bring the files nearer (a bucket in the same region, a local disk), or use more hosts.",
            RECORDS: f"Pack many examples into a record (tpuloop data convert), or {_CACHE[0].lower()}{_CACHE[1:]}.",
            MEMORY: "Use a larger batch, since what picks examples costs the same for each.",
            DATASET: "Give the dataset's own stages num_parallel_calls=tf.data.AUTOTUNE.",
        }[stored]
    if stage == PARSE:
        return "Store what needs no parsing: tpuloop data convert packs examples of fixed shapes."
    if stage == BATCH:
        if stored == DATASET:
            return (
                "Give its map and interleave num_parallel_calls=tf.data.AUTOTUNE, or store the examples packed: "
                "tpuloop data convert."
            )
        return "Use a larger batch, or hold smaller types (uint8 rather than float32) in an example."
    if stage == TO_DEVICE:
        return "Send fewer bytes (uint8 or bfloat16 rather than float32) and convert them in the step."
    return (
        f"Make {stage!r} cheaper: store its result, do it in the step on the accelerator, or give the host more cores."
    )
