"""All cases of the shared stream, in the order of their numbers."""

from tests.parity.shared_stream_case import Case
from tests.parity.shared_stream_cases_fan_out import fan_out
from tests.parity.shared_stream_cases_giving_up import giving_up
from tests.parity.shared_stream_cases_lifecycle import lifecycle
from tests.parity.shared_stream_cases_manager import calls
from tests.parity.shared_stream_cases_modes import modes, runners
from tests.parity.shared_stream_cases_pump import pump
from tests.parity.shared_stream_cases_resolution import resolution

CASES: list[Case] = [*calls, *modes, *runners, *lifecycle, *fan_out, *resolution, *giving_up, *pump]
