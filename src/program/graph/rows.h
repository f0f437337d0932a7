/* How rows of plain functions are written.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_ROWS_H
#define SITU_PROGRAM_ROWS_H

#define UNARY(name) \
  { #name ".default", "t self", .unary = situ_##name }
#define PAIR(name, function) \
  { name, "t self, x other", .binary = function }

#endif
