"""Choose the storage for an --output: a folder, or a URL of an object store."""

import os
import re

from splitter.errors import Refused
from splitter.options import RunPart
from splitter.storage.base import Storage
from splitter.storage.folder import LocalStorage
from splitter.storage.remote import RemoteStorage
from splitter.text.urls import is_url, without_scheme, without_secrets

# stores in which an object appears whole or not at all; other protocols are file systems, or read-only
STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "memory")
_SECRET = re.compile(r"^(s3a?|gs|gcs|oss|oci|memory)://[^/]*@|^\w+://[^/]*:[^/]*@")


def storage_of(output: str, part: RunPart | None = None) -> Storage:
    """Return the storage for an --output, which names a local folder or a folder in an object store."""
    if not is_url(output):
        return LocalStorage(os.path.expanduser(without_scheme(output)), part)
    protocol, _, rest = output.partition("://")
    if _SECRET.match(output):
        raise Refused(
            f"{protocol}://...@...: contains credentials, which others would see; put them into the "
            "environment or the configuration of the store's own client"
        )
    if protocol not in STORES:
        known = ", ".join(f"{one}://" for one in STORES)
        raise Refused(
            f"{without_secrets(output)}: splitter cannot write there; use a folder, or a URL of {known}"
        )
    names = [name for name in rest.split("/") if name]
    if not names or {".", ".."} & {*names}:
        raise Refused(f"{output}: names no folder in a store; write {protocol}://bucket/folder")
    root = f"{protocol}://{'/'.join(names)}"
    if part is not None:
        raise Refused(
            f"--part: cannot be used with {root}; use --executor ray, which divides the work, or a folder as "
            "--output"
        )
    return RemoteStorage(root)
