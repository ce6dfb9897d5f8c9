"""`python -m tests.fuzz.files SECONDS [SEED]`: damage files until the time is up, and say what the reader did not
survive."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.files.campaign import Campaign


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=None, help="else the clock's")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz-files"), help="where damaged files are kept")
    options = parser.parse_args()
    campaign = Campaign(options.seed, options.findings)
    campaign.run(options.seconds)
    print(campaign.summary())
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main())
