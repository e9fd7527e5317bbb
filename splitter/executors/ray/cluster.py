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
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray._raylet import AuthenticationTokenLoader, Config, GcsClient  # type: ignore[attr-defined]

from splitter.errors import Refused, RunStopped
from splitter.executors.base import Cluster
from splitter.system.reaper import reaper_beside
from splitter.system.signals import ASKING_TO_END

SECONDS_TO_CONNECT = 10.0
OBJECT_STORE_BYTES = 256 << 20
LONGEST_PLACE = 20


# -- Ray itself --------------------------------------------------------------------------------------------


def _settings(cluster: Cluster) -> dict[str, Any]:
    """What every connection to Ray has."""
    return {
        "log_to_driver": cluster.verbose,
        "logging_level": "INFO" if cluster.verbose else "CRITICAL",
        "runtime_env": dict(cluster.runtime_env) or None,
        "namespace": "splitter",
    }


def _init(address: str, cluster: Cluster) -> None:
    """Connect to a cluster; through Ray's client once more, as its server sometimes fails to start one."""
    try:
        ray.init(address=address, **_settings(cluster))
    except ConnectionError:
        if not address.startswith("ray://"):
            raise
        ray.init(address=address, **_settings(cluster))


@contextlib.contextmanager
def joined_cluster(address: str, cluster: Cluster) -> Iterator[None]:
    """Be connected to a cluster; one that this process is connected to already stays so."""
    if ray.is_initialized():
        yield
        return
    _refuse_silent(address)
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
def private_cluster(size: dict[str, Any], cluster: Cluster) -> Iterator[None]:
    """A Ray of our own, of which nothing remains."""
    if ray.is_initialized():
        raise Refused("Ray is in use in this process already; give --address auto, or call ray.shutdown()")
    folder = _short_folder()
    settings = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_enable_metrics_collection": "0",
    }
    # threads of Ray's ask with the token until the last moment
    with reaper_beside(folder) as mark, _environment({**settings, **mark}), _shut_down_after():
        try:
            ray.init(
                address="local",
                include_dashboard=False,
                _temp_dir=folder,
                object_store_memory=OBJECT_STORE_BYTES,
                **size,
                **_settings(cluster),
            )
        except (ray.exceptions.RayError, RuntimeError, ValueError, OSError) as error:
            raise RunStopped(f"Ray cannot be started here: {reason_of_ray(error)}") from None
        yield


@contextlib.contextmanager
def _shut_down_after() -> Iterator[None]:
    """Leave Ray, whatever happens."""
    try:
        yield
    finally:
        ray.shutdown()


def _short_folder() -> str:
    """A temporary folder whose path leaves room for those of Ray's sockets, which the system bounds."""
    place = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="splitter-", dir=place if len(place) <= LONGEST_PLACE else "/tmp")  # noqa: S108


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """The environment that Ray's processes inherit."""
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


def _reread_environment() -> None:
    """Ray reads its settings once, when it is imported."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def own_signal_handlers() -> Iterator[None]:
    """Keep the run's signal handlers: Ray sets its own."""
    before = {number: signal.getsignal(number) for number in ASKING_TO_END}
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            for number, handler in before.items():
                signal.signal(number, handler)


def _refuse_silent(address: str) -> None:
    """Refuse an address where nothing listens: Ray would try for minutes."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    if address == "local":
        raise Refused("--address local: leave it out; without it Ray is a private one on this machine")
    if address == "auto" or not parts.hostname:
        return
    try:
        port = parts.port or (10001 if parts.scheme == "ray" else 6379)
        socket.create_connection((parts.hostname, port), SECONDS_TO_CONNECT).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Refused(f"--address {address}: cannot be reached: {reason}; is the cluster up?") from None


def _refuse_locked(address: str) -> None:
    """Refuse a cluster that asks for another token: Ray would try, and say so, twenty times."""
    if "://" in address:
        is_open = _opens_to_a_client(address)
    else:
        found = canonicalize_bootstrap_address_or_die(address)
        try:
            with _without_stderr():
                GcsClient(address=found)
            is_open = True
        except ray.exceptions.AuthenticationError:
            is_open = False
    if not is_open:
        raise Refused(
            f"--address {address}: the token is missing or wrong; set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH, as they are on the cluster"
        )


def _opens_to_a_client(address: str) -> bool:
    """Whether a server for Ray's clients takes our token: Ray would try long, and not say what is wrong."""
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
    """Keep to itself what C++ code has to say."""
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
    """The line that matters of what Ray has to say."""
    lines = [line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()]
    if isinstance(error, ray.exceptions.RuntimeEnvSetupError):
        return f"the runtime environment cannot be set up: {lines[-1]}"
    if isinstance(error, (ray.exceptions.RayTaskError, ConnectionAbortedError)):
        # what stands above is a traceback, of the task or of the server for Ray's clients
        return lines[-1]
    return lines[0] if lines else type(error).__name__
