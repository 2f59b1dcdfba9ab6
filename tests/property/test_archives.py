"""Laws: an archive gives back what was packed, and damage is an error that leaves nothing."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lamplighter.bundles.archive import build_archive, open_archive
from lamplighter.errors import DefinitionError

parts = st.text("abcxyzäß0-_ +", min_size=1, max_size=8)
names = st.builds(
    lambda folder, middle, last: "/".join([folder, *middle, last]),
    st.sampled_from(["dags", "timetables", "jobs", "lib"]),
    st.lists(parts.map(lambda part: f"{part}.d"), max_size=2),
    parts.map(lambda part: f"{part}.py"),
)
bundles = st.dictionaries(names, st.binary(max_size=200), max_size=5)


def write(root: Path, files: dict[str, bytes]) -> Path:
    """Write a bundle below a folder."""
    (root / "dags").mkdir(parents=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


@settings(deadline=None)
@given(bundles)
def test_any_bundle_comes_out_as_it_went_in(files: dict[str, bytes]) -> None:
    """Packing, opening and packing again changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        packed = build_archive(write(Path(folder) / "old", files))
        new = open_archive(packed.data, Path(folder) / "new")
        assert {name: (new / name).read_bytes() for name in packed.files} == files
        (new / "dags").mkdir(exist_ok=True)
        assert build_archive(new) == packed


@settings(deadline=None, max_examples=200)
@given(bundles, st.data())
def test_any_damage_is_an_error_or_harmless(files: dict[str, bytes], data: st.DataObject) -> None:
    """Whatever bytes are changed, the archive is opened or refused, and nothing else happens."""
    with tempfile.TemporaryDirectory() as folder:
        packed = bytearray(build_archive(write(Path(folder) / "old", files)).data)
        for _ in range(data.draw(st.integers(1, 4))):
            packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
        try:
            open_archive(bytes(packed), Path(folder) / "new")
        except DefinitionError:
            assert [path.name for path in Path(folder).iterdir()] == ["old"]
