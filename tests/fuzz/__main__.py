"""A fuzzer: it makes inputs that are almost valid, and checks the parsers of the package with them.

    python3 -m tests.fuzz                       runs all targets for 60 seconds, with a new seed
    python3 -m tests.fuzz --seed 7 --seconds 3  begins with seed 7
    python3 -m tests.fuzz --case schemas:1234   repeats one case

A target is a function that makes one input from a random generator, and raises an exception if the package fails. A
case is a target and a seed. The cases of one run have the seeds N, N + 1 and so on, for all targets in turn. A case
passes if the package raises only documented exceptions, stays within the limits of inputs.py, and agrees with a second,
simpler implementation. A run without --case begins with the cases in corpus.txt, which are known from earlier failures.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.configurations import check_configuration
from tests.fuzz.consents import check_consent
from tests.fuzz.growth import check_growth
from tests.fuzz.http import check_events, check_requests, check_response
from tests.fuzz.inputs import TookTooLong
from tests.fuzz.messages import check_cursor, check_message, check_state
from tests.fuzz.schemas import check_schema
from tests.fuzz.templates import check_template
from tests.fuzz.texts import check_texts
from tests.fuzz.uris import check_uris

CORPUS = Path(__file__).with_name("corpus.txt")
MAX_FAILED = 10
"""Number of failed cases that end a run."""
MAX_SHOWN = 2000
"""Maximum length of a printed error, in characters."""

TARGETS: dict[str, Callable[[random.Random], None]] = {
    "message": check_message, "requests": check_requests, "response": check_response, "events": check_events,
    "schema": check_schema, "template": check_template, "uris": check_uris, "texts": check_texts,
    "cursor": check_cursor, "state": check_state, "configuration": check_configuration, "consent": check_consent,
    "growth": check_growth,
}  # fmt: skip


def fails(target: str, seed: int, attempts: int = 3) -> bool:
    """Run one case. Print the error and return True if it fails. A slow case fails only if each attempt is slow."""
    try:
        TARGETS[target](random.Random(f"{target}:{seed}"))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, TookTooLong) and attempts > 1:  # other programs can make the machine slow for a moment
            return fails(target, seed, attempts - 1)
        print(
            f"FAILED: python3 -m tests.fuzz --case {target}:{seed}\n{traceback.format_exc()[-MAX_SHOWN:]}", flush=True
        )
        return True
    return False


def main() -> int:
    """Run the cases that the command line asks for. Return 1 if a case failed, or 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--case", action="append", help="repeat this case, TARGET:SEED, and no other")
    options = parser.parse_args()
    known = options.case or CORPUS.read_text("utf-8").split()
    failed = [case for case in known if fails(case.partition(":")[0], int(case.partition(":")[2]))]
    count, end = len(known), time.monotonic() + options.seconds * (not options.case)
    for seed in itertools.count(options.seed):
        for target in options.target or TARGETS:
            if time.monotonic() >= end or len(failed) >= MAX_FAILED:
                print(f"seed {options.seed}: {count} cases, {len(failed)} failed {' '.join(failed)}")
                return 1 if failed else 0
            count += 1
            failed += [f"{target}:{seed}"] * fails(target, seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
