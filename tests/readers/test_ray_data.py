"""The shards of `--sink parquet`, read by Ray Data in the way of the documentation."""

import json
import os
import subprocess
import sys

from doors import read_table

PROGRAM = """
import hashlib, io, json, sys
import ray, soundfile

def decode(row):
    samples, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]), dtype="float32")
    known = {name: row[name] for name in ("key", "label", "frames")}
    return {**known, "rate": rate, "samples": samples}

@ray.remote(num_cpus=0.25)
def read(part):
    found = []
    for batch in part.iter_batches(batch_size=3):
        for key, label, frames, rate, samples in zip(*(batch[name] for name in batch), strict=True):
            assert samples.shape == (frames,), (samples.shape, frames)
            found.append([key, label, int(rate), hashlib.sha256(samples.tobytes()).hexdigest()])
    return found

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
ray.data.DataContext.get_current().enable_progress_bars = False
data = ray.data.read_parquet(sys.argv[1])
data = data.map(decode, num_cpus=0.25, compute=ray.data.TaskPoolStrategy(size=2))
print(json.dumps(ray.get([read.remote(part) for part in data.streaming_split(2, equal=True)])))
"""


def test_two_readers_share_the_samples(made, loose):
    """Decoded on the way; equal parts, in which no sample is twice, and each is what the manifest says."""
    import hashlib
    import io

    import soundfile

    outputs = made("ray", "--sink", "parquet", "--shard-maxcount", "4")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, outputs / "shards"],
        capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "RAY_DEDUP_LOGS": "0", "RAY_prestart_worker_first_driver": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout.splitlines()[-1])
    assert len(first) == len(second) == len(loose) // 2
    manifest = {row["output"].rpartition("/")[2][:-4]: row for row in read_table(outputs / "manifest.csv")}
    read = {key: rest for key, *rest in first + second}
    assert len(read) == len(first) + len(second)
    for key, (label, rate, digest) in read.items():
        samples, _ = soundfile.read(io.BytesIO(loose[key]), dtype="float32")
        assert label == manifest[key]["label"]
        assert (str(rate), digest) == (
            manifest[key]["sample_rate"],
            hashlib.sha256(samples.tobytes()).hexdigest(),
        )
