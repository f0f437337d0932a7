/* Views made by hand, for tests that call a backend's slots: any dtype, any layout, read and written as doubles.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_VIEWS_H
#define SITU_TESTS_SUPPORT_VIEWS_H

#include <situ/sys/backend.h>

/* How the elements lie: row by row, column by column, or row by row with gaps between all of them. */
typedef enum view_layout { VIEW_ROWS, VIEW_COLUMNS, VIEW_GAPS, VIEW_LAYOUTS } view_layout;

typedef struct test_view {
  situ_storage storage;
  situ_view_desc d;
} test_view;

/* Zeroed. Never NULL: the test ends if there is no memory. */
test_view *view_new(situ_dtype dtype, situ_shape shape, view_layout layout);
/* Row by row without gaps, but `offset` elements behind where memory is aligned. */
test_view *view_askew(situ_dtype dtype, situ_shape shape, int64_t offset);
void view_free(test_view *v);
/* Element i in row-major order of the sizes. */
double view_get(const test_view *v, int64_t i);
void view_set(test_view *v, int64_t i, double value);
/* All elements, row by row; the caller frees them. */
double *view_values(const test_view *v);
/* Values in [low, high), the same for the same seed; whole numbers for dtypes that hold no others. */
void view_random(test_view *v, uint64_t seed, double low, double high);
/* Do both hold the same bits in every element? */
bool view_same(const test_view *a, const test_view *b);

/* Runs the verb on the device under test: on cpu the kernel itself, with work as it is; on any other device with copies of
   the storages that work's operands and results are in, which are copied back. Waits for it. */
situ_status view_run(situ_verb verb, const situ_work *work);

/* For a loop over the cpu's instruction sets, from -1, once on other devices: each is chosen, then the best one again. */
bool view_next_isa(int *isa);
int view_best_isa(void);
/* Whether to force an algorithm of the cpu here that the instruction sets from `least` on have: on the best one, and on
   `least`, if not all have it. */
bool view_forces(int least);

/* By how much at most a number of this dtype is off, of its size, after rounding: 0 for whole ones. */
double view_unit(int dtype);
/* A number in [0, 1) and the next state. */
double view_next(uint64_t *state);

#endif
