"""The recipe `words`, and the windows it is made of."""

import pytest
from doors import WORDS, here, read_table, tree, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter import InputList
from splitter.errors import Refused
from splitter.recipes.words import Words, split_word

sizes = st.integers(1, 8).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


def by_hand(word: str, num_chars: int, overlap: int) -> list[str]:
    """Window by window: go on by what is not shared, and move the last one back to full length."""
    if len(word) <= num_chars:
        return [word] if word else []
    parts, start = [], 0
    while start + num_chars < len(word):
        parts.append("".join(word[start + i] for i in range(num_chars)))
        start += num_chars - overlap
    parts.append("".join(word[len(word) - num_chars + i] for i in range(num_chars)))
    return parts


@settings(max_examples=depth(100))
@given(st.text(max_size=30), sizes)
def test_the_parts_of_any_word(word, size):
    """They are those that are found window by window, and together they hold every letter."""
    num_chars, overlap = size
    parts = split_word(word, num_chars, overlap)
    assert parts == by_hand(word, num_chars, overlap)
    if len(word) > num_chars:
        assert all(len(part) == num_chars for part in parts)
        whole = parts[0]
        for part in parts[1:-1]:
            assert whole.endswith(part[:overlap])
            whole += part[overlap:]
        assert whole == word[: len(whole)]
        assert parts[-1] == word[-num_chars:]
        assert len(word) <= len(whole) + num_chars - overlap
    else:
        assert "".join(parts) == word


@pytest.mark.parametrize(
    ("word", "num_chars", "overlap", "parts"),
    [
        ("hello", 2, 1, ["he", "el", "ll", "lo"]),
        ("hello", 3, 2, ["hel", "ell", "llo"]),
        ("hello", 3, 0, ["hel", "llo"]),
        ("hello", 2, 0, ["he", "ll", "lo"]),
        ("hello", 4, 1, ["hell", "ello"]),
        ("hello", 5, 4, ["hello"]),
        ("hello", 9, 0, ["hello"]),
        ("hello", 1, 0, ["h", "e", "l", "l", "o"]),
        ("h", 2, 1, ["h"]),
        ("", 2, 1, []),
        ("żółć", 2, 1, ["żó", "ół", "łć"]),
    ],
)
def test_the_parts_of_some_words(word, num_chars, overlap, parts):
    """As the issue and the docs give them."""
    assert split_word(word, num_chars, overlap) == parts


@pytest.mark.parametrize(("num_chars", "overlap"), [(2, 2), (2, 3), (1, 1), (0, 0), (2, -1), (-1, -2)])
def test_windows_that_would_not_move_on(words, capfd, num_chars, overlap):
    """They are refused before work: by the function, the class and the command line."""
    message = f"overlap {overlap}: must be at least 0 and less than num-chars, which is {num_chars}"
    with pytest.raises(Refused, match=message):
        split_word("hello", num_chars, overlap)
    with pytest.raises(Refused, match=message):
        Words(words, num_chars=num_chars, overlap=overlap)
    options = ["--num-chars", str(num_chars), "--overlap", str(overlap), "--output", words.parent / "out"]
    said = here(capfd, "run", words, "--recipe", "words", "--root", "inputs", *options)
    assert (said.code, said.lines) == (2, [f"splitter: {message}"])
    assert not (words.parent / "out").exists()


@pytest.mark.parametrize(("num_chars", "overlap"), [(2, 1), (3, 2), (5, 0), (20, 3)])
def test_a_run(words, tmp_path, num_chars, overlap):
    """One file for each part, in order; the part and the word stand in the manifest."""
    manifest = Words(InputList(words, root="inputs"), num_chars, overlap).run(
        tmp_path / "out", workers=1, quiet=True
    )
    expected = [
        (name, f"{name[0]}/{number}.txt", part, word)
        for name, word in WORDS.items()
        for number, part in enumerate(by_hand(word, num_chars, overlap))
    ]
    assert list(manifest[["input", "output", "part", "word"]].itertuples(index=False, name=None)) == expected
    found = tree(tmp_path / "out")
    assert len(found) == len(expected) + 1
    assert all(found[output] == part.encode() for _, output, part, _ in expected)


def test_odd_texts(folder, tmp_path):
    """Space around the word is not part of it; no word makes no output; what is not UTF-8 is an error."""
    write_files(folder, {"a": "  hi \r\n", "b": " \n", "c": b"\xff\xfe", "d": "zwei Wörter", "e": ""})
    write_list(folder / "l.csv", [["input"], *"abcde"])
    manifest = Words(folder / "l.csv").run(tmp_path / "out", workers=1, quiet=True)
    rows = [(row["input"], row["part"]) for row in read_table(tmp_path / "out/manifest.csv")]
    assert rows[:2] == [("a", "hi"), ("b", "")]
    assert rows[2:-1] == [("d", part) for part in by_hand("zwei Wörter", 2, 1)]
    assert rows[-1] == ("e", "")
    assert list(manifest.failed["input"]) == ["c"]
