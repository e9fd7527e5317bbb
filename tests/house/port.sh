#!/usr/bin/env bash
# port.sh CLONE COMMIT...: bring commits made in the old layout to the new one.
#
# CLONE is a scratch clone with a .venv (made with mkclone). For each commit C with its parent P both scripts run on P and on C;
# the difference of the two results is the same change in the new layout. It is written to /tmp/ported/<n>.patch, to be
# applied with `git apply --3way --index` on the new main.
set -e
clone=$1; shift
mkdir -p /tmp/ported
cd CLONES/$clone
turn() { git reset -q --hard "$1"; git clean -qfd; python3 HOUSE/move.py "$PWD" >/dev/null && python3 HOUSE/words.py "$PWD" >/dev/null; git rev-parse HEAD; }
n=0
for c in "$@"; do
  n=$((n+1))
  subject=$(git log -1 --format=%B "$c")
  p=$(turn "$c^"); q=$(turn "$c")
  git diff --binary "$p" "$q" > /tmp/ported/$n.patch
  printf '%s\n' "$subject" > /tmp/ported/$n.message
  echo "/tmp/ported/$n.patch: $(git log -1 --format=%s "$c")"
done
