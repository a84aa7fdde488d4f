"""What an error quotes of an event is no Markdown in a run's note, and the note stays readable."""

from __future__ import annotations

import re

import pytest
from airflow.sdk.exceptions import AirflowException
from anabranch.apps.airflow._run_failure import failure_text
from anabranch.apps.airflow._run_notes import as_note
from anabranch.apps.airflow.note_markdown import as_markdown, as_text

pytestmark = pytest.mark.unit
QUOTED = "![x](https://evil.example/p.png) [log in](https://evil.example)\n\n[a]: https://evil.example\n<div hidden>[a]"


def test_a_failed_runs_note_has_no_link_image_or_html_of_an_event() -> None:
    note = as_note(failure_text("build", AirflowException(f"The value '{QUOTED}' cannot be cast")))
    assert note.count("evil.example") == 3
    assert "hidden" in note
    assert "](" not in note
    assert "]:" not in note
    assert not re.search(r"(?<!\\)(\\\\)*<[a-z]", note)
    assert note.startswith("Failed in build: The value '![x]\\(https")


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("[x](y)", r"[x]\(y)"),
        (r"[x\](y)", r"[x\]\(y)"),
        ("[x]: y", r"[x]\: y"),
        ("<img src=x>", r"\<img src=x>"),
        ("<!-- x", r"\<!-- x"),
        ("</div>", r"\</div>"),
        (r"\<img>", r"\<img>"),
        (r"\\<img>", r"\\\<img>"),
    ],
)
def test_what_would_begin_a_link_or_html_is_escaped(text: str, markdown: str) -> None:
    assert as_markdown(text) == markdown


@pytest.mark.parametrize(
    "text",
    [
        "Rebuilt 2013-01-01 to 2013-01-02 (2 days) of departure_delays v1: 3 rows at flights@6.",
        "Checks: http://127.0.0.1:18080/anabranch/checks/run-1?day=2013-01-01",
        "Failed in plan: to is before from [RANGE_REVERSED]",
        "[CAST_INVALID_INPUT] The value 'x' of `origin` can't be cast (a < b, 1<2) f[0] * 2",
        "Failed in plan\n(try 1)",
    ],
)
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert as_markdown(text) == text


@pytest.mark.parametrize("text", [QUOTED, "Failed: TypeError: <lambda>() got f[0](x) and <class 'int'>", "[CODE]: why"])
def test_commands_and_our_pages_show_a_note_without_its_escapes(text: str) -> None:
    assert as_markdown(text) != text
    assert as_text(as_markdown(text)) == text
