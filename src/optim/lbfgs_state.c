/* What LBFGS remembers between steps.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/lbfgs.h"
#include "optim/optim.h"
#include "optim/record.h"
#include "situ/ops.h"
#include "situ/sys/tensor.h"

static bool grow(situ__lbfgs *h, int64_t count) {
  int64_t dirs = h->capacity, stps = dirs; /* the lists have one capacity, when all have grown */
  return situ__grow("optim_lbfgs", &h->old_dirs, &dirs, sizeof *h->old_dirs, count) &&
         situ__grow("optim_lbfgs", &h->old_stps, &stps, sizeof *h->old_stps, count) &&
         situ__grow("optim_lbfgs", &h->ro, &h->capacity, sizeof *h->ro, count);
}

bool situ__lbfgs_append(situ__lbfgs *h, situ_tensor *dir, situ_tensor *stp, double ro) {
  if (!dir || !stp || !grow(h, h->count + 1)) return false;
  h->old_dirs[h->count] = situ_retain(dir);
  h->old_stps[h->count] = situ_retain(stp);
  h->ro[h->count++] = ro;
  return true;
}

void situ__lbfgs_trim(situ__lbfgs *h, int64_t most) {
  const int64_t surplus = h->count > most ? h->count - most : 0;
  for (int64_t i = 0; i < surplus; i++) {
    situ_release(h->old_dirs[i]);
    situ_release(h->old_stps[i]);
  }
  h->count -= surplus;
  for (int64_t i = 0; surplus && i < h->count; i++) {
    h->old_dirs[i] = h->old_dirs[i + surplus];
    h->old_stps[i] = h->old_stps[i + surplus];
    h->ro[i] = h->ro[i + surplus];
  }
}

situ_dtype situ__lbfgs_dtype(const situ_tensor *param) {
  const situ_dtype dtype = situ_dtype_of(param);
  return dtype == SITU_F16 || dtype == SITU_BF16 ? SITU_F32 : dtype;
}

situ__lbfgs *situ__lbfgs_copy(const situ__lbfgs *h) {
  situ__lbfgs *copy = situ__calloc(1, sizeof *copy);
  if (!copy) return situ__no_memory("optim_lbfgs", sizeof *copy), NULL;
  if (!h) return copy;
  copy->n_iter = h->n_iter;
  copy->func_evals = h->func_evals;
  copy->t = h->t;
  copy->h_diag = h->h_diag;
  copy->prev_loss = h->prev_loss;
  copy->d = situ_retain(h->d);
  copy->prev_flat_grad = situ_retain(h->prev_flat_grad);
  bool good = true;
  for (int64_t i = 0; good && i < h->count; i++)
    good = situ__lbfgs_append(copy, h->old_dirs[i], h->old_stps[i], h->ro[i]);
  if (good) return copy;
  situ__lbfgs_free(copy);
  return NULL;
}

void situ__lbfgs_free(situ__lbfgs *h) {
  if (!h) return;
  situ__lbfgs_trim(h, 0);
  situ_release(h->d);
  situ_release(h->prev_flat_grad);
  situ__free(h->old_dirs);
  situ__free(h->old_stps);
  situ__free(h->ro);
  situ__free(h);
}

int64_t situ__lbfgs_tensors(const situ__lbfgs *h) { return h && h->d ? 2 + 2 * h->count : 0; }

situ_tensor *situ__lbfgs_tensor(const situ__lbfgs *h, int64_t i) {
  if (i < 2) return i ? h->prev_flat_grad : h->d;
  return i % 2 ? h->old_stps[i / 2 - 1] : h->old_dirs[i / 2 - 1];
}

bool situ__lbfgs_attach(const situ_optim *o, const situ__lbfgs *h) {
  for (int64_t i = 0; i < situ__lbfgs_tensors(h); i++) {
    situ_tensor *t = situ__lbfgs_tensor(h, i);
    if (situ_role_of(t) == SITU_ROLE_OPTIMIZER) continue;
    if (situ_follow(t, o->items[0].param) != SITU_OK) return false;
    situ_set_role(t, SITU_ROLE_OPTIMIZER);
  }
  return true;
}

/* ---- saving ---- */

static situ_tree *save_list(situ_tensor *const *tensors, int64_t count) {
  return count ? situ_tree_of(count, tensors) : situ_tree_list();
}

situ_tree *situ__lbfgs_save(const situ__lbfgs *h) {
  situ_tree *dict = situ_tree_put(situ_tree_dict(), "func_evals", situ__record_integer(h->func_evals));
  dict = situ_tree_put(dict, "n_iter", situ__record_integer(h->n_iter));
  if (!h->d) return dict;
  situ_tree *ro = situ_tree_list();
  for (int64_t i = 0; i < h->count; i++) ro = situ_tree_append(ro, situ__record_number(h->ro[i]));
  dict = situ_tree_put(dict, "d", situ_tree_tensor(h->d));
  dict = situ_tree_put(dict, "t", situ__record_number(h->t));
  dict = situ_tree_put(dict, "old_dirs", save_list(h->old_dirs, h->count));
  dict = situ_tree_put(dict, "old_stps", save_list(h->old_stps, h->count));
  dict = situ_tree_put(dict, "ro", ro);
  dict = situ_tree_put(dict, "H_diag", situ__record_number(h->h_diag));
  dict = situ_tree_put(dict, "prev_flat_grad", situ_tree_tensor(h->prev_flat_grad));
  return situ_tree_put(dict, "prev_loss", situ__record_number(h->prev_loss));
}

/* ---- loading ---- */

enum { PATH = 64 };

/* i: of a list; -1 for other entries. */
static void write_path(char path[PATH], const char *name, int64_t i) {
  if (i < 0) snprintf(path, PATH, "state.0.%s", name);
  else snprintf(path, PATH, "state.0.%s.%" PRId64, name, i);
}

static situ_tensor *find(const situ_tree *flat, const char *name, int64_t i, char path[PATH]) {
  write_path(path, name, i);
  return situ__record_find(flat, path);
}

static bool read_value(const situ_tree *flat, const char *name, int64_t i, double *out) {
  char path[PATH];
  write_path(path, name, i);
  return situ__record_read(flat, path, out, 1);
}

static situ_tensor *load_vector(const situ_optim *o, const situ_tree *flat, const char *name, int64_t i) {
  char path[PATH];
  situ_tensor *saved = find(flat, name, i, path), *param = o->items[0].param;
  if (!saved) return situ__fail(SITU_E_ARG, "optim_load_state_dict", "the state has no %s", path), NULL;
  int64_t all = 0;
  for (int64_t k = 0; k < o->count; k++) all += situ_numel(o->items[k].param);
  return situ__optim_load_tensor(param, SITU_SHAPE(all), situ__lbfgs_dtype(param), path, saved);
}

static bool load_pairs(const situ_optim *o, const situ_tree *flat, situ__lbfgs *h) {
  char path[PATH];
  for (int64_t i = 0; find(flat, "old_dirs", i, path); i++) {
    double ro;
    situ_tensor *dir = load_vector(o, flat, "old_dirs", i), *stp = load_vector(o, flat, "old_stps", i);
    const bool good = read_value(flat, "ro", i, &ro) && situ__lbfgs_append(h, dir, stp, ro);
    situ_release(dir);
    situ_release(stp);
    if (!good) return false;
  }
  return true;
}

static bool load(const situ_optim *o, const situ_tree *flat, situ__lbfgs *h) {
  char path[PATH];
  double n_iter, func_evals;
  if (!find(flat, "n_iter", -1, path)) return true; /* no step was made */
  if (!read_value(flat, "n_iter", -1, &n_iter) || !read_value(flat, "func_evals", -1, &func_evals)) return false;
  if (!(n_iter >= 0 && n_iter < 1e15 && func_evals >= 0 && func_evals < 1e15))
    return situ__fail(SITU_E_ARG, "optim_load_state_dict", "n_iter is %g and func_evals %g", n_iter, func_evals), false;
  h->n_iter = (int64_t)n_iter;
  h->func_evals = (int64_t)func_evals;
  return !h->n_iter ||
         ((h->d = load_vector(o, flat, "d", -1)) && (h->prev_flat_grad = load_vector(o, flat, "prev_flat_grad", -1)) &&
          read_value(flat, "t", -1, &h->t) && read_value(flat, "H_diag", -1, &h->h_diag) &&
          read_value(flat, "prev_loss", -1, &h->prev_loss) && load_pairs(o, flat, h));
}

situ__lbfgs *situ__lbfgs_load(const situ_optim *o, const situ_tree *flat) {
  situ__lbfgs *h = situ__lbfgs_copy(NULL);
  if (h && load(o, flat, h)) return h;
  situ__lbfgs_free(h);
  return NULL;
}
