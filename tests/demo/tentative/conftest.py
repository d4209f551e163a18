"""The installation of the main job's tests, once more."""

from tests.integration.main_job.conftest import stack

__all__ = ["stack"]
