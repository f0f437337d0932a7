/* What the bytes of an input choose: rows, sizes and numbers of a small program.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_FUZZ_ROWS_DRAW_H
#define SITU_TESTS_FUZZ_ROWS_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "io/format/protobuf_write.h"
#include "program/graph/program.h"

typedef struct draw {
  const uint8_t *at, *end;
  bool huge; /* a number was, so that values would take for ever */
} draw;

/* Below n; 0 when the bytes are used up. */
unsigned draw_below(draw *d, unsigned n);
/* Once in n times. */
bool draw_once_in(draw *d, unsigned n);
int64_t draw_int(draw *d);
double draw_real(draw *d);
int draw_length(draw *d); /* of a list */

enum { DRAW_FAMILIES = 16 };
const situ__op_row *draw_row(draw *d, const situ__op_family *const *family, int families);

/* A parameter, "*t? name(one|another)=3". */
typedef struct draw_parameter {
  char type, name[40], choice[24];
  bool optional;
} draw_parameter;
/* Reads the parameter at `at`, with one of its choices, and returns what follows it. NULL: there is none. */
const char *draw_next(draw *d, const char *at, draw_parameter *out);

/* Sizes of tensors: that of all others, or another. */
typedef struct draw_sizes {
  int count;
  int64_t dim[6];
} draw_sizes;
draw_sizes draw_shape(draw *d, const draw_sizes *common);

enum { ROWS_OPERANDS = 4, ROWS_CALLS = 3, ROWS_RESULTS = 4 };

/* A program of up to three calls. */
void rows_write_aten(draw *d, const situ__op_family *const *family, int families, situ__text *out);
void rows_write_onnx(draw *d, const situ__op_family *const *family, int families, situ__protobuf_writer *out);

#endif
