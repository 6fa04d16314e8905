"""Settings all tests share."""

import os

from hypothesis import HealthCheck, settings

# `ci` is derandomised: a red run is the change's. `deep` is for a long search.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "deep",
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "2000")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
