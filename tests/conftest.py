"""What holds for every test: how long properties look for a counterexample."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A machine that is busy with the clients of other tests draws and runs slowly; that is no fault
# of the code under test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# By default the same examples every time, so that a change is judged by what it changes; the long
# search is for new ones.
settings.register_profile("quick", _PATIENT, derandomize=True)
settings.register_profile("long", _PATIENT, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "quick")
