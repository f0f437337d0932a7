#!/bin/sh
# Runs a program under Oclgrind, through the shim. Fails where the program does, and on any finding: Oclgrind itself does not.
# Uninitialised values are not looked for: Oclgrind 21 takes what clEnqueueFillBuffer wrote for such, and stops at LLVM's
# `freeze`. usage: oclgrind.sh oclgrind shim program [argument...]
# SPDX-License-Identifier: MIT
set -eu
oclgrind=$1
shim=$2
shift 2
: >findings
"$oclgrind" --data-races --max-errors 20 --log findings env sh -c 'LD_PRELOAD=$0:$LD_PRELOAD exec "$@"' "$shim" "$@" || failed=1
[ ! -s findings ] || { cat findings; exit 1; }
exit "${failed:-0}"
