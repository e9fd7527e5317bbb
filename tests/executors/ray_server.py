"""Starts and ends the nodes of a Ray cluster: one request a line on its standard input, until that ends."""

import json
import os
import sys
from typing import Any

from ray.cluster_utils import Cluster

OBJECT_STORE_BYTES = 80 << 20


def _serve(place: str) -> None:
    # what Ray prints is not an answer
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.makedirs(f"{place}/ray")
    cluster = Cluster()
    nodes: list[Any] = []
    try:
        for line in sys.stdin:
            request = json.loads(line)
            answer: dict[str, Any] = {}
            if "add" in request:
                nodes.append(_add(cluster, request, place))
                answer = {"node": len(nodes) - 1, "address": cluster.address}
            else:
                cluster.remove_node(nodes[request["remove"]], allow_graceful=False)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        cluster.shutdown()


def _add(cluster: Any, request: dict[str, Any], place: str) -> Any:
    first = (
        {"include_dashboard": False, "no_monitor": True, "temp_dir": f"{place}/ray"}
        if cluster.head_node is None
        else {}
    )
    before, folder = dict(os.environ), os.getcwd()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    try:
        return cluster.add_node(
            object_store_memory=OBJECT_STORE_BYTES, include_log_monitor=False, **first, **request["add"]
        )
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    _serve(sys.argv[1])
