from __future__ import annotations

from unmoor.traffic.profile.profile_log import SIMULATED, profile_log
from unmoor.traffic.profile.question import Question
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.curve import ideal


def a_log(requests: int) -> bytes:
    lines = (
        f'{{"timestamp": {i * 10}, "input_length": 1024, "output_length": 8, "hash_ids": [{i % 3}, {i}]}}'
        for i in range(requests)
    )
    return "\n".join(lines).encode()


def test_the_first_requests_are_a_log_of_their_own_part_of_the_tree() -> None:
    traffic = read_traffic(a_log(10), where="log")
    first = traffic.first(4)
    alone = read_traffic(a_log(4), where="log")
    assert first.tree is not None
    assert alone.tree is not None
    assert len(first.tree) < len(traffic.tree or ())
    assert first.tree.end[first.node].tolist() == alone.tree.end[alone.node].tolist()
    assert ideal(first) == ideal(alone)
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
