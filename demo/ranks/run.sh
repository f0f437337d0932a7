#!/bin/sh
# The demo on several ranks: builds demo/ranks/main.c with this machine's mpicc, trains on RANKS ranks and on one through
# mpirun, and compares the bits of the weights.
# SPDX-License-Identifier: MIT
# usage: run.sh LIBRARY --ranks N [--epochs N]     (LIBRARY "": only looks at the arguments; status 2: one is wrong, 77: there
#        is no MPI)
set -eu
cd "$(dirname "$0")/../.."

refuse() { printf 'situ: ./run demo: %s\n' "$*" >&2; exit 2; }

# number NAME TEXT MOST: a whole number from 1 to MOST
number() {
  case $2 in
    '' | *[!0-9]* | ??????*) refuse "$1 '$2': a whole number from 1 to $3 is wanted" ;;
  esac
  if [ "$2" -lt 1 ] || [ "$2" -gt "$3" ]; then refuse "$1 '$2': a whole number from 1 to $3 is wanted"; fi
}

library=$1 ranks=1 epochs=12
shift
while [ $# -gt 0 ]; do
  case $1 in
    --ranks | --epochs) name=$1 value=${2:-}; [ $# -eq 1 ] || shift ;;
    --ranks=* | --epochs=*) name=${1%%=*} value=${1#*=} ;;
    *) refuse "'$1' cannot be had with --ranks; only --epochs N can" ;;
  esac
  shift
  case $name in
    --ranks) number --ranks "$value" 8; ranks=$value ;; # as many as a batch has micro-batches
    *)       number --epochs "$value" 200; epochs=$value ;;
  esac
done
[ -n "$library" ] || exit 0

mpicc=
for flavour in '' .openmpi .mpich; do
  if [ -z "$mpicc" ] && command -v "mpicc$flavour" >/dev/null && command -v "mpirun$flavour" >/dev/null; then
    mpicc=mpicc$flavour mpirun=mpirun$flavour
  fi
done
if [ -z "$mpicc" ]; then
  echo "SKIPPED: no mpicc and mpirun (Debian: openmpi-bin libopenmpi-dev, or mpich libmpich-dev)"
  exit 77
fi

. demo/ranks/environment.sh
SITU_NUM_THREADS=1 # each: the ranks share the cores
export SITU_NUM_THREADS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
lib=$(dirname "$library")
"$mpicc" -std=c17 -O2 -Wall -Wextra -D_GNU_SOURCE -I include demo/ranks/main.c demo/train.c demo/digits.c \
  -o "$work/situ-demo-ranks" -L "$lib" -Wl,-rpath,"$lib" -lsitu

# Each in a directory of its own: what is printed is kept, to be compared.
for n in "$ranks" 1; do
  timeout 1800 "$mpirun" -n "$n" "$work/situ-demo-ranks" "$epochs" demo/data/digits.safetensors >"$work/said.$n" ||
    { cat "$work/said.$n"; echo "situ: training on $n ranks failed" >&2; exit 1; }
  cat "$work/said.$n"
  [ "$ranks" -gt 1 ] || break
done

bits=$(sed -n 's/^weights \([0-9a-f]*\) .*/\1/p' "$work"/said.* | sort -u)
count=$(sed -n '/^weights /p' "$work/said.$ranks" | wc -l)
if [ "$count" -ne "$ranks" ] || [ "$(printf '%s\n' "$bits" | wc -l)" -ne 1 ]; then
  echo "situ: the weights DIFFER" >&2
  exit 1
fi
[ "$ranks" -eq 1 ] || echo "the weights have the same bits on all $ranks ranks, and on 1 rank alone"
