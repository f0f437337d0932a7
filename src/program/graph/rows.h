/* How rows of plain functions are written.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_ROWS_H
#define SITU_PROGRAM_ROWS_H

#define UNARY(name) \
  { .target = #name ".default", .parameters = "t self", .unary = situ_##name }
#define PAIR(name, function) \
  { .target = name, .parameters = "t self, x other", .binary = function }

#endif
