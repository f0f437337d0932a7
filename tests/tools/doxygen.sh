#!/bin/sh
# Doxygen reads the public headers and the docs without a warning.
# SPDX-License-Identifier: MIT
# usage: doxygen.sh SOURCE_DIRECTORY
set -eu
command -v doxygen >/dev/null || { echo "SKIPPED: there is no doxygen"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$1"
{ cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $work"; } | doxygen -
[ -f "$work/doxygen/index.html" ]
