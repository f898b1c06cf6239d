"""The order of records in files: worked out anew in plain Python, entered anywhere, shared by hosts."""

import os

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.data.shard import Shard

MASK = 2**64 - 1


def mixed(value):
    """SplitMix64."""
    value = (value + 1) * 0x9E3779B97F4A7C15 & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def key(seed, epoch, purpose):
    return mixed(epoch + mixed(mixed(seed) + purpose) & MASK)


def ranked(ranks):
    """The places of 64-bit numbers by their order as signed ones."""
    return sorted(range(len(ranks)), key=lambda place: ranks[place] - (ranks[place] >> 63 << 64))


class Order:
    """What `RecordOrder` promises, written down a second time."""

    WINDOWS, FILES = 2, 3

    def __init__(self, counts, *, per_record, window, seed=0, shuffle=True):
        self.seed, self.shuffle, self.per_record = seed, shuffle, per_record
        starts = np.cumsum([0, *counts]).tolist()
        # Full records of each file by the numbers of their examples; and the examples in short ones.
        self.files = [
            [list(range(at, at + per_record)) for at in range(start, start + count - per_record + 1, per_record)]
            for start, count in zip(starts, counts)
            if count
        ]
        self.short = [
            number
            for start, count in zip(starts, counts)
            for number in range(start + count // per_record * per_record, start + count)
        ]
        records = sum(map(len, self.files))
        most = max(1, min(records, records * per_record // 64)) if shuffle else 1
        self.lanes = max(lanes for lanes in (1, 2, 4, 8, 16) if lanes <= most)
        self.per_lane = records // self.lanes
        self.window = max(1, min(window // (self.lanes * per_record), self.per_lane))

    def epoch(self, epoch):
        """(what the windows hold, what the tail holds): a list of (lane, number) in order, and one of numbers."""
        ring = self._ring(epoch)
        lanes = [ring[lane * self.per_lane : (lane + 1) * self.per_lane] for lane in range(self.lanes)]
        main = []
        for window, start in enumerate(range(0, self.per_lane, self.window)):
            columns = []
            for lane, records in enumerate(lanes):
                examples = sum(records[start : start + self.window], [])
                columns.append([(lane, examples[place]) for place in self._order(epoch, window, lane, len(examples))])
            main += [pair for row in zip(*columns) for pair in row]
        tail = sum(ring[self.lanes * self.per_lane :], []) + self.short
        return main, [tail[place] for place in self._order(epoch, (2**63 - 1) // 2, 0, len(tail))]

    def ids(self, epochs):
        parts = [self.epoch(epoch) for epoch in range(epochs)]
        return [number for main, tail in parts for number in [*(number for _, number in main), *tail]]

    def _ring(self, epoch):
        if not self.shuffle:
            return sum(self.files, [])
        of_epoch = key(self.seed, epoch, self.FILES)
        ring = sum((self.files[f] for f in ranked([mixed(of_epoch ^ mixed(i)) for i in range(len(self.files))])), [])
        begin = (mixed(of_epoch) >> 1) % max(1, len(ring))
        return ring[begin:] + ring[:begin]

    def _order(self, epoch, window, lane, size):
        if not self.shuffle:
            return range(size)
        of_lane = mixed(mixed(key(self.seed, epoch, self.WINDOWS) + window & MASK) + lane & MASK)
        return ranked([mixed(of_lane + place & MASK) for place in range(size)])


# By name: examples in each file, in a record, and in a window.
SHAPES = {
    "many files of many lengths": ([105, 0, 1, 330, 90, 120, 44, 40, 440, 33, 20, 0, 170, 250], 4, 640),
    "one file": ([2003], 3, 960),
    "files of 0 and 1 examples": ([0, 1, 0, 1, 1, 0], 1, 100),
    "fewer records than lanes": ([8, 7, 4], 4, 1000),
    "short records only": ([3, 2, 3], 4, 1000),
    "one example": ([1], 4, 10),
    "one record an example, window larger than the data": ([400, 210, 1], 1, 10**6),
    "window smaller than a record of each lane": ([400] * 3 + [51], 2, 1),
    "no tail": ([512, 512], 2, 64),
}


def source_of(files, name, **options):
    counts, per_record, window = SHAPES[name]
    if per_record == 1:
        return files.records(counts, window=window, **options)
    return files.packed(counts, per_record=per_record, window=window, **options)


def order_of(name, **options):
    counts, per_record, window = SHAPES[name]
    return Order(counts, per_record=per_record, window=window, **options)


@pytest.mark.parametrize("name", SHAPES)
def test_three_epochs_are_permutations_in_the_promised_order(files, read_ids, name):
    source, epochs = source_of(files, name), 3
    size = sum(SHAPES[name][0])
    assert source.size == size and source.lanes == order_of(name).lanes
    ids = read_ids(source, epochs * size, batch_size=7 if size < 100 else 90)
    for epoch in range(epochs):
        assert sorted(ids[epoch * size : (epoch + 1) * size]) == list(range(size))
    assert ids == order_of(name).ids(epochs)


def test_the_order_of_one_small_data_set(files, read_ids):
    # A run that goes on with another version relies on these numbers.
    source = files.packed([5, 8, 3], per_record=2, window=8)
    assert read_ids(source, 32, batch_size=16, seed=5) == GOLDEN
    assert Order([5, 8, 3], per_record=2, window=8, seed=5).ids(2) == GOLDEN


GOLDEN = [
    *[11, 1, 13, 3, 12, 0, 2, 14, 5, 6, 10, 9, 7, 8, 15, 4],
    *[6, 10, 11, 12, 8, 7, 9, 5, 2, 0, 13, 1, 3, 14, 4, 15],
]


def test_without_shuffle_full_records_keep_the_stored_order(files, read_ids):
    name = "many files of many lengths"
    source, order = source_of(files, name, shuffle=False), order_of(name, shuffle=False)
    ids = read_ids(source, 2 * source.size, batch_size=90)
    assert ids == order.ids(2)
    short = set(order.short)
    assert [number for number in ids[: source.size] if number not in short] == sorted({*range(source.size)} - short)
    assert read_ids(source, 900, batch_size=30, position=1000) == order.ids(2)[1000:1900]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, places",
    [
        ("many files of many lengths", ["behind a window", "in the tail", "far"]),
        ("one record an example, window larger than the data", ["in a window", "behind the main part"]),
        ("short records only", ["in the tail"]),
    ],
)
def test_entering_anywhere_equals_the_unbroken_stream(files, read_ids, name, places):
    source, order = source_of(files, name), order_of(name, seed=3)
    size, window, main = source.size, order.lanes * order.window * order.per_record, len(order.epoch(0)[0])
    whole = order.ids(4)
    known = {
        "in a window": window - 3,
        "behind a window": window,
        "behind the main part": main,
        "in the tail": size - 1,
        "far": 2 * size + size // 2,
    }
    for place in places:
        position = known[place]
        got = read_ids(source, size, batch_size=5 if size < 100 else 50, seed=3, position=position)
        assert got == whole[position : position + size], place


@pytest.mark.parametrize(
    "step, hosts, those", [(0, 2, [0, 1]), (5, 4, [3]), (1, 3, [0, 2]), (2, 8, [5]), (0, 32, [31])]
)
def test_a_host_reads_its_rows_of_the_whole(files, read_ids, step, hosts, those):
    # The epochs of 1037 examples begin at another host each, and so with other lanes for each host.
    batch, steps = 768, 4
    source, whole = files.records([700, 337], window=320), Order([700, 337], per_record=1, window=320, seed=1).ids(8)
    for host in those:
        shard = Shard(host, hosts)
        got = read_ids(source, steps * batch, batch_size=batch, seed=1, position=step * batch, shard=shard)
        # Row r is row r // n of host r % n.
        assert got == whole[step * batch : (step + steps) * batch][host::hosts]


def test_two_hosts_of_packed_files(files, read_ids):
    name = "many files of many lengths"
    source, whole = source_of(files, name), order_of(name).ids(2)
    parts = [read_ids(source, 3000, batch_size=100, shard=Shard(host, 2)) for host in range(2)]
    assert np.stack(parts, axis=1).reshape([-1]).tolist() == whole[:3000]


def test_static_shapes_and_structure(files):
    source = files.packed([10, 7], per_record=4)
    (batch, origin) = source.numbered_batches(batch_size=6, seed=0, shard=Shard(1, 2)).element_spec
    expected = {
        "id": tf.TensorSpec([3], tf.int32),
        "twice": tf.TensorSpec([3, 2], tf.int64),
        "odd": tf.TensorSpec([3], tf.bool),
    }
    assert batch == source.batches(batch_size=6, seed=0, shard=Shard(1, 2)).element_spec == expected
    assert origin.numbers == origin.epochs == tf.TensorSpec([3], tf.int64)
    assert source.element_spec == {name: tf.TensorSpec(spec.shape[1:], spec.dtype) for name, spec in expected.items()}
    assert files.records([3]).batches(batch_size=2, seed=0).element_spec == tf.TensorSpec([2], tf.string)


@pytest.mark.parametrize("hosts, compression", [(1, ""), (2, "GZIP")])
def test_one_pass_is_the_stored_order_with_a_short_end(files, hosts, compression):
    source = files.records([5, 0, 1, 7], compression=compression)
    for host in range(hosts):
        batches = list(source.numbered_pass(batch_size=4, shard=Shard(host, hosts)))
        numbers = [origin.numbers.numpy().tolist() for _, origin in batches]
        assert numbers == [list(range(start, min(start + 4, 13)))[host::hosts] for start in (0, 4, 8, 12)]
        for rows, origin in batches:
            np.testing.assert_array_equal(rows.numpy().astype(int), origin.numbers)
            assert not np.any(origin.epochs)


def test_one_pass_of_packed_files(files):
    source = files.packed([5, 0, 8, 3, 1], per_record=4)
    ids = [batch["id"].numpy().tolist() for batch in source.one_pass(batch_size=6)]
    assert ids == [list(range(6)), list(range(6, 12)), list(range(12, 17))]


def test_orders_differ_by_seed_and_epoch(files, read_ids):
    source, seeds = files.records([30, 30, 30], window=45), (0, 1, 2**40, -1)
    orders = {seed: Order([30, 30, 30], per_record=1, window=45, seed=seed).ids(2) for seed in seeds}
    assert len({tuple(ids[start : start + 90]) for ids in orders.values() for start in (0, 90)}) == 8
    for seed in (2**40, -1):
        assert read_ids(source, 180, batch_size=90, seed=seed) == orders[seed]


def test_orders_keep_nothing_of_the_stored_one():
    # A correlation of random permutations has the standard deviation 1 / sqrt(n - 1). Of 40 epochs none is beyond 4.5
    # of it: not over all examples, nor over those of one file, nor for the places at which files come.
    counts = [64] * 32
    orders = Order(counts, per_record=1, window=10**6)
    for epoch in range(40):
        ids = np.array(orders.epoch(epoch)[0])[:, 1]
        assert abs(np.corrcoef(ids, np.arange(len(ids)))[0, 1]) < 4.5 / np.sqrt(len(ids) - 1)
        of_file = ids[ids // 64 == 7]
        assert abs(np.corrcoef(of_file, np.arange(64))[0, 1]) < 4.5 / np.sqrt(63)
    # Of little data, which lies in few lanes, of 64 examples at least: 1/64 more.
    for size in (16, 40, 100, 127, 128, 300):
        orders = Order([size], per_record=1, window=10**6)
        for epoch in range(20):
            ids = np.array(orders.epoch(epoch)[0])[:, 1]
            assert abs(np.corrcoef(ids, np.arange(len(ids)))[0, 1]) < 4.5 / np.sqrt(len(ids) - 1) + 1 / 64
    # In windows of a fourth of the data files come one behind the other, in an order of the epoch's own.
    orders = Order(counts, per_record=1, window=512)
    firsts, stays = np.zeros(32, int), []
    for epoch in range(40):
        ids = np.array(orders.epoch(epoch)[0])[:, 1]
        middle = [np.flatnonzero(ids // 64 == file).mean() for file in range(32)]
        stays.append(np.corrcoef(middle, np.arange(32))[0, 1])
        firsts[np.unique(ids[:512] // 64)] += 1
    assert np.max(np.abs(stays)) < 4.5 / np.sqrt(31) and abs(np.mean(stays)) < 4.5 / np.sqrt(31 * 40)
    assert firsts.min() >= 5  # Every file's examples are in the first window of some epochs.


def test_hosts_read_different_records(files, read_ids, flip_byte):
    hosts, counts, epoch = 4, [160] * 8, 1280  # All divides, so that there is no tail, which all would read.
    source = files.records(counts, window=640)
    main, tail = Order(counts, per_record=1, window=640).epoch(0)
    assert not tail
    for lane, number in main:
        if lane % hosts != 1:
            flip_byte(source.files[number // 160].path, number % 160)
    mine = read_ids(source, epoch, batch_size=32, shard=Shard(1, hosts))
    assert mine == [number for lane, number in main if lane % hosts == 1]
    with pytest.raises(tf.errors.DataLossError):
        read_ids(source, 32, batch_size=32, shard=Shard(0, hosts))


def test_windows_and_files_before_the_position_are_not_read(files, read_ids, flip_byte):
    counts = [16] * 64  # A lane is 64 records, most of 5 files; a window 16 of each lane.
    source = files.records(counts, window=256)
    order = Order(counts, per_record=1, window=256)
    main = order.epoch(0)[0]
    entry = 3 * 256 + 10
    still = {number for _, number in main[3 * 256 :]}
    removed = 0
    for number in range(1024):
        path = source.files[number // 16].path
        if not still & set(range(number // 16 * 16, number // 16 * 16 + 16)):
            removed += os.path.exists(path)
            if os.path.exists(path):
                os.remove(path)
        elif number not in still:
            flip_byte(path, number % 16)
    assert removed >= 32
    assert read_ids(source, 1024 - entry, batch_size=2, position=entry) == [number for _, number in main[entry:]]


def test_a_tail_is_entered_without_the_windows_before_it(files, read_ids, flip_byte):
    counts = [650, 393]  # 16 lanes of 65 records in windows of 26, 26 and 13; and 3 records in the tail.
    source = files.records(counts, window=416)
    main, tail = Order(counts, per_record=1, window=416).epoch(0)
    for _, number in main:
        flip_byte(source.files[number // 650].path, number % 650)
    assert len(tail) == 3
    assert read_ids(source, 2, batch_size=1, position=1041) == tail[1:]


def test_nothing_is_decoded_before_the_position(files):
    decoded = []

    def noted(text, seed):
        del seed
        number = tf.strings.to_number(text, tf.int64)
        return tf.numpy_function(lambda number: decoded.append(int(number)) or number, [number], tf.int64)

    source = files.records([500, 500], window=100).map_examples(noted)
    order = Order([500, 500], per_record=1, window=100).ids(1)
    (batch,) = source.batches(batch_size=5, seed=0, position=905).take(1)
    assert batch.numpy().tolist() == order[905:910]
    assert not set(decoded) & set(order[:905])


@pytest.mark.parametrize(
    "counts, shuffle, hosts, says",
    [
        ([300], True, 4, "1 files are fewer than the 4 hosts: they are split by record"),
        ([300], True, 3, "1 files on 3 hosts are split by example: each host reads every record"),
        ([300, 9, 9, 9], False, 2, "4 files on 2 hosts are split by example: each host reads every record"),
        ([90, 90, 90], True, 2, None),
    ],
)
def test_hosts_without_files_of_their_own_are_told_once(files, caplog, counts, shuffle, hosts, says):
    caplog.set_level("INFO", "tpuloop")
    source = files.records(counts, shuffle=shuffle).map_batches(tf.strings.length)
    for position in (0, 12):
        source.batches(batch_size=12, seed=0, position=position, shard=Shard(0, hosts))
    source.batches(batch_size=12, seed=0)
    assert [message[: len(says or "")] for message in caplog.messages] == ([says] if says else [])
