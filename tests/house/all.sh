#!/usr/bin/env bash
# all.sh NAME: both scripts on the newest main, in a clone
set -e
HOUSE/again.sh $1
python3 HOUSE/words.py CLONES/$1
cd CLONES/$1
mkdir -p /tmp/house.checks && cp HOUSE/strings.py /tmp/house.checks/
.venv/bin/python /tmp/house.checks/strings.py "$PWD"
