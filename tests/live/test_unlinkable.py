"""An attacker at the server gets only reports of a person, through the whole stack.

That they cannot be paired: `tests/proxy/test_shuffle.py`. Lies and tags: `test_published.py` of the
protocol, `test_attackers.py` of the client. Replays: `tests/server/test_counting.py`, and the
lists.
"""

import hashlib
from pathlib import Path

from sottovoce.protocol import Batch
from sottovoce.training import Settings
from tests.live.stack import run_stack
from tests.proxy.test_traces import written_forms_of, written_forms_of_time

BATCH_REPORTS = 20
SOURCE_ADDRESS = ("203.0.113.77", 45_678)
USER_AGENT = "Whisper/9.77 (odd agent)"
START_TIME = 1_733_333_333.625
TRAINING = Settings.preset("loudest", reports=BATCH_REPORTS, epochs=3, factors=2)


def test_server_receives_nothing_about_clients_except_reports(folder: Path) -> None:
    # It receives no address, agent, batch id, time of arrival or order.
    # Ten digits of a time do not turn up by chance in what is random; the few of a clock near 0 do.
    with run_stack(folder, training=TRAINING, source=SOURCE_ADDRESS, now=START_TIME) as stack:
        gate = stack.gates["east"]
        stack.end_epoch(crowd=False)
        stack.world.now = arrival = stack.world.now + 7.625
        batches = [stack.make_random_batch(gate, seed) for seed in range(10)]
        headers = {"User-Agent": USER_AGENT, "X-Forwarded-For": "198.51.100.23", "Cookie": "me=77"}
        assert [gate.post(batch.encode(), headers) for batch in batches] == [202] * 10
        client = stack.add_client("somebody", ["film-1"])
        assert client.sync(gate.make_api(), jitter=0).outcome == "sent"
        sent = [
            Batch.decode(r.body, BATCH_REPORTS)
            for r in gate.recorder.requests
            if r.method == "POST"
        ]
        epoch = stack.end_epoch()
        assert stack.world.get_counts(epoch)[1] == 11 * BATCH_REPORTS
        data = b"\n".join(request.to_bytes() for request in stack.recorder.requests)
    secrets = [*written_forms_of(SOURCE_ADDRESS[0]), *written_forms_of("198.51.100.23")]
    secrets += [
        str(SOURCE_ADDRESS[1]).encode(),
        USER_AGENT.encode(),
        b"me=77",
        b"film-1",
        b"somebody",
    ]
    secrets += written_forms_of_time(arrival)
    for batch in sent:
        secrets += [batch.id, batch.id.hex().encode(), hashlib.sha256(batch.encode()).digest()]
        secrets += [hashlib.sha256(batch.encode()).hexdigest().encode(), batch.sealed]
    assert len(sent) == 11
    assert sent[0].sealed[:52] in data, "the reports themselves do come"
    for secret in secrets:
        assert secret not in data, secret
    names = {name for request in stack.recorder.requests for name, _ in request.headers}
    usual = {b"host", b"accept", b"accept-encoding", b"connection", b"user-agent"}
    assert names <= usual | {b"authorization", b"content-length"}
