"""An object store for the tests: a real S3 server on loopback, also behind a proxy that lets requests fail.

`s3` is a new bucket for one test, with the environment that makes every client find it; `faulty_s3` is the
same through the proxy. Tests look at the results with boto3, without the proxy and without splitter.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from warm_up import share_service_models

SERVER = Path(__file__).with_name("s3_server.py")
FAULTY_SHARE = 20
ACCESS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "a secret of the tests",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@dataclass(frozen=True)
class S3Server:
    """The URL of the server, that of its proxy, and the log of the proxy."""

    endpoint: str
    proxy: str
    log: Path

    def client(self) -> Any:
        """Return a client of boto3, which is independent of splitter."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",  # noqa: S106 - any will do
            region_name="us-east-1",
        )


@dataclass
class Bucket:
    """A bucket, and how to reach it.

    Attributes:
        name: The name of the bucket.
        environment: The variables that make a client find it, for processes not forked from this one.
        client: A client of boto3 that does not use the proxy.
    """

    name: str
    environment: dict[str, str]
    client: Any
    log: Path
    way: str = ""
    _noted: int = field(default=0)

    def url(self, prefix: str = "") -> str:
        """Return the URL of a name in the bucket."""
        return f"s3://{self.name}/{prefix}"

    def keys(self, prefix: str = "") -> list[str]:
        """Return all keys below a prefix, sorted."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return sorted(found["Key"] for page in pages for found in page.get("Contents", []))

    def read(self, key: str) -> bytes:
        """Return the content of an object."""
        content: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def write(self, key: str, content: bytes) -> None:
        """Write an object."""
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def tree(self, prefix: str) -> dict[str, bytes]:
        """Return the content of each object below a folder, without splitter's own, as `published.tree`."""
        start = f"{prefix.rstrip('/')}/" if prefix else ""
        names = [key.removeprefix(start) for key in self.keys(start)]
        return {name: self.read(start + name) for name in names if not name.startswith(".splitter/")}

    def uploads(self) -> list[str]:
        """Return the keys of open multipart uploads."""
        found = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])
        return [upload["Key"] for upload in found]

    def requests(self) -> list[str]:
        """Return the requests through the proxy since the last call, as `GET /bucket/key`."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        new, self._noted = lines[self._noted :], len(lines)
        return [line for line in new if line.partition(" /")[2].startswith(self.name)]


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Start the server in a separate process."""
    share_service_models()
    log = tmp_path_factory.mktemp("s3") / "requests"
    serving = subprocess.Popen(
        [sys.executable, SERVER, log],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # moto logs each request there
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert serving.stdin
    assert serving.stdout
    port, proxy = serving.stdout.readline().split()
    yield S3Server(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{proxy}", log)
    serving.stdin.close()
    serving.wait()
    serving.stdout.close()


def bucket_of(
    server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    *,
    share: int | None = None,
    seed: int = 0,
    kind: str = "any",
) -> Bucket:
    """Make a bucket; with a share, behind the proxy, which lets `share` of a hundred requests fail."""
    client = server.client()
    name = f"bucket-{secrets.token_hex(6)}"
    client.create_bucket(Bucket=name)
    way = f"{share}-{kind}-{seed}-{name}" if share is not None else ""
    environment = {**ACCESS, "AWS_ENDPOINT_URL": f"{server.proxy}/{way}" if way else server.endpoint}
    if way:
        # waiting for botocore's own retries would take most of the test; other clients do not use them
        environment["AWS_MAX_ATTEMPTS"] = "1"
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    bucket = Bucket(name, environment, client, server.log, way)
    bucket.requests()
    return bucket


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Make a bucket for one test, and the environment that makes clients find it."""
    return bucket_of(s3_server, monkeypatch)


@pytest.fixture
def recorded_s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Make a bucket whose requests are recorded."""
    return bucket_of(s3_server, monkeypatch, share=0)


@pytest.fixture
def faulty_s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Make a bucket behind a proxy that fails a fifth of requests: throttled, reset, lost, half answered."""
    return bucket_of(s3_server, monkeypatch, share=FAULTY_SHARE, seed=1)
