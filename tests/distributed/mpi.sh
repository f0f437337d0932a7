#!/bin/sh
# Training over a real MPI: builds tests/distributed/mpi/*.c with its mpicc, and runs them on 1 to 4 ranks of this machine.
# SPDX-License-Identifier: MIT
# usage: mpi.sh openmpi|mpich LIBRARY SOURCE_DIRECTORY [DRILLS]
#   DRILLS: in place of training, so many runs in which rank 1 is killed, stopped, fails, gives up or is in another call
set -eu
flavour=$1 library=$2 source=$3 drills=${4:-0}

mpicc=$(command -v "mpicc.$flavour" || true) mpirun=$(command -v "mpirun.$flavour" || true)
if [ -z "$mpicc" ] || [ -z "$mpirun" ]; then
  echo "SKIPPED: no mpicc.$flavour and mpirun.$flavour (Debian: $([ "$flavour" = openmpi ] &&
    echo openmpi-bin libopenmpi-dev || echo mpich libmpich-dev))"
  exit 77
fi

. "$source/demo/ranks/environment.sh"
case $flavour in
  openmpi) tolerant=--enable-recovery ;;
  *)       tolerant=-disable-auto-cleanup ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
lib=$(dirname "$library")
build() { # build SOURCE PROGRAM OPTIONS...
  from=$source/tests/distributed/mpi/$1.c to=$work/$2
  shift 2
  "$mpicc" -std=c17 -O2 -Wall -Wextra -Werror -D_DEFAULT_SOURCE -I "$source/include" -I "$source/tests" "$@" \
    "$from" -o "$to" -L "$lib" -Wl,-rpath,"$lib" -lsitu -lm
}
for program in train layers place; do build "$program" "$program"; done
build train pieces -DSITU_MPI_MOST=2
cd "$work"

run_ranks() { # run_ranks RANKS PROGRAM ARGUMENTS...: every rank must have written ok
  ranks=$1
  shift
  rm -f result.*
  timeout 240 "$mpirun" -n "$ranks" "./$@" >log 2>&1 || { cat log result.*; echo "$flavour, $ranks ranks: $*: failed"; exit 1; }
  [ "$(cat result.* | grep -c '^ok$')" -eq "$ranks" ] || { cat log result.*; echo "$flavour, $ranks ranks: $*: not ok"; exit 1; }
}

run_drill() { # run_drill RANKS HOW STEP STAGE: every rank but the lost one ended in time, its model as before the step
  rm -f result.*
  # MPICH's launcher ends all ranks when it sees one die: a shell stands between, until the deadline and 3 s have passed.
  case $flavour-$2 in
    mpich-kill) timeout 60 "$mpirun" $tolerant -n "$1" sh -c "trap '' USR1; ./train $2 $3 $4; sleep 4" >log 2>&1 || true ;;
    *)          timeout 60 "$mpirun" $tolerant -n "$1" ./train "$2" "$3" "$4" >log 2>&1 || true ;;
  esac
  want=$1
  case $2 in kill|stop|forward) want=$((want - 1)) ;; esac
  got=$(cat result.* | grep -c '^ok: ' || true)
  if [ "$got" -ne "$want" ]; then
    cat log result.*
    echo "$flavour, $1 ranks, stage $4, $2 in step $3: $got of $want ranks ended as they must"
    exit 1
  fi
}

if [ "$drills" -gt 0 ]; then
  done=0
  while [ "$done" -lt "$drills" ]; do
    for how in kill stop mismatch abort forward; do
      [ "$done" -lt "$drills" ] || break
      ranks=$((2 + done / 5 % 3)) stage=$((done % 4))
      case $ranks-$stage in 3-3) ranks=4 ;; esac # each rank has as many of the 4 micro-batches
      run_drill "$ranks" "$how" $((done / 5 % 7)) "$stage"
      done=$((done + 1))
    done
  done
  echo "$flavour: $done drills, all ended as they must"
  exit 0
fi

for ranks in 1 2 4; do
  run_ranks "$ranks" layers
  echo "$flavour, $ranks ranks: $(grep -v '^ok' result.0 | tr '\n' ' ')"
  SITU_SIM=2 run_ranks "$ranks" place
  run_ranks "$ranks" train ops
  run_ranks "$ranks" pieces ops
  run_ranks "$ranks" train train
  [ "$ranks" -lt 4 ] || NODE_SIZE=2 run_ranks "$ranks" train train
  echo "$flavour, $ranks ranks: $(grep -v '^ok' result.0 | tr '\n' ' ')"
done
"$mpicc" -std=c17 -O2 -Wall -Wextra -Werror -D_DEFAULT_SOURCE -I "$source/include" \
  "$source/examples/mpi/16_burgers_closure.c" -o "$work/closure" -L "$lib" -Wl,-rpath,"$lib" -lsitu -lm
# It prints the same on any number of ranks, and fails if its closure does not help. MPICH's blocking calls poll, which
# takes minutes where ranks share cores.
for ranks in 1 2 $([ "$flavour" = mpich ] || echo 4); do
  timeout 240 "$mpirun" -n "$ranks" ./closure >"printed.$ranks" 2>log || { cat log "printed.$ranks"; exit 1; }
  cmp "printed.1" "printed.$ranks"
done
tail -n 1 printed.2
run_ranks 3 train save
for ranks in 1 2 4; do run_ranks "$ranks" train load; done
run_drill 3 mismatch 1 0
run_drill 3 abort 2 2
run_drill 3 forward 1 1
run_drill 3 stop 1 2
run_drill 3 kill 2 0
run_drill 2 forward 1 3
run_drill 4 kill 2 3
cat result.0
