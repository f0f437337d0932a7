#!/bin/sh
# ./run demo --ranks: wrong arguments are named, and two ranks have the bits of one.
# SPDX-License-Identifier: MIT
# usage: demo.sh SOURCE_DIRECTORY LIBRARY
set -eu
source=$1 library=$2

refused() { # refused TEXT ARGUMENTS...: ./run says this, before it installs or builds anything
  text=$1
  shift
  status=0
  said=$("$source/run" demo "$@" 2>&1) || status=$?
  case $status-$said in
    2-"situ: ./run demo: $text"*) ;;
    *) echo "./run demo $*: status $status, not 2; it said: $said"; exit 1 ;;
  esac
}
refused "--ranks '0'" --ranks 0
refused "--ranks 'x'" --ranks x
refused "--ranks '-1'" --ranks=-1
refused "--ranks ''" --ranks
refused "--ranks '9'" --epochs 2 --ranks 9
refused "--epochs '0'" --ranks 2 --epochs 0
refused "'--device'" --ranks 2 --device cpu

said=$("$source/demo/ranks/run.sh" "$library" --ranks 2 --epochs 2) || { status=$?; echo "$said"; exit "$status"; }
echo "$said"
for text in "2 ranks: accuracy" "on rank 1 of 2" "1 rank: accuracy" "the same bits on all 2 ranks, and on 1 rank alone"; do
  case $said in *"$text"*) ;; *) echo "it did not say: $text"; exit 1 ;; esac
done
