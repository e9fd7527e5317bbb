#!/usr/bin/env bash
# again.sh NAME: reset the clone to origin/main and run move.py on it
set -e
cd CLONES/$1
git fetch -q
git reset -q --hard origin/main
git clean -qfd
python3 HOUSE/move.py CLONES/$1
