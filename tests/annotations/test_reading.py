"""Annotation files: each format as real tools write it, exactly, and for one recording at a time."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from annotation_files import read_annotations
from hypothesis import given
from hypothesis import strategies as st

from splitter.annotations import Annotation, AnnotationFile, annotations_of_rows
from splitter.errors import AnnotationError

FILES = Path(__file__).parent / "files"

Said = tuple[str, str, str, dict[str, str]]


def said(annotations: list[Annotation]) -> list[Said]:
    """Annotations with times as decimals, as a person would write them."""

    def decimal(time: Fraction) -> str:
        text = format(Decimal(time.numerator) / Decimal(time.denominator), "f")
        assert Fraction(text) == time
        return text

    return [(decimal(a.start), decimal(a.end), a.label, dict(a.columns)) for a in annotations]


# -- the formats -----------------------------------------------------------------------------------------


def test_rttm_gives_the_speakers_of_one_recording():
    """SPEAKER lines of the named recording, with ten fields or nine, in order of time; <NA> is nothing."""
    assert said(read_annotations(FILES / "meetings.rttm", recording="sound/meeting_01.wav")) == [
        ("0.031", "1.031", "Bo", {"channel": "1"}),
        ("0.031", "4.958", "Anna", {"channel": "1"}),
        ("2.984", "3.406", "Žofia", {"channel": "1", "confidence": "0.87"}),
    ]
    assert said(read_annotations(FILES / "meetings.rttm", recording="meeting_02")) == [
        ("7.3", "7.301", "Anna", {"channel": "2"})
    ]


def test_ctm_gives_words():
    """One word a line, comments passed over, confidence, type and speaker where they are known."""
    assert said(read_annotations(FILES / "words.ctm", recording="interview.sph")) == [
        ("0", "0.31", "well", {"channel": "A", "confidence": "0.98", "type": "lex", "speaker": "anna"}),
        ("0.31", "0.43", "<unk>", {"channel": "A", "type": "lex", "speaker": "anna"}),
        ("7.3", "7.55", "naïve", {"channel": "B"}),
    ]


def test_audacity_gives_points_regions_and_frequencies():
    """A label track with a BOM, CRLF, an empty label, a trailing tab, commas in times, a spectral label."""
    assert said(read_annotations(FILES / "Label Track.txt")) == [
        ("0", "0", "start", {}),
        ("2.15", "3.4", "porte qui claque", {"low_freq_hz": "1250.000000", "high_freq_hz": "4200.500000"}),
        ("3.4", "6.1", "", {}),
        ("12.5", "13.75", 'a "quoted" label', {}),
    ]


def test_long_textgrid_in_utf_16():
    """Praat's long format: all tiers, quotes and keywords within texts, no empty intervals, empty points."""
    assert said(read_annotations(FILES / "long.TextGrid")) == [
        ("0.30000000000000004", "1", "Straße", {"tier": "Wörter"}),
        ("0.65", "0.65", "H*", {"tier": "tones"}),
        ("1", "1.7", 'er sagte "intervals [4]:" \nxmin = 5', {"tier": "Wörter"}),
        ("2.1", "2.1", "", {"tier": "tones"}),
    ]


def test_short_textgrid_with_crlf():
    """Praat's short format, whose only signs are line order and quotes."""
    assert said(read_annotations(FILES / "short.TextGrid")) == [
        ("0", "0.07", "sil", {"tier": "phones"}),
        ("0.07", "1.25", "ɛ̃", {"tier": "phones"}),
        ("1.5", "1.5", "!", {"tier": "clicks"}),
    ]


def test_raven_gives_each_selection_once():
    """Two views of a selection are one annotation, measured in the spectrogram; quotes belong to labels."""
    found = said(read_annotations(FILES / "Recording 1.Table.1.selections.txt"))
    assert [entry[:3] for entry in found] == [
        ("1.25", "2", '"song" of 2'),
        ("1.25", "2", ""),
        ("6.709509878", "15.096397225", "European robin"),
    ]
    assert found[2][3] == {
        "selection": "1",
        "channel": "1",
        "low_freq_hz": "1739.012",
        "high_freq_hz": "3798.813",
        "delta_time_s": "8.3869",
        "avg_power_density_db_fs_hz": "-75.87",
    }


def test_raven_table_of_several_files_is_placed_in_each():
    """Begin times count through all files: the offset holds, unless it says the same with fewer digits."""
    table = AnnotationFile(FILES / "several files.selections.txt")
    assert [entry[:3] for entry in said(table.of("/data/day 1/dusk.wav"))] == [
        ("3.5", "6.5", "Turdus merula"),
        ("6.5", "9.5", "Erithacus rubecula"),
    ]
    assert [entry[:3] for entry in said(table.of("dawn.wav"))] == [("0.123456789", "3", "Turdus merula")]


@pytest.mark.parametrize(
    ("table", "times"),
    [
        (
            '"selec"\t"Selection"\t"Begin Time (s)"\t"End Time (s)"\t"Label"\n1\t1\t0.5\t1.5\t"a b"\n',
            ("0.5", "1.5"),
        ),
        ("Selection\tBegin Time (s)\tEnd Time (s)\tLabel\n1\t0,5\t1,5\ta b\n", ("0.5", "1.5")),
        ("Selection,Begin Time (s),End Time (s),Label\n1,0.5,1.5,a b\n", ("0.5", "1.5")),
        (
            "Selection\tBegin Time (s)\tEnd Time (s)\tFile Offset (s)\tLabel\n1\t60,5\t61,5\t0,5\ta b\n",
            ("0.5", "1.5"),
        ),
    ],
    ids=["written by R", "decimal commas", "commas", "offset with a decimal comma"],
)
def test_raven_tables_that_went_through_other_hands(write, table, times):
    """Quotes as R puts them, decimal commas, commas between the columns."""
    (found,) = said(read_annotations(write("a.txt", table)))
    assert found[:3] == (*times, "a b")


def test_srt_gives_text_without_tags():
    """BOM, CRLF, coordinates, tags, an empty line in a text, a cue without text, a number that is said."""
    assert said(read_annotations(FILES / "film.srt")) == [
        ("1", "2.5", "Où est la gare ?", {"cue": "1"}),
        ("62.5", "64.1", "2 < 3, she said and 3 > 2", {"cue": "2"}),
        ("3600", "3601", "1984", {"cue": "4"}),
    ]


def test_webvtt_gives_text_and_speakers():
    """Notes, styles and settings are passed over, voices kept, entities read; hours may be left out."""
    assert said(read_annotations(FILES / "talk.vtt")) == [
        ("1", "4.25", "Hello there Q&A <later>", {"cue": "intro", "speaker": "Mary Ann|Bob"}),
        ("360000", "360001", "the end", {}),
    ]


def test_csv_with_onsets_and_offsets():
    """A table of sound events: an offset beside an onset is an end; quoted fields come whole."""
    table = AnnotationFile(FILES / "events.csv")
    assert said(table.of("/somewhere/audio/street.wav")) == [
        ("0.25", "0.5", "bird", {"note": "two\r\nlines"}),
        ("0.5", "1.75", "car, red", {"note": ""}),
    ]
    assert said(table.of("audio/park.wav")) == [("7.3", "8", "dog", {"note": "007"})]


def test_csv_of_a_country_with_decimal_commas():
    """With semicolons between the columns, a comma in a time is a decimal point."""
    assert said(read_annotations(FILES / "europe.csv")) == [
        ("0.5", "1", "Ente", {"comment": ""}),
        ("1.5", "2.25", "Möwe", {"comment": "nur kurz"}),
    ]


def test_tsv_with_durations():
    """A start and a duration, whose sum is exact; the speaker is the label where there is none."""
    assert said(read_annotations(FILES / "spans.tsv")) == [
        ("0", "1", "bo", {"end_note": ""}),
        ("7.3", "7.75", "anna", {"end_note": "x"}),
    ]


def test_jsonl_manifest():
    """An offset with a duration is a start; values are the text that is written."""
    assert said(read_annotations(FILES / "manifest.jsonl", recording="/data/a/take 1.wav")) == [
        ("0.1", "0.3", "oui", {"tags": "", "ok": "false"}),
        ("7.3", "8.3", "ça va", {"tags": "[1, 2.50]", "ok": "true"}),
    ]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("start,end,label", "1,2.5,x"),
        ("start_seconds,end_seconds,label", "1,2.5,x"),
        ("Begin,End,Text", "1,2.5,x"),
        ("onset,offset,event_label", "1,2.5,x"),
        ("onset,duration,species", "1,1.5,x"),
        ("offset,duration,text", "1,1.5,x"),
        ("offset,start,duration,label", "99,1,1.5,x"),
        ("duration,start,stop,Label", "600,1,2.5,x"),
        ("start_sample,start,start_seconds,end_seconds,label", "44100,44100,1,2.5,x"),
        ("tmin,tier,text,tmax", "1,words,x,2.5"),
        ('"Start Time (s)","End Time (s)","Common Name"', "1,2.5,x"),
        ("start,Start,end,label", "1,9,2.5,x"),
        ("start;end;label", "1;2.5;x"),
        ("start\tend\tlabel", "1\t2.5\tx\t\t"),
        ("start,end,speaker,label", "0:01,0:00:02.5,someone,x"),
    ],
)
def test_columns_are_known_by_many_names(write, header, row):
    """The names that tools use for start, end, duration and label, whatever their case and order."""
    (found,) = said(read_annotations(write("a.csv", f"{header}\r\n{row}\r\n")))
    assert found[:3] == ("1", "2.5", "x")


def test_rows_of_a_dataset_list_stay_in_order():
    """One annotation for each row; the columns that are left keep their names and text."""
    rows = [
        {"input": "a.wav", "start": "7.3", "end": "8", "label": "b", "Speaker ID": "007"},
        {"input": "a.wav", "start": "0", "end": "0.10", "label": "a", "Speaker ID": ""},
    ]
    assert said(annotations_of_rows(rows, source="dataset.csv")) == [
        ("7.3", "8", "b", {"Speaker ID": "007"}),
        ("0", "0.1", "a", {"Speaker ID": ""}),
    ]
    with pytest.raises(AnnotationError, match=r"^a\.wav: row '8,7\.9': starts at '8' and ends at '7\.9', so"):
        annotations_of_rows([{"start": "1", "end": "2"}, {"start": "8", "end": "7.9"}], source="a.wav")


# -- texts and times -------------------------------------------------------------------------------------

SHORT = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n9\n<exists>\n1\n'


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"], ids=lambda name: name
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.TextGrid", SHORT + '"IntervalTier"\n"t"\n0\n9\n1\n1\n2.5\n"Ünï €"\n'),
        ("a.txt", "1\t2.5\tÜnï €\n"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,500\nÜnï €\n"),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.500\nÜnï €\n"),
        ("a.csv", "start,end,label\n1,2.5,Ünï €\n"),
        ("a.jsonl", '{"start": 1, "end": 2.5, "label": "Ünï €"}\n'),
        ("a.rttm", "SPEAKER a 1 1 1.5 <NA> <NA> Ünï_€ <NA> <NA>\n"),
    ],
)
def test_encodings_and_line_ends(write, name, text, line_end, encoding):
    """UTF-8 and UTF-16, with a mark or without, and any line end, in every format."""
    path = write(name, text.replace("\n", line_end).encode(encoding))
    (found,) = said(read_annotations(path))
    assert (*found[:2], found[2].replace("_", " ")) == ("1", "2.5", "Ünï €")


decimals = st.from_regex(
    r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,20})?", fullmatch=True, alphabet=st.characters(codec="ascii")
)


@given(start=decimals, length=decimals)
def test_times_are_exactly_what_is_written(tmp_path_factory, start, length):
    """No float comes near a time: any number of digits gives the fraction that they mean."""
    path = tmp_path_factory.getbasetemp() / "exact.rttm"
    path.write_text(f"SPEAKER a 1 {start} {length} <NA> <NA> x <NA> <NA>\n")
    (found,) = read_annotations(path)

    def exact(text: str) -> Fraction:
        whole, _, part = text.partition(".")
        return Fraction(int(whole + part), 10 ** len(part))

    assert (found.start, found.end) == (exact(start), exact(start) + exact(length))


texts = st.text(
    st.one_of(st.sampled_from('"!<>[]=\n\t 5'), st.characters(codec="utf-8", exclude_characters="\r"))
)
times = st.integers(0, 10**6)
intervals = st.lists(st.tuples(times, times.map(lambda length: length + 1), texts), max_size=4)
tiers = st.lists(st.tuples(texts, intervals, st.booleans()), max_size=3)


@given(tiers=tiers, is_long=st.booleans(), encoding=st.sampled_from(["utf-8", "utf-16"]))
def test_any_textgrid_comes_back(tmp_path_factory, tiers, is_long, encoding):
    """Whatever the texts hold, both text formats of Praat are read as they were written."""

    def written(name: str, value: object) -> str:
        text = '"' + value.replace('"', '""') + '"' if isinstance(value, str) else str(value)
        return f"    {name} = {text} " if is_long else text

    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        written("xmin", 0),
        written("xmax", 9),
    ]
    lines += [
        ("tiers? " if is_long else "") + "<exists>",
        written("size", len(tiers)),
        "item []: " if is_long else "",
    ]
    expected = []
    for number, (name, entries, points) in enumerate(tiers, 1):
        lines += [f"    item [{number}]:"] if is_long else []
        lines += [written("class", "TextTier" if points else "IntervalTier"), written("name", name)]
        lines += [written("xmin", 0), written("xmax", 9), written("intervals: size", len(entries))]
        for at, (start, length, text) in enumerate(entries, 1):
            lines += [f"        intervals [{at}]:"] if is_long else []
            stop = start if points else start + length
            lines += [written("xmin", start / 8)] + ([] if points else [written("xmax", stop / 8)])
            lines += [written("text", text)]
            if points or text.strip():
                expected.append((Fraction(start, 8), Fraction(stop, 8), text.strip(), {"tier": name}))
    path = tmp_path_factory.getbasetemp() / "any.TextGrid"
    path.write_bytes("\n".join(lines).encode(encoding))
    found = [(a.start, a.end, a.label, a.columns) for a in read_annotations(path)]
    assert found == sorted(expected, key=lambda entry: entry[:2])


# -- which recording -------------------------------------------------------------------------------------


def recordings(write: Callable[..., Path], *names: str) -> AnnotationFile:
    rows = "".join(f'0,{number},"{name}"\n' for number, name in enumerate(names, 1))
    return AnnotationFile(write("all.csv", f"start,end,file\n{rows}"))


@pytest.mark.parametrize(
    ("recording", "names", "taken"),
    [
        ("/data/x/a.wav", ["a", "b"], [1]),
        ("/data/x/a.wav", ["a.wav", "a.flac", "./a.wav"], [1, 3]),
        ("/data/x/a.wav", ["x/a.wav", "y/a.wav", "a.wav"], [1]),
        ("/data/x/a.wav", ["y/a.wav"], []),
        ("/data/x/a.wav", ["/home/me/x/a.wav", "/home/me/y/a.wav"], [1]),
        ("/data/x/a.wav", ["/home/me/a.wav"], [1]),
        ("/data/x/a.wav", ["C:\\sound\\x\\a.wav", "C:\\sound\\y\\a.wav"], [1]),
        ("/data/x/a.wav", ["b.wav", "aa.wav", "data", "x"], []),
        ("/data/x/take.1.wav", ["take", "take.1", "take.2"], [2]),
        ("/data/x/a", ["a.wav"], [1]),
        ("/data/x/caf\u00e9.wav", ["cafe\u0301"], [1]),
    ],
)
def test_a_recording_is_known_by_its_path(write, recording, names, taken):
    """With or without extension and folders, of another machine too; another folder is another recording."""
    found = recordings(write, *names).of(recording)
    assert [int(annotation.end) for annotation in found] == taken


def test_names_that_could_be_either_are_refused(write):
    """A bare name that fits recordings of two folders takes neither."""
    table = recordings(write, "x/a.wav", "y/a.wav", "b.wav")
    with pytest.raises(AnnotationError, match=r"line 3: 'x/a\.wav' and 'y/a\.wav' could both be a\.wav$"):
        table.of("a.wav")
    assert len(table.of("b.wav")) == 1


def test_a_file_of_several_recordings_is_not_mixed(write):
    """Without a recording a file of one recording gives it, whatever it is called; of two it refuses."""
    assert len(recordings(write, "x.wav", "x.wav").of()) == 2
    both = recordings(write, "x.wav", "y.wav")
    assert both.recordings == ("x.wav", "y.wav")
    with pytest.raises(AnnotationError, match=r"all\.csv: line 3: is for another recording than line 2;"):
        both.of()


def test_a_bad_time_fails_its_own_recording_only(write):
    """One file for all recordings, one bad line: the others are still read."""
    path = write("all.ctm", "a 1 0 1 yes\nb 1 0 x no\n")
    assert len(AnnotationFile(path).of("a.wav")) == 1
    with pytest.raises(AnnotationError, match=r"all\.ctm: line 2: 'x' is not a time in seconds$"):
        AnnotationFile(path).of("b.wav")
