"""From loose files through the tar tools, a run and tables back to samples: nothing is lost on the way."""

import csv
import hashlib
from pathlib import Path

import pytest
import soundfile
import xxhash
from doors import here, read_table
from sounds import noise
from tar_archives import read_tar

import splitter

COUNT = 11


@pytest.mark.parametrize("sink", ["parquet", "webdataset"])
def test_files_to_archives_to_shards_to_samples(folder: Path, capfd, sink: str):
    """Counts, labels, sizes and checksums are the same at each step, and so is each sample of sound."""
    recorded = {}
    with (folder / "plan.csv").open("w", newline="") as file:
        plan = csv.writer(file)
        plan.writerow(["key", "@wav", "label"])
        for number in range(COUNT):
            recorded[f"r{number:02d}"] = noise(1600 + 160 * number, seed=number)
            soundfile.write(folder / f"{number}.wav", recorded[f"r{number:02d}"], 16000)
            plan.writerow([f"r{number:02d}", f"{number}.wav", f"00{number % 3}"])
    everything, shards = folder / "all.tar", folder / "shards-{0000..0002}.tar"
    assert here(capfd, "tar", "create", folder / "plan.csv", "-o", everything).code == 0
    split = ["--count", "4", "-o", folder / "shards-{shard:04d}.tar"]
    assert here(capfd, "tar", "split", everything, *split).code == 0
    members = [member for path in sorted(folder.glob("shards-*.tar")) for member in read_tar(path)]
    assert members == read_tar(everything)
    given = [
        "--member",
        "wav",
        "--seconds",
        "0.05",
        "--sink",
        sink,
        "--shard-maxcount",
        "7",
        "--workers",
        "2",
    ]
    run = here(capfd, "run", shards, *given, "--output", folder / "out")
    assert run.code == 0, run.err
    manifest = read_table(folder / "out" / "manifest.csv")
    pieces = {
        key: [sound[at : at + 800] for at in range(0, len(sound), 800)] for key, sound in recorded.items()
    }
    assert len(manifest) == sum(map(len, pieces.values()))
    assert len({row["output"].split("/")[1] for row in manifest}) > 1
    found: dict[str, list[str]] = {key: [] for key in recorded}
    for decoded, plain in zip(
        splitter.open(folder / "out"), splitter.open(folder / "out", decode=False), strict=True
    ):
        key = Path(decoded["input"]).stem
        assert decoded["label"] == f"00{int(key[1:]) % 3}"
        assert plain["size"] == len(plain["content"])
        assert plain["checksum"] == f"xxh128:{xxhash.xxh3_128_hexdigest(plain['content'])}"
        sound = (decoded["content"] * 32768).round().short().numpy()
        found[key].append(digest(sound.T))
    assert found == {key: [digest(piece) for piece in some] for key, some in pieces.items()}


def digest(samples) -> str:
    return hashlib.sha256(samples.astype("<i2").tobytes()).hexdigest()
