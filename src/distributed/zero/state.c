/* The state of an optimiser that is divided among ranks, as that of one over whole parameters, and back.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "situ/sys/shape.h"
#include "zero.h"

static const char save_op[] = "dist_zero_state_dict";
static const char load_op[] = "dist_zero_load_state_dict";

enum { ENTRIES = 6 };

/* What a parameter's state consists of, as the owner of its first element says. Sent as bytes. */
typedef struct situ__zero_record {
  int32_t count;
  struct {
    char name[24];
    int32_t dtype;
    bool is_number; /* "step": the same for all parts */
    unsigned char value[8];
  } entry[ENTRIES];
} situ__zero_record;

/* ---- saving ---- */

typedef struct saving {
  const situ_dist_zero *z;
  const situ_tree *state; /* of this rank's parts */
  int to;
} saving;

/* Of this rank's part of a parameter. */
static const situ_tree *state_of(const saving *s, int64_t parameter) {
  char key[24];
  (void)snprintf(key, sizeof key, "%" PRId64, s->z->places[parameter].part);
  return situ_tree_find(s->state, key);
}

/* dict NULL: the parameter has not been stepped yet. */
static bool describe(const situ_tree *dict, situ__zero_record *r) {
  for (int64_t i = 0; dict && i < situ_tree_count(dict); i++) {
    situ_tensor *t = situ_tree_tensor_at(dict, i);
    if (r->count == ENTRIES)
      return situ__fail(SITU_E_LIMIT, save_op, "a state has more than %d tensors", ENTRIES), false;
    (void)snprintf(r->entry[r->count].name, sizeof r->entry->name, "%s", situ_tree_key(dict, i));
    r->entry[r->count].dtype = situ_dtype_of(t);
    r->entry[r->count].is_number = situ_dim(t) == 0;
    if (situ_dim(t) == 0 &&
        situ_copy_to_host(t, r->entry[r->count].value, situ_dtype_size(situ_dtype_of(t))) != SITU_OK)
      return false;
    r->count++;
  }
  return true;
}

/* The record of a parameter, from its first owner to the rank that collects. */
static bool tell_record(const saving *s, int64_t parameter, int owner, const char *name, situ__zero_record *r) {
  const int me = s->z->comm->rank;
  const bool collects = me == s->to;
  if (owner == me && !describe(state_of(s, parameter), r)) return false;
  if (owner == s->to || (!collects && owner != me)) return true;
  const situ_comm_call call = { collects ? SITU_COMM_RECEIVE : SITU_COMM_SEND,
                                .dtype = SITU_U8,
                                .count = sizeof *r,
                                .send = r,
                                .receive = r,
                                .peer = collects ? owner : s->to,
                                .name = name };
  return situ_comm_run(s->z->comm, &call) == SITU_OK;
}

/* The state of a whole parameter, with numbers, and memory for the rest in whole[]. NULL after recording an error. */
static situ_tree *make_state(const situ__zero_record *r, situ_tensor *parameter, situ_tensor **whole) {
  situ_tree *dict = situ_tree_dict();
  for (int e = 0; e < r->count && dict; e++) {
    const situ_options like = { .dtype = (situ_dtype)r->entry[e].dtype };
    const bool number = r->entry[e].is_number;
    whole[e] = number ? situ_from_host(r->entry[e].value, situ_dtype_size(like.dtype), SITU_SCALAR, &like)
                      : situ_empty(situ_shape_of(parameter), &like);
    dict = situ_tree_put(dict, r->entry[e].name, situ_tree_tensor(whole[e]));
  }
  return dict;
}

static bool send_part(const saving *s, int64_t parameter, const char *name) {
  const situ_tree *dict = state_of(s, parameter);
  for (int64_t i = 0; dict && i < situ_tree_count(dict); i++) {
    situ_tensor *t = situ_tree_tensor_at(dict, i);
    if (situ_dim(t) > 0 && situ_comm_send(s->z->comm, t, s->to, name) != SITU_OK) return false;
  }
  return true;
}

static situ_tensor *on_host(situ_tensor *t) { return situ_to(t, (situ_device){ SITU_CPU, 0 }); }

static bool collect_part(const saving *s, const situ__zero_part *p, int owner, const char *name,
                         const situ__zero_record *r, situ_tensor *const *whole) {
  for (int e = 0; e < r->count; e++) {
    if (r->entry[e].is_number) continue;
    situ_tensor *at = situ__zero_elements(whole[e], p->from, p->count);
    if (!at || (owner == s->to ? !situ_copy_(at, on_host(situ_tree_get(state_of(s, p->parameter), r->entry[e].name)))
                               : situ_comm_receive(s->z->comm, at, owner, name) != SITU_OK))
      return false;
  }
  return true;
}

/* Returns false after recording an error. */
static bool save_parameter(const saving *s, int64_t parameter, situ_tree **state) {
  const situ_dist_zero *z = s->z;
  if (z->places[parameter].deal < 0) return true;
  const char *name = situ_tree_key(z->parameters, parameter);
  int owner = situ__zero_first_rank(z, parameter);
  situ__zero_record r = { 0 };
  situ_tensor *whole[ENTRIES];
  situ_tree *dict = NULL;
  const bool collects = z->comm->rank == s->to;
  if (!tell_record(s, parameter, owner, name, &r)) return false;
  if (collects && !(dict = make_state(&r, situ_tree_tensor_at(z->parameters, parameter), whole))) return false;
  bool good = true;
  for (; good && owner < z->comm->size; owner++) {
    const situ__zero_part p = situ__zero_part_of(z, parameter, owner);
    if (!p.count) continue; /* of few elements a rank between two owners may have none */
    if (collects) good = collect_part(s, &p, owner, name, &r, whole);
    else if (owner == z->comm->rank) good = send_part(s, parameter, name);
  }
  char key[24];
  (void)snprintf(key, sizeof key, "%" PRId64, parameter);
  if (good && collects && r.count) return (*state = situ_tree_put(*state, key, dict)) != NULL;
  situ_tree_free(dict);
  return good;
}

/* A group's hyperparameters, for the parameters from number `first` on. */
static situ_tree *group_for(const situ_tree *group, int64_t first, int64_t count) {
  situ_tree *dict = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(group) && dict; i++)
    if (strcmp(situ_tree_key(group, i), "params") != 0)
      dict = situ_tree_put(dict, situ_tree_key(group, i), situ_tree_copy(situ_tree_at(group, i)));
  situ_tensor *numbers = situ_arange((double)first, (double)(first + count), 1, &(situ_options){ .dtype = SITU_I64 });
  return situ_tree_put(dict, "params", situ_tree_tensor(numbers));
}

static int64_t first_of_group(const situ_dist_zero *z, int g) { return g ? z->group_ends[g - 1] : 0; }

situ_tree *situ__zero_groups(const situ_dist_zero *z, const situ_tree *own) {
  const situ_tree *groups = situ_tree_find(own, "param_groups");
  situ_tree *list = situ_tree_list();
  for (int g = 0; g < z->group_count && list; g++) {
    const int64_t first = first_of_group(z, g);
    list = situ_tree_append(list, group_for(situ_tree_at(groups, g), first, z->group_ends[g] - first));
  }
  return list;
}

static situ_tree *whole_dict(situ_tree *state, situ_tree *groups) {
  return situ_tree_put(situ_tree_put(situ_tree_dict(), "state", state), "param_groups", groups);
}

static situ_tree *collect(const saving *s, const situ_tree *own) {
  situ_tree *state = situ_tree_dict();
  for (int64_t i = 0; state && i < situ_tree_count(s->z->parameters); i++)
    if (!save_parameter(s, i, &state)) {
      situ_tree_free(state);
      return NULL;
    }
  if (s->z->comm->rank != s->to) return state;
  return whole_dict(state, situ__zero_groups(s->z, own));
}

situ_tree *situ_dist_zero_state_dict(situ_dist_zero *zero, int to) {
  SITU__MADE_OF_OPS(save_op);
  if (!situ__zero_given(save_op, zero)) return NULL;
  if (to < 0 || to >= zero->comm->size)
    return situ__fail(SITU_E_ARG, save_op, "to is %d, must be a rank of 0..%d", to, zero->comm->size - 1), NULL;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *own = situ_optim_state_dict(zero->optim), *all = NULL;
  const saving s = { zero, situ_tree_find(own, "state"), to };
  if (own && !(all = collect(&s, own))) situ_comm_abort(zero->comm, situ_error_message());
  situ_tree_free(own);
  if (situ_scope_end(&scope) == SITU_OK) return all;
  situ_tree_free(all);
  return NULL;
}

/* ---- loading ---- */

bool situ__zero_is_number(const char *name) { return !strcmp(name, "step") || !strcmp(name, "mu_product"); }

bool situ__zero_fits(const char *op, const situ_dist_zero *z, const situ__zero_part *p, const char *name,
                     situ_shape shape) {
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  const situ_shape wanted = situ_shape_of(situ_tree_tensor_at(z->parameters, p->parameter));
  if (situ__zero_is_number(name) || situ_shape_equal(&shape, &wanted)) return true;
  return situ__fail(SITU_E_SHAPE, op, "state.%" PRId64 ".%.90s is %s, its parameter %.90s is %s", p->parameter, name,
                    situ_shape_text(&shape, a), situ_tree_key(z->parameters, p->parameter),
                    situ_shape_text(&wanted, b)),
         false;
}

/* What the state of p's parameter says of p's elements. NULL after recording an error. */
static situ_tree *part_of_state(const situ_dist_zero *z, const situ__zero_part *p, const void *payload) {
  const situ_tree *flat = payload;
  char section[48];
  (void)snprintf(section, sizeof section, "state.%" PRId64, p->parameter);
  situ_tree *whole = situ_tree_section(flat, section), *dict = whole ? situ_tree_dict() : NULL;
  for (int64_t i = 0; dict && i < situ_tree_count(whole); i++) {
    const char *name = situ_tree_key(whole, i);
    situ_tensor *t = situ_tree_tensor_at(whole, i);
    if (!situ__zero_fits(load_op, z, p, name, situ_shape_of(t))) t = NULL;
    else if (!situ__zero_is_number(name)) t = situ__zero_elements(t, p->from, p->count);
    dict = situ_tree_put(dict, name, situ_tree_tensor(t));
  }
  situ_tree_free(whole);
  return dict;
}

/* The number of parameters of a group in a flat state; -1: it has no such group. */
static int64_t count_in(const situ_tree *flat, int g) {
  char key[48];
  (void)snprintf(key, sizeof key, "param_groups.%d.params", g);
  const situ_tree *numbers = situ_tree_find(flat, key);
  return numbers ? situ_numel(situ_tree_value(numbers)) : -1;
}

static bool same_groups(const situ_dist_zero *z, const situ_tree *flat) {
  for (int g = 0; g < z->group_count; g++) {
    const int64_t here = z->group_ends[g] - first_of_group(z, g), there = count_in(flat, g);
    if (here == there) continue;
    if (there < 0) situ__fail(SITU_E_ARG, load_op, "the state has %d groups, must have %d", g, z->group_count);
    else
      situ__fail(SITU_E_ARG, load_op, "group %d has %" PRId64 " parameters in the state, must have %" PRId64, g, there,
                 here);
    return false;
  }
  if (count_in(flat, z->group_count) < 0) return true;
  return situ__fail(SITU_E_ARG, load_op, "the state has more groups than the %d here", z->group_count), false;
}

/* The groups of a flat state, for this rank's parts. */
static situ_tree *own_groups(const situ_dist_zero *z, const situ_tree *flat) {
  situ_tree *list = situ_tree_list();
  int64_t first = 0;
  for (int g = 0; g < z->group_count && list; g++) {
    char section[32];
    int64_t count = 0;
    for (int64_t k = 0; k < z->part_count; k++) count += z->parts[k].group == g;
    (void)snprintf(section, sizeof section, "param_groups.%d", g);
    situ_tree *group = situ_tree_section(flat, section);
    list = situ_tree_append(list, group ? group_for(group, first, count) : NULL);
    situ_tree_free(group);
    first += count;
  }
  return list;
}

situ_tree *situ__zero_own_state(const situ_dist_zero *z, const situ_tree *groups, situ__zero_reader read,
                                const void *payload) {
  if (!same_groups(z, groups)) return NULL;
  situ_tree *state = situ_tree_dict();
  for (int64_t k = 0; k < z->part_count && state; k++) {
    char key[24];
    (void)snprintf(key, sizeof key, "%" PRId64, k);
    state = situ_tree_put(state, key, read(z, &z->parts[k], payload));
  }
  return whole_dict(state, own_groups(z, groups));
}

situ_status situ_dist_zero_load_state_dict(situ_dist_zero *zero, const situ_tree *state) {
  SITU__MADE_OF_OPS(load_op);
  if (!situ__zero_given(load_op, zero)) return situ_error();
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *flat = situ_tree_flatten(state),
            *own = flat ? situ__zero_own_state(zero, flat, part_of_state, flat) : NULL;
  const bool good = own && situ_optim_load_state_dict(zero->optim, own) == SITU_OK;
  situ_tree_free(own);
  situ_tree_free(flat);
  const situ_status ended = situ_scope_end(&scope);
  return good ? ended : situ_error();
}
