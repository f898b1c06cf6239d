"""Two steps of each optimizer by the formula of its paper, in NumPy's float64, on any number of replicas."""

import builtins
import sys

import numpy as np
import pytest
import tensorflow as tf

from tpuloop.engine.mean import Mean
from tpuloop.engine.optimize import apply_summed, create_weights, minimize
from tpuloop.errors import UsageError
from tpuloop.optimizers import OPTIMIZERS, optimizer_class
from tpuloop.optimizers.schedule_settings import ScheduleSettings
from tpuloop.optimizers.schedules import make_schedule

KERNEL, BIAS = np.array([[3.0, 0.0], [0.0, 4.0]]), np.array([1.0, -2.0])
# Of the kernel, of the bias, for two steps.
GRADIENTS = [
    (np.array([[0.6, 0.0], [0.8, 0.0]]), np.array([0.5, 0.25])),
    (np.array([[0.0, -1.0], [0.0, 2.0]]), np.array([-0.5, 1.0])),
]
RATES = (0.5, 0.25)


class Rates(tf.keras.optimizers.schedules.LearningRateSchedule):
    """Those of the two steps."""

    def __call__(self, step):
        return tf.gather(tf.constant(RATES), tf.cast(step, tf.int32))

    def get_config(self):
        return {}


def adamw(w, state, gradient, rate, step, *, decayed, beta_1=0.9, beta_2=0.999, epsilon=1e-7, weight_decay=0.1):
    m, v = state or (0, 0)
    m, v = beta_1 * m + (1 - beta_1) * gradient, beta_2 * v + (1 - beta_2) * gradient**2
    # Keras's epsilon is the paper's epsilon hat: it joins the root before the correction.
    epsilon /= np.sqrt(1 - beta_2**step)
    u = m / (1 - beta_1**step) / (np.sqrt(v / (1 - beta_2**step)) + epsilon)
    return w - rate * (u + (weight_decay * w if decayed else 0)), (m, v)


def lamb(w, state, gradient, rate, step, *, decayed, beta_1=0.9, beta_2=0.999, epsilon=1e-6, weight_decay=0.1):
    m, v = state or (0, 0)
    m, v = beta_1 * m + (1 - beta_1) * gradient, beta_2 * v + (1 - beta_2) * gradient**2
    u = m / (1 - beta_1**step) / (np.sqrt(v / (1 - beta_2**step)) + epsilon)
    if not decayed:
        return w - rate * u, (m, v)
    u = u + weight_decay * w
    return w - rate * np.linalg.norm(w) / np.linalg.norm(u) * u, (m, v)


def sgd(w, state, gradient, rate, step, *, decayed, momentum=0.9, weight_decay=0.1, nesterov=False, trust=1.0):
    gradient = gradient + (weight_decay * w if decayed else 0)
    v = momentum * (0 if state is None else state) - rate * trust * gradient
    return w + (momentum * v - rate * trust * gradient if nesterov else v), v


def lars(w, state, gradient, rate, step, *, decayed, eeta=0.5, weight_decay=0.1, **arguments):
    norms = np.linalg.norm(w), np.linalg.norm(gradient)
    trust = eeta * norms[0] / (norms[1] + weight_decay * norms[0]) if decayed else 1.0
    return sgd(w, state, gradient, rate, step, decayed=decayed, weight_decay=weight_decay, trust=trust, **arguments)


CASES = {
    "adamw": (adamw, "adamw", {"weight_decay": 0.1}),
    "lamb": (lamb, "lamb", {"weight_decay": 0.1}),
    "lars": (lars, "lars", {"weight_decay": 0.1, "eeta": 0.5}),
    "lars nesterov": (lambda *a, **k: lars(*a, **k, nesterov=True), "lars", {"weight_decay": 0.1, "eeta": 0.5}),
    "momentum": (sgd, "sgd", {"weight_decay": 0.1, "momentum": 0.9}),
    "nesterov": (lambda *a, **k: sgd(*a, **k, nesterov=True), "sgd", {"weight_decay": 0.1, "momentum": 0.9}),
    "sgd": (lambda *a, **k: sgd(*a, **k, momentum=0.0), "sgd", {"weight_decay": 0.1}),
}
every_case = pytest.mark.parametrize("case", CASES)


def expected(case, gradients=GRADIENTS):
    """The kernel and the bias after two steps."""
    formula = CASES[case][0]
    values = []
    for index, value in enumerate((KERNEL, BIAS)):
        state = None
        for step, rate in enumerate(RATES):
            value, state = formula(value, state, gradients[step][index], rate, step + 1, decayed=index == 0)
        values.append(value)
    return values


def made(case, **arguments):
    _, name, given = CASES[case]
    if "nesterov" in case:
        given = {**given, "nesterov": True}
    return optimizer_class(name)(Rates(), **given, **arguments)


def check(case, variables, gradients=GRADIENTS):
    for variable, value in zip(variables, expected(case, gradients)):
        np.testing.assert_allclose(variable.numpy(), value, rtol=2e-5)


def as_variables():
    return [tf.Variable(KERNEL, dtype=tf.float32), tf.Variable(BIAS, dtype=tf.float32)]


def test_the_formulas_by_hand():
    # Momentum: (3 - 0.5 * (0.6 + 0.3)) = 2.55, then v = 0.9 * -0.45 - 0.25 * 0.255 = -0.46875.
    assert expected("momentum")[0][0, 0] == pytest.approx(2.55 - 0.46875)
    # LARS: |w| = 5, |g| = 1, so trust = 0.5 * 5 / 1.5 = 5/3; the first step is 0.5 * 5/3 * 0.9 = 0.75.
    assert lars(KERNEL, None, GRADIENTS[0][0], 0.5, 1, decayed=True)[0][0, 0] == pytest.approx(2.25)
    # AdamW's first step is the sign of the gradient: 3 - 0.5 * (1 + 0.3).
    assert adamw(KERNEL, None, GRADIENTS[0][0], 0.5, 1, decayed=True)[0][0, 0] == pytest.approx(2.35, abs=1e-5)
    # LAMB: u = (1.3, 0; 1, 0.4), |u|^2 = 2.85.
    assert lamb(KERNEL, None, GRADIENTS[0][0], 0.5, 1, decayed=True)[0][1, 0] == pytest.approx(-2.5 / 2.85**0.5)
    # Biases: no decay, no trust.
    assert expected("lars")[1] == pytest.approx(expected("momentum")[1])


@every_case
@pytest.mark.parametrize("replicas", [1, 4])
def test_two_steps_of_the_paper(case, replicas, runtimes):
    strategy = runtimes(replicas).strategy
    with strategy.scope():
        variables, optimizer = as_variables(), made(case)
        create_weights(optimizer, variables)

    @tf.function
    def update(kernel, bias):
        strategy.run(lambda: (apply_summed([kernel, bias], variables, optimizer=optimizer), 0)[1])

    for gradients in GRADIENTS:
        update(*(tf.constant(gradient, tf.float32) for gradient in gradients))
    for index, value in enumerate(expected(case)):
        for part in strategy.experimental_local_results(variables[index]):
            np.testing.assert_allclose(part.numpy(), value, rtol=2e-5)


@every_case
def test_slices_count_as_the_gradient_they_are_part_of(case):
    variables, optimizer = as_variables(), made(case)
    # Row 0 in two parts, row 1 without a gradient in the first step.
    first = tf.IndexedSlices(tf.constant([[0.5, 1.0], [0.25, -2.0]]), tf.constant([0, 0]), tf.constant([2, 2]))
    second = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([1]), tf.constant([2, 2]))
    for slices, (_, bias) in zip((first, second), GRADIENTS):
        apply_summed([slices, tf.constant(bias, tf.float32)], variables, optimizer=optimizer)
    dense = [np.array([[0.75, -1.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 2.0]])]
    check(case, variables, [(kernel, bias) for kernel, (_, bias) in zip(dense, GRADIENTS)])


@every_case
def test_the_scale_of_a_loss_and_a_clipped_norm_are_gone_before_weights_are_decayed(case):
    # A norm of 2 * 1e3 is clipped to that of the gradient.
    plain, scaled = as_variables(), as_variables()
    loss_scaled = tf.keras.mixed_precision.LossScaleOptimizer(made(case), dynamic=False, initial_scale=1024.0)
    optimizer = made(case)
    for kernel, bias in GRADIENTS:
        norm = float(np.sqrt(np.sum(kernel**2) + np.sum(bias**2)))
        for variables, used, arguments in (
            (plain, optimizer, {"clip_norm": norm}),
            (scaled, loss_scaled, {"clip_norm": norm, "optimizer": loss_scaled}),
        ):
            with tf.GradientTape() as tape:
                # Each is 3 times the gradient, which the clipped norm takes off again.
                values = 3 * (tf.reduce_sum(kernel * variables[0]) + tf.reduce_sum(bias * variables[1]))
                loss = Mean(values[tf.newaxis])
            minimize(loss, tape=tape, variables=variables, **{"optimizer": used, **arguments})
    check(case, plain)
    check(case, scaled)


@every_case
def test_one_xla_program(case):
    variables, optimizer = as_variables(), made(case)
    create_weights(optimizer, variables)

    @tf.function(jit_compile=True)
    def update(kernel, bias):
        apply_summed([kernel, bias], variables, optimizer=optimizer)

    for gradients in GRADIENTS:
        update(*(tf.constant(gradient, tf.float32) for gradient in gradients))
    check(case, variables)


@pytest.mark.parametrize("name", ["lamb", "lars"])
def test_weights_or_gradients_of_zero_have_no_ratio(name):
    kernel = tf.Variable(tf.zeros([2, 2]))
    optimizer = optimizer_class(name)(0.5, weight_decay=0.1)
    optimizer.apply_gradients([(tf.zeros([2, 2]), kernel)])
    np.testing.assert_array_equal(kernel.numpy(), 0)
    optimizer.apply_gradients([(tf.eye(2), kernel)])
    assert np.all(np.isfinite(kernel.numpy())) and kernel.numpy()[0, 0] < -0.1


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_the_same_after_its_config(name):
    schedule = make_schedule(ScheduleSettings("cosine", warmup_steps=2), peak=0.5, run_steps=9)
    optimizer = optimizer_class(name)(schedule)
    again = tf.keras.optimizers.deserialize(tf.keras.optimizers.serialize(optimizer))
    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()


@pytest.mark.parametrize("name", ["adamw", "lamb", "lars", "sgd"])
@pytest.mark.parametrize("value", [-0.1, "0.1", True, float("nan"), None])
def test_what_is_no_weight_decay(name, value):
    with pytest.raises(ValueError, match="weight_decay must be a number of at least 0; it is"):
        optimizer_class(name)(weight_decay=value)


def test_a_trust_coefficient_is_positive():
    with pytest.raises(ValueError, match="eeta must be a positive number; it is 0"):
        optimizer_class("lars")(eeta=0)


def test_lamb_without_its_package(monkeypatch):
    plain_import = builtins.__import__

    def without_addons(name, *arguments, **more):
        if name.startswith("tensorflow_addons"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return plain_import(name, *arguments, **more)

    monkeypatch.delitem(sys.modules, "tpuloop.optimizers.lamb", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_addons)
    with pytest.raises(UsageError, match=r"needs the package tensorflow-addons .* pip install 'tpuloop\[addons\]'"):
        optimizer_class("lamb")
