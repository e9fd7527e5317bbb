#!/usr/bin/env bash
# pieces.sh NAME PIECE...: run test folders one after the other, each in a slot; logs in /tmp/pieces.NAME
cd CLONES/$1; n=$1; shift
mkdir -p /tmp/pieces.$n
for p in "$@"; do
  l=/tmp/pieces.$n/$(echo $p | tr '/ ' '__').log
   timeout 900 .venv/bin/pytest -q --maxfail=25 --reruns 0 $p > $l 2>&1
  echo "$p: $(tail -1 $l)" >> /tmp/pieces.$n/done
done
