"""Random layers draw by (seed, step, replica, layer, call): what differs, what repeats, and what stays Keras's."""

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.graph_loop import GraphLoop
from tpuloop.engine.mean import Mean
from tpuloop.engine.nested import layers_within
from tpuloop.engine.randomness import StepSeed, current_seed, seed_random_layers, step_seed
from tpuloop.engine.step import GlobalStep
from tpuloop.engine.stop import StopFlag

layers = tf.keras.layers

SEEDS = [0, 1, 2**31, 2**31 + 1, 2**61]


def test_each_of_seed_step_replica_stream_and_draw_gives_another_seed():
    drawn = set()
    for seed in SEEDS:
        for step in (0, 1, 2**31 - 1):
            for replica in (0, 1, 7):
                stepped = StepSeed.of(seed, tf.constant(step, tf.int64), tf.constant(replica))
                drawn |= {tuple(stepped.draw(stream).numpy()) for stream in (0, 1, 1, 2)}
    assert len(drawn) == len(SEEDS) * 3 * 3 * 4


def test_named_streams():
    def draws(*names):
        seed = StepSeed.of(3, tf.constant(5, tf.int64), tf.constant(0))
        return [tuple(seed.draw_named(name).numpy()) for name in names]

    assert draws("mixup", "mixup", "noise") == draws("mixup", "mixup", "noise")
    assert len(set(draws("mixup", "mixup", "noise", "mixuq"))) == 4
    assert draws("noise")[0] == draws("mixup", "noise")[1]  # Streams do not disturb each other.


def test_a_seed_outside_a_step_is_refused():
    with pytest.raises(RuntimeError, match=r"step_seed\(\) has a value only inside train_step"):
        current_seed()


def test_numbers_of_layers_do_not_depend_on_names_and_stay():
    tf.keras.backend.clear_session()

    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.second = layers.Dropout(0.5, name="a")
            self.first = [layers.Dense(2), layers.GaussianNoise(1.0, name="z")]
            self.inner = tf.keras.Sequential([layers.Dropout(0.5, name="m"), layers.Dropout(0.5)])
            self.by_name = {"x": layers.Dropout(0.5, name="b")}

    model = Model()
    expected = [model.second, model.first[1], *model.inner.layers, model.by_name["x"]]
    module = tf.Module()
    module.model = model
    assert seed_random_layers(layers_within(module)) == 5
    assert [layer._random_generator.stream for layer in expected] == [0, 1, 2, 3, 4]
    kept = [layer._random_generator for layer in expected]
    model.late = layers.Dropout(0.5)
    module.also = layers.Dropout(0.5)  # Found before the model's.
    assert seed_random_layers(layers_within(module)) == 7
    assert [layer._random_generator for layer in expected] == kept
    assert {model.late._random_generator.stream, module.also._random_generator.stream} == {5, 6}


def run(replica_step, *, strategy=None, seed=0, done=0, steps=3, batch=None):
    """The trace of steps that get the same batch every time."""
    strategy = tf.distribute.get_strategy() if strategy is None else strategy
    batch = np.ones([4, 6], np.float32) if batch is None else batch
    data = tf.data.Dataset.from_tensors(batch).repeat()
    split = strategy.num_replicas_in_sync > 1
    step = GlobalStep(strategy=strategy, replica_step=replica_step, seed=seed, split=split)
    loop = GraphLoop(step=step, stop=StopFlag(), counters=[], results=dict)
    return loop.run(iter(data), done=done, steps=steps).trace


def bits(mask):
    """A number that tells every mask of up to 24 elements from every other."""
    kept = tf.cast(tf.reshape(mask, [-1]) != 0, tf.float32)
    return tf.reduce_sum(kept * 2.0 ** tf.range(tf.cast(tf.size(kept), tf.float32)))


def seeded(*found):
    seed_random_layers(found)
    return found


def test_masks_differ_between_steps_layers_and_calls_of_one_layer():
    first, second = seeded(layers.Dropout(0.5), layers.Dropout(0.5))

    def step(batch):
        return {
            "first": bits(first(batch, training=True)),
            "again": bits(first(batch, training=True)),
            "second": bits(second(batch, training=True)),
        }

    trace = run(step)
    masks = [value for name in ("first", "again", "second") for value in trace.values(name)]
    assert len(set(masks)) == 9


def test_masks_differ_between_replicas(runtimes):
    strategy = runtimes(2).strategy
    with strategy.scope():
        (layer,) = seeded(layers.Dropout(0.5))

        def step(batch):
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            value = bits(layer(batch, training=True))
            return {f"replica{i}": Mean(value, tf.cast(tf.equal(replica, i), tf.float32)) for i in range(2)}

        trace = run(step, strategy=strategy)
    masks = [*trace.values("replica0"), *trace.values("replica1")]
    assert len(set(masks)) == 6


def test_seed_of_the_run_changes_masks():
    (layer,) = seeded(layers.Dropout(0.5))
    traces = [run(lambda batch: {"mask": bits(layer(batch, training=True))}, seed=seed) for seed in (0, 1, 2**31)]
    assert len({tuple(trace.values("mask")) for trace in traces}) == 3


IMAGES = np.tile(np.arange(8 * 8 * 1, dtype=np.float32).reshape([1, 8, 8, 1]) / 64, [6, 1, 1, 1])
SEQUENCE = np.random.default_rng(0).normal(size=[6, 3, 4]).astype(np.float32)

RANDOM_LAYERS = {
    "dropout": (lambda: layers.Dropout(0.5), SEQUENCE),
    "spatial-dropout": (lambda: layers.SpatialDropout1D(0.5), SEQUENCE),
    "alpha-dropout": (lambda: layers.AlphaDropout(0.5), SEQUENCE),
    "gaussian-dropout": (lambda: layers.GaussianDropout(0.5), SEQUENCE),
    "gaussian-noise": (lambda: layers.GaussianNoise(1.0), SEQUENCE),
    "lstm": (lambda: layers.LSTM(3, dropout=0.5), SEQUENCE),
    "lstm-recurrent": (lambda: layers.LSTM(3, recurrent_dropout=0.5), SEQUENCE),
    "gru-cell": (lambda: layers.RNN(layers.GRUCell(3, dropout=0.5)), SEQUENCE),
    "flip": (lambda: layers.RandomFlip(), IMAGES),
    "rotation": (lambda: layers.RandomRotation(0.5), IMAGES),
    "zoom": (lambda: layers.RandomZoom(0.5), IMAGES),
    "crop": (lambda: layers.RandomCrop(5, 5), IMAGES),
    "translation": (lambda: layers.RandomTranslation(0.5, 0.5), IMAGES),
    "contrast": (lambda: layers.RandomContrast(0.9), IMAGES),
    "brightness": (lambda: layers.RandomBrightness(0.9, value_range=[0, 1]), IMAGES),
}


def attention():
    inner = layers.MultiHeadAttention(2, 3, dropout=0.5)
    inputs = tf.keras.Input(SEQUENCE.shape[1:])
    return tf.keras.Model(inputs, inner(inputs, inputs))


RANDOM_LAYERS["attention"] = (attention, SEQUENCE)


def weighted_sum(outputs):
    weights = tf.cast(tf.range(tf.size(outputs)), tf.float32) + 1.0
    return tf.reduce_sum(tf.reshape(outputs, [-1]) * weights)


@pytest.mark.parametrize("name", RANDOM_LAYERS)
def test_layer_repeats_from_any_step_in_a_new_object(name):
    make, batch = RANDOM_LAYERS[name]

    def values(done, steps):
        tf.keras.utils.set_random_seed(3)
        layer = make()
        layer(batch, training=False)  # The weights.
        tf.keras.utils.set_random_seed(done)  # A restarted process has other global seeds.
        seed_random_layers(layers_within(layer))
        trace = run(lambda x: {"sum": weighted_sum(layer(x, training=True))}, done=done, steps=steps, batch=batch)
        return trace.values("sum")

    whole = values(0, 4)
    assert len(set(whole)) == 4
    np.testing.assert_array_equal(values(2, 2), whole[2:])


@pytest.mark.parametrize("name", [name for name, (_, batch) in RANDOM_LAYERS.items() if batch is IMAGES])
def test_images_of_a_batch_are_changed_each_by_itself(name):
    make, batch = RANDOM_LAYERS[name]
    (layer,) = seeded(make())
    outputs = tf.Variable(tf.zeros([3, *layer(batch, training=True).shape]))

    def step(x):
        outputs[number.assign_add(1) - 1].assign(layer(x, training=True))
        return {"sum": weighted_sum(outputs)}

    number = tf.Variable(0)
    run(step, batch=batch, steps=3)
    different = len(np.unique(outputs.numpy().reshape([18, -1]), axis=0))
    if name == "crop":  # Keras cuts one window for a whole batch.
        assert different == 3
    else:
        assert different >= 4  # A flip has four ways.


@pytest.mark.parametrize("name", ["dropout", "flip"])
def test_outside_a_step_layers_draw_as_keras_does(name):
    make, batch = RANDOM_LAYERS[name]

    def draws(between):
        tf.keras.utils.set_random_seed(1)
        layer = make()
        first = layer(batch, training=True)
        between(layer)
        return [first.numpy(), layer(batch, training=True).numpy()]

    def seed_and_run(layer):
        seed_random_layers([layer])
        run(lambda x: {"sum": weighted_sum(layer(x, training=True))}, batch=batch)

    expected = draws(lambda layer: None)
    assert not np.array_equal(*expected)
    np.testing.assert_array_equal(draws(seed_and_run), expected)


def test_seeded_layers_can_be_saved_and_have_no_weights_more(tmp_path):
    model = tf.keras.Sequential(
        [tf.keras.Input([8, 8, 1]), layers.RandomFlip(), layers.RandomRotation(0.1), layers.Flatten(), layers.Dense(1)]
    )
    expected = model(IMAGES, training=False)
    before = len(model.weights)
    seed_random_layers(layers_within(model))
    assert len(model.weights) == before
    for path in (str(tmp_path / "saved"), str(tmp_path / "model.h5")):
        model.save(path)
        np.testing.assert_array_equal(tf.keras.models.load_model(path)(IMAGES, training=False), expected)


def test_a_step_that_fails_leaves_no_seed_behind():
    with pytest.raises(ZeroDivisionError):
        with step_seed(StepSeed.of(0, tf.constant(0, tf.int64), tf.constant(0))):
            raise ZeroDivisionError
    with pytest.raises(RuntimeError):
        current_seed()
