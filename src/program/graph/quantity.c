/* Finds the expressions of sizes.
   SPDX-License-Identifier: MIT */
#include "quantity.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/text.h"

enum { LARGEST = 1 << 30, DIVISORS = 1024, MOST = 2000 };

/* ---- the list ---- */

static void add_multiple(situ__text *text, int64_t factor, const char *x) {
  if (factor == 1) situ__text_add(text, "%s", x);
  else situ__text_add(text, "Mul(Integer(%" PRId64 "), %s)", factor, x);
}

static const char *text_of(situ__quantities *q, const situ__quantity *n) {
  const char *x = q->list[n->x].text, *y = n->y >= 0 ? q->list[n->y].text : "";
  const bool sum = n->kind != SITU__QUANTITY_PRODUCT && (n->term || (n->kind == SITU__QUANTITY_SUM && n->y >= 0));
  situ__text text = { 0 };
  if (n->kind == SITU__QUANTITY_PRODUCT) situ__text_add(&text, "Mul(%s, %s)", x, y);
  if (n->kind == SITU__QUANTITY_QUOTIENT) situ__text_add(&text, "FloorDiv(");
  if (sum) situ__text_add(&text, "Add(");
  if (n->kind == SITU__QUANTITY_QUOTIENT) situ__text_add(&text, "%s", x);
  if (n->kind == SITU__QUANTITY_SUM) add_multiple(&text, n->factor[0], x);
  if (n->kind == SITU__QUANTITY_SUM && n->y >= 0) {
    situ__text_add(&text, ", ");
    add_multiple(&text, n->factor[1], y);
  }
  if (sum && n->term) situ__text_add(&text, ", Integer(%" PRId64 ")", n->term);
  if (sum) situ__text_add(&text, ")");
  if (n->kind == SITU__QUANTITY_QUOTIENT) situ__text_add(&text, ", Integer(%" PRId64 "))", n->factor[0]);
  const char *kept = text.failed ? NULL : situ__arena_text(q->arena, text.data, text.length);
  situ__text_free(&text);
  return kept;
}

static int32_t add(situ__quantities *q, const situ__quantity *n) {
  if (q->count == MOST) return -1;
  if (!situ__grow(NULL, &q->list, &q->capacity, sizeof *q->list, q->count + 1)) return q->failed = true, -1;
  situ__quantity *kept = &q->list[q->count];
  *kept = *n;
  if (!kept->text && !(kept->text = text_of(q, kept))) return q->failed = true, -1;
  return q->count++;
}

bool situ__quantity_add_symbol(situ__quantities *q, const char *name, const int64_t value[SITU__RUNS]) {
  situ__quantity n = { .kind = SITU__QUANTITY_SYMBOL, .x = -1, .y = -1 };
  situ__text text = { 0 };
  memcpy(n.value, value, sizeof n.value);
  situ__text_add(&text, "Symbol('%s', positive=True, integer=True)", name);
  n.text = text.failed ? NULL : situ__arena_text(q->arena, text.data, text.length);
  situ__text_free(&text);
  if (!n.text || add(q, &n) < 0) return !(q->failed = true);
  q->symbols = q->count;
  return true;
}

static int32_t known(const situ__quantities *q, const int64_t *value) {
  for (int32_t i = 0; i < q->count; i++)
    if (memcmp(q->list[i].value, value, sizeof q->list[i].value) == 0) return i;
  return -1;
}

/* ---- forms ---- */

static bool is_small(const int64_t *value) {
  for (int k = 0; k < SITU__RUNS; k++)
    if (value[k] > LARGEST || value[k] < -LARGEST) return false;
  return true;
}

/* value = factor x + term */
static bool fits_line(const int64_t *x, const int64_t *value, int64_t *factor, int64_t *term) {
  int k = 1;
  while (k < SITU__RUNS && x[k] == x[0]) k++;
  if (k == SITU__RUNS || (value[k] - value[0]) % (x[k] - x[0])) return false;
  *factor = (value[k] - value[0]) / (x[k] - x[0]);
  int64_t product;
  if (!situ__mul_i64(*factor, x[0], &product)) return false;
  *term = value[0] - product;
  for (k = 0; k < SITU__RUNS; k++)
    if (!situ__mul_i64(*factor, x[k], &product) || value[k] - *term != product) return false;
  return *factor != 0;
}

/* value = factor[0] x + factor[1] y + term */
static bool fits_plane(const int64_t *x, const int64_t *y, const int64_t *value, int64_t factor[2], int64_t *term) {
  for (int i = 1; i < SITU__RUNS; i++)
    for (int j = i + 1; j < SITU__RUNS; j++) {
      const int64_t xi = x[i] - x[0], yi = y[i] - y[0], vi = value[i] - value[0];
      const int64_t xj = x[j] - x[0], yj = y[j] - y[0], vj = value[j] - value[0], all = xi * yj - xj * yi;
      if (!all) continue;
      if ((vi * yj - vj * yi) % all || (xi * vj - xj * vi) % all) return false;
      factor[0] = (vi * yj - vj * yi) / all, factor[1] = (xi * vj - xj * vi) / all;
      if (factor[0] > LARGEST || factor[0] < -LARGEST || factor[1] > LARGEST || factor[1] < -LARGEST) return false;
      *term = value[0] - factor[0] * x[0] - factor[1] * y[0];
      for (int k = 0; k < SITU__RUNS; k++)
        if (factor[0] * x[k] + factor[1] * y[k] + *term != value[k]) return false;
      return factor[0] && factor[1];
    }
  return false;
}

/* value = floor((x + term) / divisor), if the runs leave one term only. */
static bool fits_quotient(const int64_t *x, const int64_t *value, int64_t divisor, int64_t *term) {
  int64_t least = -LARGEST, most = LARGEST;
  for (int k = 0; k < SITU__RUNS && least <= most; k++) {
    least = situ__max_i64(least, value[k] * divisor - x[k]);
    most = situ__min_i64(most, (value[k] + 1) * divisor - 1 - x[k]);
  }
  *term = least;
  return least == most;
}

/* ---- the search ---- */

static int32_t find_line(situ__quantities *q, const int64_t *value, int32_t xs) {
  situ__quantity n = { .kind = SITU__QUANTITY_SUM, .y = -1 };
  memcpy(n.value, value, sizeof n.value);
  for (n.x = 0; n.x < xs; n.x++)
    if (fits_line(q->list[n.x].value, value, &n.factor[0], &n.term)) return add(q, &n);
  return -1;
}

static int32_t find_quotient(situ__quantities *q, const int64_t *value, int32_t xs) {
  situ__quantity n = { .kind = SITU__QUANTITY_QUOTIENT, .y = -1 };
  memcpy(n.value, value, sizeof n.value);
  for (n.factor[0] = 2; n.factor[0] <= DIVISORS; n.factor[0]++)
    for (n.x = 0; n.x < xs; n.x++)
      if (is_small(q->list[n.x].value) && fits_quotient(q->list[n.x].value, value, n.factor[0], &n.term))
        return add(q, &n);
  return -1;
}

static int32_t find_plane(situ__quantities *q, const int64_t *value, int32_t xs) {
  situ__quantity n = { .kind = SITU__QUANTITY_SUM };
  memcpy(n.value, value, sizeof n.value);
  for (n.x = 0; n.x < xs; n.x++)
    for (n.y = n.x + 1; n.y < xs; n.y++)
      if (is_small(q->list[n.x].value) && is_small(q->list[n.y].value) &&
          fits_plane(q->list[n.x].value, q->list[n.y].value, value, n.factor, &n.term))
        return add(q, &n);
  return -1;
}

/* A product, or a multiple of one plus a term: the product is a quantity of its own. */
static int32_t find_product(situ__quantities *q, const int64_t *value, int32_t xs) {
  situ__quantity n = { .kind = SITU__QUANTITY_PRODUCT };
  for (n.x = 0; n.x < xs; n.x++)
    for (n.y = n.x; n.y < xs; n.y++) {
      bool fits = true;
      int64_t factor, term;
      for (int k = 0; k < SITU__RUNS && fits; k++)
        fits = situ__mul_i64(q->list[n.x].value[k], q->list[n.y].value[k], &n.value[k]);
      if (!fits || !fits_line(n.value, value, &factor, &term)) continue;
      const int32_t product = add(q, &n);
      return product < 0 || (factor == 1 && term == 0) ? product : find_line(q, value, q->count);
    }
  return -1;
}

int32_t situ__quantity_find(situ__quantities *q, const int64_t value[SITU__RUNS]) {
  const int32_t there = known(q, value);
  if (there >= 0 || !is_small(value)) return there;
  static int32_t (*const forms[])(situ__quantities *, const int64_t *, int32_t) = { find_line, find_plane, find_product,
                                                                                    find_quotient };
  for (int all = 0; all < 2; all++) /* of symbols alone, if they do */
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
      const int32_t found = forms[i](q, value, all ? q->count : q->symbols);
      if (found >= 0 || q->failed) return found;
    }
  return -1;
}
