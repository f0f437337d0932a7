/* Counts the values that a cast loses, for policies that ask for it.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/dry.h"
#include "ops/ops.h"
#include "situ/policy.h"

/* True where the value has no place in the integer dtype. */
static situ_tensor *find_outside(situ_tensor *x, situ_dtype to) {
  const situ_dtype from = situ_dtype_of(x), wide = situ_dtype_is_floating(from) ? SITU_F32 : SITU_I64;
  if (from != SITU_F64 && from != wide) x = situ_to_dtype(x, wide);
  if (situ_dtype_is_floating(from)) x = situ_trunc(x);
  const double past = to == SITU_I64 ? situ__dtypes[to].largest : situ__dtypes[to].largest + 1;
  return situ_logical_not(situ_logical_and(situ_ge_scalar(x, situ__dtypes[to].lowest), situ_lt_scalar(x, past)));
}

/* True where a finite value becomes infinite. */
static situ_tensor *find_infinite(situ_tensor *x, situ_dtype to) {
  return situ_logical_and(situ_isfinite(x), situ_isinf(situ_to_dtype(x, to)));
}

static bool can_lose(situ_dtype from, situ_dtype to) {
  if (from == to || from == SITU_BOOL || to == SITU_BOOL) return false;
  if (situ_dtype_is_floating(from) && !situ_dtype_is_floating(to)) return true;
  return situ__dtypes[to].largest < situ__dtypes[from].largest || situ__dtypes[to].lowest > situ__dtypes[from].lowest;
}

/* On the device of x, and without this policy. */
static situ_status count_lost(const char *op, situ_tensor *x, situ_dtype to, int64_t *lost) {
  SITU__MADE_OF_OPS(op);
  situ_setting before;
  situ_scope s;
  situ_policy policy = situ_get_policy();
  policy.casts = SITU_CASTS_ALLOW;
  situ_policy_begin(&before, policy);
  situ_scope_begin_no_grad(&s);
  situ_tensor *found = situ_dtype_is_floating(to) ? find_infinite(x, to) : find_outside(x, to);
  const situ_status status = found ? situ_item_i64(situ_sum(found, NULL), lost) : situ_error();
  SITU_IGNORE(situ_scope_end(&s));
  situ_policy_end(&before);
  return status;
}

bool situ__check_cast(const char *op, situ_tensor *x, situ_dtype to) {
  const situ_dtype from = situ_dtype_of(x);
  int64_t lost = 0;
  if (!situ__dtype_valid(to) || !can_lose(from, to) || !situ_numel(x) || situ__is_dry() || situ__sampling ||
      situ_device_of(x).kind == SITU_META)
    return true;
  if (count_lost(op, x, to, &lost) != SITU_OK) return false;
  if (!lost) return true;
  const bool warns = situ_get_policy().casts == SITU_CASTS_WARN;
  situ__described d = { "a tensor", "" };
  situ__device_up.describe_storage(situ__desc(x)->storage, &d);
  const char *how = situ_dtype_is_floating(to) ? "finite and become infinite" : "outside of its range";
  if (!warns)
    return situ__fail(SITU_E_OVERFLOW, op,
                      "%lld of %lld values of %s%s are lost in %s: they are %s; scale or clamp them first, or take a "
                      "wider dtype",
                      (long long)lost, (long long)situ_numel(x), d.what, d.where, situ_dtype_name(to), how),
           false;
  if (situ__is_new_here(SITU__WARN_CAST, op))
    situ__log("%s: %lld of %lld values of %s%s are lost in %s: they are %s; this line is not warned of again", op,
              (long long)lost, (long long)situ_numel(x), d.what, d.where, situ_dtype_name(to), how);
  return true;
}
