"""Other people's clients use a server of the other era through the bridge, over stdio.

The scripts in peers/ try every feature and print a report; they end with an error at the first feature that fails.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.interop.recorded import Recorded, run_peer
from tests.interop.test_foreign_clients import CLIENTS, SCRIPTS

SERVER = [sys.executable, "-m", "mcp_ref", "run", "tests/interop/peers/bridged.py"]


@pytest.mark.parametrize("client", CLIENTS)
def test_bridge_lets_an_official_client_use_every_feature_of_a_server_of_the_other_era(
    client: str, peers: Path, tmp_path: Path
) -> None:
    program, script, arguments = CLIENTS[client]
    is_modern = client.endswith("auto")
    recorded = Recorded(tmp_path)
    back = "2025-11-25" if is_modern else "2026-07-28"
    command: list[str | Path] = [peers / program, SCRIPTS / script, *arguments, *recorded.command(SERVER)]
    ran = run_peer(peers, *command, BACK_REVISION=back)
    assert ran.returncode == 0, ran.stderr + recorded.stderr
    report = json.loads(ran.stdout)
    assert len(report) > 10, report
    assert recorded.alive() == [] and "Traceback" not in recorded.stderr
