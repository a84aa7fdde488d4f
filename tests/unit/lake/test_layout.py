"""Names become folders, so no name can lead out of the lake; a cut reads back as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.core.errors import BadInput
from anabranch.core.settings import load_settings
from anabranch.lake.cut import Cut, Position, parse_epochs
from anabranch.lake.layout import VersionRef, landing_checkpoint, landing_table

pytestmark = pytest.mark.unit

HOSTILE = [
    "", ".", "..",
    "../lake", "a/b", "/etc", "a\\b", "a\n", "\na", "a\x00", "A", "1a", "_a", "a-b", "a b", "ä", "a" * 64,
    "${HOME}", "{{ ds }}", "a;rm -rf", "a'--", "a%2fb", "\u2170", "a٣",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_out_of_the_lake(tmp_path: Path, name: str) -> None:
    settings = load_settings(home=tmp_path)
    for place in (landing_table, landing_checkpoint):
        with pytest.raises(BadInput) as caught:
            place(settings, name)
        assert caught.value.code == "NAME_UNSAFE"
    with pytest.raises(BadInput) as caught:
        VersionRef(settings, name, 1)
    assert caught.value.code == "NAME_UNSAFE"


@pytest.mark.parametrize("name", ["a b", "a%20b", "ä", "a#b", "a?b", "a[b]", "a:b", "a\nb", "a{b}"])
def test_a_home_that_deltas_writers_would_read_as_another_is_refused(tmp_path: Path, name: str) -> None:
    """``a%20b`` and ``a b`` are one folder to delta-rs."""
    with pytest.raises(BadInput) as caught:
        load_settings(home=tmp_path / name)
    assert (caught.value.code, caught.value.fields["settings"]) == ("SETTINGS_REFUSED", ["home"])
    assert load_settings(home=tmp_path / "a-b_c.d+e@f,g=h~1'(2);$3!&*").home.parent == tmp_path


def test_good_names_stay_below_the_lake(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path)
    assert Path(landing_table(settings, "flights_2")).parent == tmp_path / "lake" / "landing"
    assert VersionRef(settings, "delays", 2).folder == tmp_path / "lake" / "views" / "delays" / "v2"
    with pytest.raises(BadInput) as caught:
        VersionRef(settings, "delays", 0)
    assert caught.value.code == "VERSION_UNSAFE"


def test_a_cut_covers_what_lies_before_it() -> None:
    old, new = (Cut({"flights": Position(epoch, {0: epoch})}) for epoch in (1, 2))
    both = Cut({"flights": Position(1, {0: 1}), "weather": Position(4, {0: 9})})
    assert (new.covers(old), old.covers(new), both.covers(old), new.covers(both)) == (True, False, True, False)
    assert (old.behind(new), new.behind(old), both.behind(new), old.behind(Cut())) == (
        {"flights": 1},
        {},
        {"flights": 1},
        {},
    )
    assert Cut.from_json(both.to_json()).to_json() == both.to_json()
    assert Cut({"flights": Position(2, {})}) == new != old, "tables of views store epochs without offsets"
    assert parse_epochs(str(both)) == {"flights": 1, "weather": 4}
    with pytest.raises(ValueError, match="negative"):
        Position(1, {0: -1})


@pytest.mark.parametrize(
    "text", ["flights", "flights@", "flights@-1", "flights@x", "flights@1,flights@2", "flights@1.5"]
)
def test_what_is_no_cut_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_epochs(text)
    assert caught.value.code == "CUT_UNREADABLE"
