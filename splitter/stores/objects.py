"""Objects of a store below a URL: each appears whole or not at all, and failed requests are repeated.

Names are relative to the URL, with forward slashes. `S3Objects` sends S3 requests itself, for what fsspec
cannot do: upload an object by one PUT up to S3's limit, reading the file while sending it; delete many
objects and learn which failed; abort uploads that a dead process left open.
"""

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from splitter.stores.clients import SECONDS_OF_SILENCE, client_for
from splitter.stores.faults import code_of, is_missing
from splitter.stores.retries import Answer, with_patience
from splitter.stores.threads import in_threads
from splitter.text.content_types import REPORT, type_of
from splitter.text.urls import without_secrets

# the error code of S3, and the message for users
NO_SUCH_BUCKET = "NoSuchBucket"
NO_BUCKET = "there is no such bucket; create it first, or fix the URL"

# seconds for which a request is repeated before a run gives up
PATIENCE = 120.0
# the most bytes that S3 takes in one PUT, or copies in one request
LARGEST_PUT = 5 << 30
PART_BYTES = 64 << 20
MOST_PARTS = 9000
PARTS_AT_A_TIME = 4
READ_AT_ONCE = 8 << 20
KEYS_AT_A_TIME = 1000
# characters that XML cannot contain, and so neither can a request that deletes many keys
_NOT_IN_XML = re.compile("[\x00-\x1f\x7f\ufffe\uffff]")


class Objects:
    """Objects below a URL, in any store that fsspec supports."""

    LONGEST_NAME = 1024

    def __init__(self, root: str, patience: float = PATIENCE) -> None:
        self.root = root
        self.patience = patience

    def _client(self) -> Any:  # noqa: ANN401 - of whatever package knows the protocol
        # not an instance that other code has configured, nor one of a parent process
        return client_for(self.root, skip_instance_cache=True, **self._options())

    def _options(self) -> dict[str, Any]:
        return {}

    def _address(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _patiently(self, call: Callable[[], Answer]) -> Answer:
        return with_patience(call, self.patience)

    # -- one object

    def write(self, name: str, content: bytes) -> None:
        """Store a small object, replacing any of that name."""
        self._patiently(lambda: self._client().pipe_file(self._address(name), content))

    def create(self, name: str, content: bytes) -> bool:
        """Store a small object if there is none of that name; return whether this one is now there."""
        with contextlib.suppress(FileExistsError):
            self._patiently(lambda: self._client().pipe_file(self._address(name), content, mode="create"))
        # the answer to a successful try may have been lost, and some stores ignore the condition
        return self.read(name) == content

    def upload(self, name: str, file: BinaryIO) -> None:
        """Upload a file, which may be large, replacing any object of that name."""
        self._patiently(
            lambda: self._client().put_file(f"/dev/fd/{_rewound(file).fileno()}", self._address(name))
        )

    def read(self, name: str) -> bytes:
        """Return a whole object."""
        return self._patiently(lambda: self._client().cat_file(self._address(name)))

    def read_part(self, name: str, start: int, stop: int) -> bytes:
        """Return the bytes of an object from `start` to `stop`, which must not be past its end."""
        return self._patiently(lambda: self._client().cat_file(self._address(name), start=start, end=stop))

    def read_up_to(self, name: str, start: int, stop: int) -> bytes:
        """Return the bytes of an object from `start` to `stop`, or to its end if that comes first."""
        size = self.size(name)
        if size is None:
            raise FileNotFoundError(name)
        return self.read_part(name, start, min(stop, size)) if start < size else b""

    def size(self, name: str) -> int | None:
        """Return the size of an object in bytes; None if it does not exist."""
        try:
            return int(self._patiently(lambda: self._client().size(self._address(name))))
        except Exception as error:
            if is_missing(error):
                return None
            raise

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store."""
        self._patiently(lambda: self._client().cp_file(self._address(source), self._address(target)))

    # -- many objects

    def listed(self, folder: str, beginning: str = "") -> dict[str, int]:
        """Return the names in a folder that start with `beginning`, and their sizes; 0 for folders."""
        try:
            found = self._patiently(lambda: self._client().ls(self._address(folder), detail=True))
        except Exception as error:
            if is_missing(error):
                return {}
            raise
        sizes = {one["name"].rstrip("/").rpartition("/")[2]: int(one["size"] or 0) for one in found}
        return {name: size for name, size in sorted(sizes.items()) if name.startswith(beginning)}

    def below(self, folder: str) -> list[str]:
        """Return all names in a folder and in the folders below it."""
        start = self._address(folder).partition("://")[2].rstrip("/") + "/"
        found = self._patiently(lambda: self._client().find(self._address(folder)))
        names = (name.lstrip("/").removeprefix(start) for name in found)
        return sorted(f"{folder}/{name}" for name in names)

    def all_names(self) -> Iterator[str]:
        """Yield all names below the URL, except objects that represent folders."""
        yield from (name.removeprefix("/") for name in self.below(""))

    def any_name(self) -> str:
        """Return any name below the URL; empty if there is none."""
        return next(iter(self.listed("")), "")

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; ignore missing ones."""
        in_threads(self._delete, list(names))

    def _delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._patiently(lambda: self._client().rm_file(self._address(name)))

    def abort_uploads(self, names: Iterable[str] = (), below: Collection[str] = ()) -> None:
        """Abort the uploads that a dead process left open; most stores drop them by themselves.

        These are the uploads of `names`, and of all names that are in `below`, or whose top folder is.
        """


def _kind(name: str) -> dict[str, str]:
    """Return the content type of an object; only the report is a page for browsers to show."""
    return {"ContentType": "text/html; charset=utf-8" if name == REPORT else type_of(name)}


class S3Objects(Objects):
    """Objects in S3, and in stores with the same protocol."""

    def __init__(self, root: str, patience: float = PATIENCE) -> None:
        super().__init__(root, patience)
        self.bucket, _, prefix = root.partition("://")[2].partition("/")
        self._prefix = f"{prefix}/" if prefix else ""

    def _options(self) -> dict[str, Any]:
        import fsspec

        asked = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
        return {"config_kwargs": {"read_timeout": SECONDS_OF_SILENCE, **asked}}

    def _key(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def _ask_once(self, method: str, name: str | None = None, **named: Any) -> Any:  # noqa: ANN401 - botocore's
        if name is not None:
            named["Key"] = self._key(name)
        client = self._client()
        # `_patiently` repeats the request, at random intervals
        client.retries = 1
        return client.call_s3(method, Bucket=self.bucket, **named)

    def _ask(self, method: str, name: str | None = None, **named: Any) -> Any:  # noqa: ANN401 - botocore's
        return self._patiently(lambda: self._ask_once(method, name, **named))

    def write(self, name: str, content: bytes) -> None:
        self._ask("put_object", name, Body=content, **_kind(name))

    def create(self, name: str, content: bytes) -> bool:
        """Send one PUT that fails if the object exists; look first if the store lacks this condition."""
        try:
            self._ask("put_object", name, Body=content, IfNoneMatch="*")
        except FileExistsError:
            pass
        except Exception as error:
            if code_of(error) != "NotImplemented":
                raise
            if self.size(name) is None:
                self.write(name, content)
        return self.read(name) == content

    def upload(self, name: str, file: BinaryIO) -> None:
        """Upload a file, up to 5 GiB by one PUT; it is read while it is sent."""
        if os.fstat(file.fileno()).st_size > LARGEST_PUT:
            self._upload_in_parts(name, file)
        else:
            self._patiently(lambda: self._ask_once("put_object", name, Body=_rewound(file), **_kind(name)))

    def _upload_in_parts(self, name: str, file: BinaryIO) -> None:
        size = os.fstat(file.fileno()).st_size
        step = max(PART_BYTES, -(-size // MOST_PARTS))
        upload = self._ask("create_multipart_upload", name, **_kind(name))["UploadId"]

        def send(start: int) -> dict[str, Any]:
            number = start // step + 1
            content = os.pread(file.fileno(), step, start)
            answer = self._ask("upload_part", name, UploadId=upload, PartNumber=number, Body=content)
            return {"PartNumber": number, "ETag": answer["ETag"]}

        try:
            parts = {"Parts": in_threads(send, range(0, size, step), PARTS_AT_A_TIME)}
            self._ask("complete_multipart_upload", name, UploadId=upload, MultipartUpload=parts)
        except BaseException as error:
            # the upload may have been completed, and only the answer lost
            if code_of(error) != "NoSuchUpload" or self.size(name) != size:
                with contextlib.suppress(Exception):
                    self._ask("abort_multipart_upload", name, UploadId=upload)
                raise
        # if the answer to the first request was lost, its repetition has opened a second upload
        self.abort_uploads([name])

    def read(self, name: str) -> bytes:
        return self._content(name)

    def read_part(self, name: str, start: int, stop: int) -> bytes:
        return self._content(name, Range=f"bytes={start}-{stop - 1}")

    def read_up_to(self, name: str, start: int, stop: int) -> bytes:
        try:
            return self.read_part(name, start, stop)
        except Exception as error:
            # the object ends before `start`
            if code_of(error) in ("InvalidRange", "416"):
                return b""
            raise

    def _content(self, name: str, **named: str) -> bytes:
        from fsspec.asyn import sync

        def get() -> bytes:
            body = self._ask_once("get_object", name, **named)["Body"]
            return sync(self._client().loop, body.read)

        return self._patiently(get)

    def size(self, name: str) -> int | None:
        with contextlib.suppress(FileNotFoundError):
            return int(self._ask("head_object", name)["ContentLength"])
        return None

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store, up to 5 GiB by one request."""
        size = self.size(source)
        if size is not None and size > LARGEST_PUT:
            super().copy(source, target)
            return
        origin = {"Bucket": self.bucket, "Key": self._key(source)}
        self._ask("copy_object", target, CopySource=origin)

    def listed(self, folder: str, beginning: str = "") -> dict[str, int]:
        """Return the same, with one LIST for each thousand names."""
        start = self._key(f"{folder}/" if folder else "")
        found: dict[str, int] = {}
        for page in self._pages("list_objects_v2", Prefix=f"{start}{beginning}", Delimiter="/"):
            found.update((one["Key"].removeprefix(start), one["Size"]) for one in page.get("Contents", []))
            folders = (one["Prefix"].removeprefix(start) for one in page.get("CommonPrefixes", []))
            found.update((name.rstrip("/"), 0) for name in folders)
        return dict(sorted(found.items()))

    def below(self, folder: str) -> list[str]:
        """Return the same, with one LIST for each thousand names."""
        pages = self._pages("list_objects_v2", Prefix=self._key(f"{folder}/"))
        keys = (one["Key"] for page in pages for one in page.get("Contents", []))
        return sorted(key.removeprefix(self._prefix) for key in keys)

    def all_names(self) -> Iterator[str]:
        """Yield the same, with one LIST for each thousand names."""
        for page in self._pages("list_objects_v2", Prefix=self._prefix):
            for one in page.get("Contents", []):
                if one["Size"] or not one["Key"].endswith("/"):
                    yield one["Key"].removeprefix(self._prefix)

    def any_name(self) -> str:
        """Return the same, with one LIST for a single name."""
        page = self._ask("list_objects_v2", Prefix=self._prefix, MaxKeys=1)
        return next((one["Key"].removeprefix(self._prefix) for one in page.get("Contents", [])), "")

    def _pages(self, method: str, **named: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - botocore's
        while True:
            page = self._ask(method, **named)
            yield page
            if not page.get("IsTruncated"):
                return
            if method == "list_objects_v2":
                named["ContinuationToken"] = page["NextContinuationToken"]
            else:
                named.update(KeyMarker=page["NextKeyMarker"], UploadIdMarker=page["NextUploadIdMarker"])

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects in order, with one request for each thousand."""
        plain = []
        for name in names:
            if _NOT_IN_XML.search(self._key(name)):
                self._ask("delete_object", name)
            else:
                plain.append(name)
        for start in range(0, len(plain), KEYS_AT_A_TIME):
            self._delete_some(plain[start : start + KEYS_AT_A_TIME])

    def _delete_some(self, names: Sequence[str]) -> None:
        keys = [{"Key": self._key(name)} for name in names]

        def ask() -> None:
            answer = self._ask_once("delete_objects", Delete={"Objects": keys, "Quiet": True})
            # the request succeeds as a whole even if some keys were not deleted
            failed = [one for one in answer.get("Errors", []) if one.get("Code") != "NoSuchKey"]
            if failed:
                keys[:] = [{"Key": one["Key"]} for one in failed]
                raise NotDeleted(failed[0].get("Code", ""), failed[0].get("Message", ""))

        self._patiently(ask)

    def abort_uploads(self, names: Iterable[str] = (), below: Collection[str] = ()) -> None:
        """Abort those uploads that this user may list and abort."""
        chosen = {*names}
        with contextlib.suppress(PermissionError, NotImplementedError, OSError):
            for page in self._pages("list_multipart_uploads", Prefix=self._prefix):
                for one in page.get("Uploads", []):
                    name = one["Key"].removeprefix(self._prefix)
                    if name in chosen or name.partition("/")[0] in below:
                        self._ask("abort_multipart_upload", name, UploadId=one["UploadId"])


class NotDeleted(OSError):
    """A deletion of many objects that failed for some, with S3's code for the first."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.response = {"Error": {"Code": code}}


def objects_at(root: str, patience: float = PATIENCE) -> Objects:
    """Return the objects below a URL."""
    kind = S3Objects if root.partition(":")[0] in ("s3", "s3a") else Objects
    return kind(root, patience)


def shown(error: BaseException) -> str:
    """Return the text of an error on one line, without secrets."""
    return " ".join(without_secrets(str(error) or type(error).__name__).split())


def _rewound(file: BinaryIO) -> BinaryIO:
    file.seek(0)
    return file
