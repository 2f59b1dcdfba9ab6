"""A plot of a simulation: the runs of each hour by DAG, and below it how many run at once.

The only module that imports Matplotlib; only `--plot` imports it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pendulum import DateTime

from lamplighter_local.simulation.simulate import Simulation, Span, levels

# More colours than this are hard to tell apart; the DAGs with the fewest runs share one.
_MAX_COLOURS = 12
_OTHERS = "#9aa0a6"
_MAX_NAME_LENGTH = 34
# More bars than this are hard to tell apart.
_MAX_BARS = 240
_HOURS = (1, 2, 3, 4, 6, 12, 24, 48)
# The plot shows the maximum concurrency of each slice of time.
_SLICES = 240
_SECONDS_OF_A_DAY = 24 * 3600


def draw(simulation: Simulation, file: Path) -> None:
    """Write the plot; the suffix of the file name is its format."""
    figure = Figure(figsize=(14, 7.5), dpi=120, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    hours = _bar_hours(simulation)
    edges = _edges(simulation, hours)
    _draw_runs(above, simulation, edges, hours)
    _draw_concurrency(below, simulation)
    below.set_xlim(date2num(edges[0]), date2num(edges[-1]))
    locator = AutoDateLocator(minticks=6, maxticks=14)
    below.xaxis.set_major_locator(locator)
    below.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    below.set_xlabel("UTC")
    figure.suptitle(
        f"{len(simulation.runs):,} runs of {len(simulation.dag_ids):,} DAGs,"
        f" {simulation.start:%Y-%m-%d %H:%M} to {simulation.end:%Y-%m-%d %H:%M} UTC",
        fontsize=13,
    )
    figure.savefig(file)


def _bar_hours(simulation: Simulation) -> int:
    total = (simulation.end - simulation.start).total_hours()
    return next((hours for hours in _HOURS if total / hours <= _MAX_BARS), _HOURS[-1])


def _edges(simulation: Simulation, hours: int) -> list[DateTime]:
    """Return the instants between bars, on whole hours of a day."""
    first = simulation.start.start_of("day")
    edges = [first]
    # Runs that are created at the very end have a bar too.
    while edges[-1] <= simulation.end:
        edges.append(edges[-1] + timedelta(hours=hours))
    begun = bisect_right(edges, simulation.start) - 1
    return edges[begun:]


def _draw_runs(axes: Axes, simulation: Simulation, edges: Sequence[DateTime], hours: int) -> None:
    counts = Counter(run.dag_id for run in simulation.runs)
    named = [dag_id for dag_id, _ in counts.most_common(_MAX_COLOURS)]
    groups = {dag_id: [0] * (len(edges) - 1) for dag_id in named}
    others = [0] * (len(edges) - 1)
    for run in simulation.runs:
        place = bisect_right(edges, run.created_at) - 1
        groups.get(run.dag_id, others)[place] += 1
    places = [date2num(edge) for edge in edges]
    bottom = [0] * (len(edges) - 1)
    colours = colormaps["tab20"].colors  # type: ignore[attr-defined] # a list of colours has them
    bars = [(_short(d), groups[d], colours[place]) for place, d in enumerate(groups)]
    if rest := len(counts) - len(named):
        bars.append((f"{rest} other DAG{'' if rest == 1 else 's'}", others, _OTHERS))
    for label, heights, colour in bars:
        top = [below + height for below, height in zip(bottom, heights, strict=True)]
        # One shape for all bars of a DAG: thousands of rectangles take seconds to draw.
        axes.stairs(top, places, baseline=bottom, fill=True, label=label, color=colour)
        bottom = top
    axes.set_ylabel("runs an hour" if hours == 1 else f"runs in {hours} hours")
    _tidy(axes)


def _draw_concurrency(axes: Axes, simulation: Simulation) -> None:
    instants, runs = _peaks_by_slice(simulation.run_spans(), simulation)
    axes.fill_between(instants, runs, step="post", label="runs", color="#aec7e8")
    instants, steps = _peaks_by_slice(simulation.step_spans(), simulation)
    axes.step(instants, steps, where="post", label="steps", color="#d62728", linewidth=0.8)
    axes.set_ylabel("most at once")
    _tidy(axes)


def _peaks_by_slice(spans: Sequence[Span], simulation: Simulation) -> tuple[list[float], list[int]]:
    """Return the starts of slices of time, and the maximum number of spans at once in each."""
    begin, end = simulation.start.timestamp(), simulation.end.timestamp()
    length = (end - begin) / _SLICES
    peaks, before, place = [0] * (_SLICES + 1), 0, 0
    for instant, count in levels(spans):
        at = min(int((instant.timestamp() - begin) / length), _SLICES)
        # Spans that started before continue in all slices up to this one.
        for passed in range(place + 1, at + 1):
            peaks[passed] = before
        place, before = at, count
        peaks[at] = max(peaks[at], count)
    for passed in range(place + 1, _SLICES + 1):
        peaks[passed] = before
    first = date2num(simulation.start)
    return [first + length * number / _SECONDS_OF_A_DAY for number in range(len(peaks))], peaks


def _tidy(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"
