# SPDX-License-Identifier: MIT
"""Everything at once, for a while: WHITECAP_CHAOS_SECONDS makes it longer (see chaos.py)."""
import os

import chaos


def test_chaos_costs_only_what_is_allowed():
    chaos.run(float(os.environ.get("WHITECAP_CHAOS_SECONDS", "8")), int(os.environ.get("WHITECAP_CHAOS_SEED", "1")))


test_chaos_costs_only_what_is_allowed.long = True
