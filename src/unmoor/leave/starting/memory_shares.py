"""Shares of an accelerator's memory: three engines take them of three different wholes, so they go through bytes.

With T the device's memory, W the weights on it, A what a step needs besides (activations, graphs, the runtime) and K
the keys and values, a share is (W + A + K) / T of the total, (W + K) / T of weights and cache, and K / (T - W - A)
of what is free after the weights. Sources: the trait `memory_fraction_of` of each engine's surface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

GIB = 2**30
_DEVICE_GIB = 80.0
_STEP_GIB = 4.0

_CACHE: Mapping[str, str] = {
    "total": "K = {share} T - W - A",
    "weights_and_kv": "K = {share} T - W",
    "free_after_weights": "K = {share} (T - W - A)",
}
_SHARE: Mapping[str, str] = {
    "total": "(W + A + K) / T",
    "weights_and_kv": "(W + K) / T",
    "free_after_weights": "K / (T - W - A)",
}
_CACHE_OF: Mapping[str, Callable[[float, float, float, float], float]] = {
    "total": lambda share, t, w, a: share * t - w - a,
    "weights_and_kv": lambda share, t, w, _: share * t - w,
    "free_after_weights": lambda share, t, w, a: share * (t - w - a),
}
_SHARE_OF: Mapping[str, Callable[[float, float, float, float], float]] = {
    "total": lambda k, t, w, a: (w + a + k) / t,
    "weights_and_kv": lambda k, t, w, _: (w + k) / t,
    "free_after_weights": lambda k, t, w, a: k / (t - w - a),
}


def rule(share: float, of: str, to: str, *, weight_gib: float | None) -> str:
    """How a share of one whole becomes that of another, in a sentence; with an example where the weights are known.

    `weight_gib` is what the weights take on one device. Empty where one of the wholes is not known.
    """
    if of not in _CACHE or to not in _SHARE:
        return ""
    text = (
        f"Through bytes: {_CACHE[of].format(share=f'{share:g}')}, and there the share is {_SHARE[to]}, with T the "
        "device's memory, W the weights on it, A what a step needs besides, K the keys and values."
    )
    return text + _example(share, of, to, weight_gib)


def _example(share: float, of: str, to: str, weight_gib: float | None) -> str:
    if weight_gib is None or weight_gib + _STEP_GIB >= _DEVICE_GIB:
        return ""
    cache = _CACHE_OF[of](share, _DEVICE_GIB, weight_gib, _STEP_GIB)
    if cache <= 0:
        return ""
    there = _SHARE_OF[to](cache, _DEVICE_GIB, weight_gib, _STEP_GIB)
    return (
        f" For example, with T = {_DEVICE_GIB:g} GiB, W = {weight_gib:.1f} GiB from the model's files and an assumed "
        f"A = {_STEP_GIB:g} GiB: K = {cache:.1f} GiB, there {there:.2f}."
    )
