"""The official Python SDK as a client of the gateway. See ../sdk_test.go for what starts this and reads its lines."""

import sys

import answers  # noqa: F401  each module registers its cases
import failures  # noqa: F401
import jobs  # noqa: F401
import recorded  # noqa: F401
import streams  # noqa: F401
import translated  # noqa: F401
from gateway import run

sys.exit(run())
