"""Join a Ray cluster, or start a private one."""

import contextlib
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import ray
import ray.exceptions

from splitter.errors import Refused, RunStopped
from splitter.executors.base import Cluster
from splitter.system.reaper import reaper_beside
from splitter.system.signals import ASKING_TO_END

SECONDS_TO_CONNECT = 10.0
OBJECT_STORE_BYTES = 256 << 20
LONGEST_PARENT = 20


def _settings(cluster: Cluster) -> dict[str, Any]:
    """Return the settings of every connection to Ray."""
    return {
        "log_to_driver": cluster.verbose,
        "logging_level": "INFO" if cluster.verbose else "CRITICAL",
        "runtime_env": dict(cluster.runtime_env) or None,
        "namespace": "splitter",
    }


def _init(address: str, cluster: Cluster) -> None:
    """Connect to a cluster; try twice with Ray's client, since its server sometimes fails to start one."""
    try:
        ray.init(address=address, **_settings(cluster))
    except ConnectionError:
        if not address.startswith("ray://"):
            raise
        ray.init(address=address, **_settings(cluster))


@contextlib.contextmanager
def joined_cluster(address: str, cluster: Cluster) -> Iterator[None]:
    """Stay connected to a cluster during the block; use, and leave, a connection that exists already."""
    if ray.is_initialized():
        yield
        return
    _refuse_silent(address)
    with _without_messages(cluster):
        try:
            _refuse_locked(address)
            _init(address, cluster)
        except (ConnectionError, ray.exceptions.RayError, RuntimeError, ValueError, OSError) as error:
            raise Refused(f"--address {address}: {reason_of_ray(error)}") from None
        try:
            yield
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _without_messages(cluster: Cluster) -> Iterator[None]:
    """Keep messages of nodes off standard output, such as forty lines of state when a node has died.

    Ray prints them whatever `log_to_driver` says.
    """
    worker: Any = None
    with contextlib.suppress(ImportError):
        from ray._private import worker
    # another release of Ray may have other internals, and then prints
    name = "_worker_logs_enabled"
    before = getattr(worker, name, None)
    if before is None or cluster.verbose:
        yield
        return
    setattr(worker, name, False)
    try:
        yield
    finally:
        setattr(worker, name, before)


@contextlib.contextmanager
def private_cluster(size: dict[str, Any], cluster: Cluster) -> Iterator[None]:
    """Start a private Ray for the duration of the block, and leave nothing of it behind."""
    if ray.is_initialized():
        raise Refused("Ray is already in use in this process; use --address auto, or call ray.shutdown()")
    folder = _short_folder()
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_metrics_collection": "0"}
    if takes_token():
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    # the environment outlives Ray, whose threads use the token until the last moment
    with reaper_beside(folder) as mark, _environment({**settings, **mark}), contextlib.ExitStack() as stack:
        stack.callback(ray.shutdown)
        try:
            ray.init(
                address="local",
                include_dashboard=False,
                _temp_dir=folder,
                object_store_memory=OBJECT_STORE_BYTES,
                **size,
                **_settings(cluster),
            )
        except Exception as error:  # noqa: BLE001 - Ray raises a plain one if a node starts too slowly
            why = f"{reason_of_ray(error)}; run the same command to try again"
            raise RunStopped(f"Ray cannot be started here: {why}") from None
        yield


def _short_folder() -> str:
    """Make a temporary folder whose path is short enough for Ray's sockets, whose paths have a limit."""
    parent = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="splitter-", dir=parent if len(parent) <= LONGEST_PARENT else "/tmp")  # noqa: S108


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Set variables of the environment that Ray's processes inherit."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    _reread_environment()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        _reread_environment()


def takes_token() -> bool:
    """Return whether a private Ray can have a token: only if Ray can be made to read its settings again."""
    return _settings_reader() is not None


def _settings_reader() -> tuple[Any, Any] | None:
    try:
        from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]
    except ImportError:
        return None
    return Config, AuthenticationTokenLoader


def _reread_environment() -> None:
    """Make Ray read its settings again; on its own, it does so only when it is imported."""
    if reader := _settings_reader():
        config, tokens = reader
        config.initialize("")
        tokens.instance().reset_cache()


@contextlib.contextmanager
def own_signal_handlers() -> Iterator[None]:
    """Restore the run's signal handlers after Ray has set its own."""
    before = {number: signal.getsignal(number) for number in ASKING_TO_END}
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            for number, handler in before.items():
                signal.signal(number, handler)


def _refuse_silent(address: str) -> None:
    """Refuse an address where nothing listens: Ray would keep trying for minutes."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    if address == "local":
        raise Refused(
            "--address local: remove it; without an address a private Ray is started on this machine"
        )
    if address == "auto" or not parts.hostname:
        return
    try:
        port = parts.port or (10001 if parts.scheme == "ray" else 6379)
        socket.create_connection((parts.hostname, port), SECONDS_TO_CONNECT).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Refused(
            f"--address {address}: cannot be reached: {reason}; check that the cluster is running"
        ) from None


def _refuse_locked(address: str) -> None:
    """Refuse a cluster with another token: Ray would try, and complain, twenty times."""
    try:
        is_open = _opens_to_a_client(address) if "://" in address else _opens(address)
    except ImportError:
        # another release of Ray may have other internals; it still refuses a wrong token, though later
        return
    if not is_open:
        raise Refused(
            f"--address {address}: the token is missing or wrong; set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH, to the values of the cluster"
        )


def _opens(address: str) -> bool:
    """Return whether a cluster accepts our token."""
    from ray._private.services import canonicalize_bootstrap_address_or_die
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    found = canonicalize_bootstrap_address_or_die(address)
    try:
        with _without_stderr():
            GcsClient(address=found)
    except ray.exceptions.AuthenticationError:
        return False
    return True


def _opens_to_a_client(address: str) -> bool:
    """Return whether a server for Ray's clients accepts our token: Ray would try long, and not say why."""
    try:
        import grpc
    except ImportError:
        raise Refused(f"--address {address}: needs Ray's client: pip install 'ray[client]'") from None
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import ray_client_pb2, ray_client_pb2_grpc

    messages: Any = ray_client_pb2
    ping = messages.ClusterInfoRequest(type=messages.ClusterInfoType.PING)
    metadata = [("client_id", secrets.token_hex(16))]
    try:
        with _without_stderr(), init_grpc_channel(urlsplit(address).netloc) as channel:
            server = ray_client_pb2_grpc.RayletDriverStub(channel)  # type: ignore[no-untyped-call]
            server.ClusterInfo(ping, metadata=metadata, timeout=SECONDS_TO_CONNECT)
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNAUTHENTICATED:
            return False
        raise Refused(
            f"--address {address}: no server for Ray's clients answers there; its port is 10001, or that of "
            "ray start --head --ray-client-server-port, and the cluster needs ray[client]"
        ) from None
    return True


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """Silence what C++ code prints."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def reason_of_ray(error: BaseException) -> str:
    """Return the line of a Ray error that matters."""
    lines = [line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()]
    if isinstance(error, ray.exceptions.RuntimeEnvSetupError):
        return f"the runtime environment cannot be set up: {lines[-1]}"
    if isinstance(error, (ray.exceptions.RayTaskError, ConnectionAbortedError)):
        # above it is a traceback, of the task or of the server for Ray's clients
        return lines[-1]
    return lines[0] if lines else type(error).__name__
