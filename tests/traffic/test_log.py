from __future__ import annotations

import numpy as np

from unmoor.traffic.profile.profile_log import SIMULATED, profile_log
from unmoor.traffic.profile.question import Question
from unmoor.traffic.readers import read_traffic


def a_log(requests: int) -> bytes:
    lines = (
        f'{{"timestamp": {i * 10}, "input_length": 1024, "output_length": 8, "hash_ids": [{i % 3}, {i}]}}'
        for i in range(requests)
    )
    return "\n".join(lines).encode()


def test_the_first_requests_are_a_log_over_the_same_tree() -> None:
    traffic = read_traffic(a_log(10), where="log")
    first = traffic.first(4)
    assert len(first) == 4
    assert first.tree is traffic.tree
    assert np.array_equal(first.node, traffic.node[:4])
    assert len(first.session.code) == 4
    assert traffic.first(10) is traffic


def test_replicas_of_a_very_long_log_are_simulated_for_its_beginning_and_that_is_said() -> None:
    whole = profile_log(read_traffic(a_log(SIMULATED + 5), where="log"), Question(replicas=(2,)))
    assert [caveat.text for caveat in whole.caveats if caveat.code == "simulated_part"] == [
        "Concurrency and replicas were simulated for the first 100,000 of 100,005 requests."
    ]
    assert whole.requests == SIMULATED + 5
    part = profile_log(read_traffic(a_log(SIMULATED), where="log"), Question(replicas=(2,)))
    assert "simulated_part" not in {caveat.code for caveat in part.caveats}
