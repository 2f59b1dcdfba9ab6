"""A place to land for moved files: Airflow registered timetables through a plugin class.

Here a timetable is registered by being importable from the bundle, so the class does nothing.
"""

import warnings


class AirflowPlugin:
    """An empty base class; subclassing it warns that it has no effect."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        warnings.warn(
            f"plugin class {cls.__name__!r} has no effect: a timetable is registered by being"
            " importable from the bundle; delete the class",
            UserWarning,
            stacklevel=2,
        )
