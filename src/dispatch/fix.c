/* Statements that would fix an invalid call. Each proposal is tried first (try.c), and printed only if it works.
   SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "device/dry.h"
#include "dispatch/explain.h"

/* ---- where the user can write a statement ---- */

static bool in_program(const void *address) { return address && !situ__own_code(address); }

/* The tensor itself, or if this call of the program has made it, the one on whose memory it is a view; NULL: none. */
static const situ_tensor *of_the_program(const situ_tensor *t) {
  const void *site = situ__call_site();
  const situ_tensor *found = NULL;
  if (t->name || !site || t->created_at != site) return t;
  for (const situ_tensor *o = situ__handles_begin(t->view.storage); o && !found; o = o->next_handle)
    if (o->created_at != site) found = o;
  situ__handles_end(t->view.storage);
  return found;
}

/* Returns true if a variable of the program holds the operand: a line of the program passed it to a module, or called
   the op. Values inside the library's own modules have no variable, nor has what a function makes for its own ops. */
static bool has_variable(const situ__refusal *r, int i) {
  const situ_explained *x = &r->tensor[i];
  const char *called = situ__now.called;
  if (x->given || x->held == SITU_HELD_INPUT) return x->given || in_program(x->site);
  if (called && strcmp(called, r->call->op->name) != 0 && !of_the_program(x->tensor)) return false;
  return !r->modules.code || in_program(r->modules.code);
}

static void add_fix(situ__choice *c, situ__fix fix) {
  if (c->count == SITU__FIXES) c->broken = true;
  else c->fix[c->count++] = fix;
}

/* ---- choices ---- */

/* Returns true if the whole outermost module should move: all its other tensors are in one place, which is either the
   tensor's or the target. In the first case moving only a part would split the module; in the second both are the
   same. */
static bool is_whole(const situ__refusal *r, int row, situ_device device, situ_dtype dtype) {
  const situ_explanation *m = &r->modules;
  const situ_view_desc *now = &r->tensor[row].tensor->view;
  if (r->tensor[row].root != m->root_module) return true;
  if (dtype) return !m->dtypes && (!m->dtype || m->dtype == dtype || m->dtype == (situ_dtype)now->dtype);
  return m->devices == 0 || (m->devices == 1 && (situ__same_device(m->device[0], device) ||
                                                 situ__same_device(m->device[0], now->storage->device)));
}

/* Whether an operand holds blocks where its op takes numbers. */
static bool holds_blocks(const situ__refusal *r, int row) {
  return row < r->count && !(r->row[row].accept & SITU_BLOCKS) && situ__blocks_of(&r->tensor[row].tensor->view);
}

/* The dtype of the numbers beside them, which must be equal; else that of their own numbers. */
static situ_dtype dtype_beside(const situ__refusal *r, int row) {
  for (int i = 0; i < r->count; i++) {
    const situ_dtype dtype = (situ_dtype)r->tensor[i].tensor->view.dtype;
    if (i != row && r->row[i].accept & r->row[row].accept & SITU_SAME && situ_dtype_is_floating(dtype)) return dtype;
  }
  return SITU_F32;
}

static void add_change(const situ__refusal *r, situ__choice *c, int row, situ_device device, situ_dtype dtype) {
  const situ_explained *x = &r->tensor[row];
  situ__fix fix = { .row = row, .device = device, .dtype = dtype };
  for (int k = 0; k < c->count; k++)
    if (!c->fix[k].dtype == !dtype && situ__fix_reaches(r, &c->fix[k], row)) return;
  const bool registering = device.kind && situ__same_device(device, x->goes_to);
  if (dtype && holds_blocks(r, row)) {
    fix.action = SITU_FIX_DEQUANTIZE;
    c->broken = c->broken || (x->held != SITU_HELD_REGISTERED && !has_variable(r, row));
  } else if (x->loose && registering) {
    fix.action = SITU_FIX_CHILD;
  } else if (x->held == SITU_HELD_REGISTERED) {
    fix.action = dtype ? SITU_FIX_NN_TO_DTYPE : SITU_FIX_NN_TO;
    fix.whole = is_whole(r, row, device, dtype);
  } else if (x->held == SITU_HELD_UNREGISTERED && registering) {
    fix.action = SITU_FIX_BUFFER;
  } else {
    fix.action = dtype ? SITU_FIX_TO_DTYPE : SITU_FIX_TO;
    c->broken = c->broken || !has_variable(r, row);
  }
  add_fix(c, fix);
}

/* The other inputs of the module that refused an operand: it would refuse them next. A model on several devices may
   have its inputs on several. */
static void add_inputs(situ__refusal *r) {
  const situ_explanation *m = &r->modules;
  for (int k = 0; k < m->inputs && m->devices < 2 && r->count + r->inputs < SITU__SHOWN; k++) {
    if (m->input[k].tensor->view.storage->device.kind == SITU_META) continue;
    situ_explained *x = &r->tensor[r->count + r->inputs++];
    *x = (situ_explained){ .tensor = m->input[k].tensor, .held = SITU_HELD_INPUT, .given = true, .site = m->inputs_at };
    memcpy(x->name, m->input[k].name, sizeof x->name);
  }
}

/* Moves all rows to one device, and what must move with them. */
static void add_moves(const situ__refusal *r, situ__choice *c, situ_device device) {
  for (int i = 0; i < r->count + r->inputs; i++)
    if (!situ__same_device(r->tensor[i].tensor->view.storage->device, device))
      add_change(r, c, i, device, SITU_DTYPE_DEFAULT);
}

static void bring_to(const situ__refusal *r, situ__choice *c, situ_device device) {
  *c = (situ__choice){ .count = 0 };
  add_moves(r, c, device);
}

static void cast_to(const situ__refusal *r, situ__choice *c, situ_dtype dtype) {
  for (int i = 0; i < r->count; i++)
    if (r->row[i].accept & SITU_SAME && (situ_dtype)r->tensor[i].tensor->view.dtype != dtype)
      add_change(r, c, i, (situ_device){ 0 }, dtype);
}

situ_dtype situ__acceptable(unsigned accept) {
  if (accept & SITU_FLOATING) return SITU_F32;
  return accept & (SITU_INDEX | SITU_INTEGRAL) ? SITU_I64 : SITU_BOOL;
}

/* Casts the operands whose dtype their schema does not accept, blocks among them. */
static void cast_unacceptable(const situ__refusal *r, situ__choice *c) {
  for (int i = 0; i < r->count; i++)
    if (!situ__accepts(r->row[i].accept, (situ_dtype)r->tensor[i].tensor->view.dtype) || holds_blocks(r, i))
      add_change(r, c, i, (situ_device){ 0 },
                 holds_blocks(r, i) ? dtype_beside(r, i) : situ__acceptable(r->row[i].accept));
}

static void cast_odd(const situ__refusal *r, situ__choice *c, situ_dtype dtype) {
  for (int i = 0; i < r->count; i++)
    if (r->row[i].odd) add_change(r, c, i, (situ_device){ 0 }, holds_blocks(r, i) ? dtype_beside(r, i) : dtype);
}

/* Allows copies between all devices that the model is spread over. */
static void allow_copies(const situ__refusal *r, situ__choice *c) {
  situ_policy policy = situ_get_policy();
  bool host = false;
  int others = 0;
  situ_device seen = { 0 };
  *c = (situ__choice){ .count = 0 };
  for (int i = 0; i < r->modules.devices + r->count; i++) {
    situ_device d =
        i < r->modules.devices ? r->modules.device[i] : r->tensor[i - r->modules.devices].tensor->view.storage->device;
    if (d.kind == SITU_META) return;
    host = host || d.kind == SITU_CPU;
    if (d.kind == SITU_CPU || (others && situ__same_device(d, seen))) continue;
    seen = d;
    others++;
  }
  if (host && others) policy.host_to_device = policy.device_to_host = SITU_POLICY_COPY;
  if (others > 1) policy.device_to_device = SITU_POLICY_COPY;
  add_fix(c, (situ__fix){ .action = SITU_FIX_POLICY, .policy = policy });
}

/* ---- text of a statement ---- */

static const char *variable_name(const situ__refusal *r, int i) {
  const situ_explained *x = &r->tensor[i];
  const char *name = situ_name(of_the_program(x->tensor));
  if (*name) return name;
  if (x->held != SITU_HELD_INPUT) return r->row[i].operand;
  return *x->name ? x->name : "x";
}

/* Writes "   before train.c:12". */
static void write_place(void *site, char *where, size_t size) {
  char place[SITU__CELL];
  if (in_program(site) && *situ__place_text(site, place, sizeof place)) snprintf(where, size, "   before %s", place);
}

/* Writes the path of the module that moves, and a C expression for it. */
static void module_text(const situ__refusal *r, const situ__fix *fix, char *path, char *code) {
  const situ_explained *x = &r->tensor[fix->row];
  const char *below = x->path + x->root_length, *end = strrchr(below, '.');
  int length = end && end > below ? (int)(end - below) - 1 : 0;
  char root[SITU_PATH_TEXT];
  if (x->root == r->modules.root_module) snprintf(root, sizeof root, "%s", r->modules.root);
  else snprintf(root, sizeof root, "%.*s", x->root_length, x->path);
  *path = 0;
  situ__append(path, SITU_PATH_TEXT, "%.*s%s%.*s", x->root_length, x->path, fix->whole || !length ? "" : ".",
               fix->whole ? 0 : length, below + (length > 0));
  if (fix->whole || !length) snprintf(code, 2 * SITU_PATH_TEXT + 60, "%s", root);
  else snprintf(code, 2 * SITU_PATH_TEXT + 60, "situ_nn_get_submodule(%s, \"%.*s\")", root, length, below + 1);
}

static void policy_text(const situ_policy *p, char *code, size_t size) {
  snprintf(code, size, "situ_policy_begin(&before, (situ_policy){");
  const struct {
    const char *name;
    int value;
  } field[] = { { "host_to_device", p->host_to_device },
                { "device_to_host", p->device_to_host },
                { "device_to_device", p->device_to_device } };
  int said = 0;
  for (int k = 0; k < 3; k++)
    if (field[k].value == SITU_POLICY_COPY)
      situ__append(code, size, "%s .%s = SITU_POLICY_COPY", said++ ? "," : "", field[k].name);
  situ__append(code, size, "%s%s });", p->verify ? ", .verify = true" : "", p->fallback ? ", .fallback = true" : "");
}

static const char *dtype_text(situ_dtype dtype, char text[24]) {
  snprintf(text, 24, "SITU_%s", situ_dtype_name(dtype));
  for (char *c = text; *c; c++) *c = (char)toupper((unsigned char)*c);
  return text;
}

static void where_registered(const situ_explained *x, char *where, size_t size) {
  snprintf(where, size, "   where %.100s is made", x->owner);
  if (!*x->name && x->field) situ__append(where, size, ", for the field at byte %zu of its struct", x->field);
  situ__append(where, size, ": what is registered moves with it");
}

/* Of a module's tensor: it is registered anew. */
static void dequantize_text(const situ__refusal *r, const situ__fix *fix, const char *name, char *code, size_t size) {
  const situ_explained *x = &r->tensor[fix->row];
  char values[2 * SITU_PATH_TEXT], dtype[24];
  const char *below = x->path + x->root_length + 1;
  if (x->held == SITU_HELD_REGISTERED)
    snprintf(values, sizeof values, "situ_dequantize(situ_nn_get_tensor(%.*s, \"%s\"))", x->root_length, x->path,
             below);
  else snprintf(values, sizeof values, "situ_dequantize(%s)", name);
  const bool casts = fix->dtype != SITU_F32;
  if (x->held == SITU_HELD_REGISTERED)
    situ__append(code, size, "situ_nn_add_tensor(%.*s, \"%s\", NULL, ", x->root_length, x->path, below);
  else situ__append(code, size, "%s = ", name);
  if (casts) situ__append(code, size, "situ_to_dtype(%s, %s)", values, dtype_text(fix->dtype, dtype));
  else situ__append(code, size, "%s", values);
  if (x->held != SITU_HELD_REGISTERED) situ__append(code, size, ";");
  else situ__append(code, size, ", SITU_NN_%s);", x->tensor->role == SITU_ROLE_PARAMETER ? "PARAMETER" : "BUFFER");
}

/* Writes one statement: its code, and the place where it belongs. */
static void write_statement(const situ__refusal *r, const situ__fix *fix, char *target, char *code, char *where,
                            size_t size) {
  enum { CODE = 2 * SITU_PATH_TEXT + 100 };
  const situ_explained *x = &r->tensor[fix->row];
  char device[SITU_DEVICE_NAME_MAX], dtype[24], module[2 * SITU_PATH_TEXT + 60];
  const char *name = variable_name(r, fix->row), *field = *x->name ? x->name : x->field ? "field" : "layers";
  void *op = situ__call_site();
  situ_device_name(fix->device, device);
  switch (fix->action) {
  case SITU_FIX_TO: situ__append(code, CODE, "%s = situ_to(%s, situ_dev(\"%s\"));", name, name, device); break;
  case SITU_FIX_TO_DTYPE:
    situ__append(code, CODE, "%s = situ_to_dtype(%s, %s);", name, name, dtype_text(fix->dtype, dtype));
    break;
  case SITU_FIX_NN_TO:
    module_text(r, fix, target, module);
    situ__append(code, CODE, "situ_nn_to(%s, situ_dev(\"%s\"));", module, device);
    break;
  case SITU_FIX_NN_TO_DTYPE:
    module_text(r, fix, target, module);
    situ__append(code, CODE, "situ_nn_to_dtype(%s, %s);", module, dtype_text(fix->dtype, dtype));
    break;
  case SITU_FIX_BUFFER:
    situ__append(code, CODE, "situ_nn_buffer(m, %s, ...);", field);
    where_registered(x, where, size);
    break;
  case SITU_FIX_CHILD:
    if (x->field) situ__append(code, CODE, "situ_nn_child(m, %s, m->%s);", field, field);
    else situ__append(code, CODE, "situ_nn_child(m, layers, situ_nn_module_list_of(n, m->layers));");
    where_registered(x, where, size);
    break;
  case SITU_FIX_POLICY: policy_text(&fix->policy, code, CODE); break;
  case SITU_FIX_DEQUANTIZE: dequantize_text(r, fix, name, code, CODE); break;
  }
  if (fix->action == SITU_FIX_BUFFER || fix->action == SITU_FIX_CHILD)
    situ__append(target, SITU_PATH_TEXT, "%s", x->owner);
  else if (fix->action == SITU_FIX_DEQUANTIZE && x->held == SITU_HELD_REGISTERED)
    situ__append(target, SITU_PATH_TEXT, "%s", x->path), write_place(op, where, size);
  else if (fix->action == SITU_FIX_TO || fix->action == SITU_FIX_TO_DTYPE || fix->action == SITU_FIX_DEQUANTIZE)
    situ__append(target, SITU_PATH_TEXT, "%.199s", name), write_place(in_program(x->site) ? x->site : op, where, size);
  else write_place(in_program(r->modules.site) ? r->modules.site : op, where, size);
}

static void print_choice(situ__refusal *r, const situ__choice *choice, int number) {
  for (int k = 0; k < choice->count && r->fix_count < (int)(sizeof r->fixes / sizeof *r->fixes); k++) {
    const situ__fix *fix = &choice->fix[k];
    int at = r->fix_count++;
    char where[SITU__CELL + 160] = "";
    r->target[at][0] = r->fix_device[at][0] = r->code[at][0] = 0;
    write_statement(r, fix, r->target[at], r->code[at], where, sizeof where);
    if (fix->device.kind) situ_device_name(fix->device, r->fix_device[at]);
    const bool module =
        fix->action == SITU_FIX_NN_TO || fix->action == SITU_FIX_NN_TO_DTYPE || fix->action == SITU_FIX_POLICY;
    r->fixes[at] = (situ_error_fix){ .action = fix->action,
                                     .choice = number,
                                     .operand = module || fix->row >= r->count ? -1 : fix->row,
                                     .target = r->target[at],
                                     .device = r->fix_device[at],
                                     .dtype = fix->dtype ? situ_dtype_name(fix->dtype) : "",
                                     .code = r->code[at],
                                     .field = fix->action == SITU_FIX_BUFFER || fix->action == SITU_FIX_CHILD
                                                  ? r->tensor[fix->row].field
                                                  : 0,
                                     .host_to_device = fix->policy.host_to_device == SITU_POLICY_COPY,
                                     .device_to_host = fix->policy.device_to_host == SITU_POLICY_COPY,
                                     .device_to_device = fix->policy.device_to_device == SITU_POLICY_COPY };
    SITU__APPEND(r->fix, "%s%s%s%s", at ? "\n" : "", number && !k ? "or " : "", r->code[at], where);
  }
}

/* ---- trying choices ---- */

static const situ_device cpu = { SITU_CPU, 0 }; /* computes what other devices lack */

/* Operands that meet on one device may still differ in dtype: then it also adds casts. */
static bool try_choice(situ__refusal *r, situ__choice *choice, char *why, size_t size) {
  situ_status status;
  if (situ__mends(r, choice, &status, why, size)) return true;
  if (status != SITU_E_DTYPE || r->status != SITU_E_DEVICE || choice->broken) return false;
  const situ__majority by = situ__vote(r->call, SITU__BY_DTYPE);
  for (int first = 0; first < 2; first++) { /* where they meet a dtype may be lacking: then casts come first */
    situ__choice both = first ? (situ__choice){ .count = 0 } : *choice;
    if (by.like >= 0) cast_to(r, &both, (situ_dtype)r->call->in[by.like]->view.dtype);
    cast_unacceptable(r, &both);
    if (first) add_moves(r, &both, choice->fix[0].device);
    if (both.count == choice->count || !situ__mends(r, &both, &status, why, size)) continue;
    *choice = both;
    return true;
  }
  return false;
}

static bool has_action(const situ__choice *c, situ_fix_action action) {
  for (int k = 0; k < c->count; k++)
    if (c->fix[k].action == action) return true;
  return false;
}

/* Marks as odd the operands that the first choice changes; if it changes none, those that differ from the majority
   stay marked. */
static void mark_odd(situ__refusal *r, const situ__choice *choice) {
  if (has_action(choice, SITU_FIX_POLICY) || !r->decided) return;
  int move = 0;
  while (move < choice->count - 1 && !choice->fix[move].device.kind) move++;
  for (int i = 0; i < r->count; i++) {
    bool reached = false;
    for (int k = 0; k < choice->count; k++) reached = reached || situ__fix_reaches(r, &choice->fix[k], i);
    situ_device there = r->tensor[i].tensor->view.storage->device;
    /* Moving a module also reaches operands that are in the right place. */
    if (r->status == SITU_E_DEVICE) reached = reached && !situ__same_device(there, choice->fix[move].device);
    if (r->status == SITU_E_DTYPE)
      reached = reached && (situ_dtype)r->tensor[i].tensor->view.dtype != choice->fix[0].dtype;
    r->row[i].odd = reached;
  }
}

static situ_device device_of(const situ__refusal *r, int row) { return r->tensor[row].tensor->view.storage->device; }

static bool was_mapped(const situ__refusal *r, int row) {
  const situ_storage *s = r->tensor[row].tensor->view.storage;
  return s->moved_by && strcmp(s->moved_by, "nn_to_map") == 0;
}

static void put_first(situ_device *place, int count, situ_device first) {
  for (int k = 1; k < count; k++) {
    if (!situ__same_device(place[k], first)) continue;
    memmove(place + 1, place, (size_t)k * sizeof *place);
    place[0] = first;
    return;
  }
}

/* Devices where the operands could meet: the majority's, then the others'. If the majority is parameters of a module
   whose remaining tensors are with the other operands, the user forgot to move that part (unless a device map placed
   it): then the device of the remaining tensors comes first. Real values move to meta only if most operands are
   there. An unregistered module belongs on the device where registering it would move it. A preflight whose fixes would
   contradict each other says where operands meet. */
static int meeting_places(const situ__refusal *r, situ_device place[SITU__SHOWN + 1]) {
  int count = 0;
  bool real = false, loose = false;
  for (int i = 0; i < r->count; i++) {
    situ_device there = r->tensor[i].goes_to;
    real = real || device_of(r, i).kind != SITU_META;
    if (loose || !r->tensor[i].loose || !there.kind || there.kind == SITU_META) continue;
    loose = true;
    place[count++] = there;
  }
  for (int i = -1; i < r->count; i++) {
    situ_device d = device_of(r, i < 0 ? r->like : i);
    bool known = real && d.kind == SITU_META && !(i < 0 && r->decided);
    for (int k = 0; k < count; k++) known = known || situ__same_device(place[k], d);
    if (!known) place[count++] = d;
  }
  const situ_explanation *m = &r->modules;
  bool minority = count > 1 && !loose && !was_mapped(r, r->like) && m->devices &&
                  r->tensor[r->like].held == SITU_HELD_REGISTERED && r->tensor[r->like].root == m->root_module &&
                  situ__same_device(place[0], device_of(r, r->like));
  for (int k = 0; k < m->devices; k++) minority = minority && !situ__same_device(m->device[k], place[0]);
  if (minority) put_first(place, count, m->device[0]);
  if (situ__dry && !loose) put_first(place, count, situ__dry->meet);
  return count;
}

/* Returns true if the user should see the other choice too: a model left on the host is as likely to be at fault as
   the input that was moved to a device, and a user who does not want copies moves the model. */
static bool is_alternative(const situ__refusal *r, const situ__choice *first, const situ__choice *other) {
  if (!has_action(other, SITU_FIX_NN_TO) || has_action(other, SITU_FIX_TO)) return false;
  if (has_action(first, SITU_FIX_POLICY)) return true;
  situ_device here = device_of(r, r->like);
  return has_action(first, SITU_FIX_TO) && (here.kind == SITU_CPU || here.kind == SITU_META) && r->modules.devices < 2;
}

static void propose_devices(situ__refusal *r) {
  situ_device place[SITU__SHOWN + 1] = { 0 };
  situ__choice first = { .count = 0 }, other;
  char why[480], name[SITU_DEVICE_NAME_MAX];
  const int own = meeting_places(r, place);
  int count = own, chosen = -1;
  bool copies = false, has_cpu = false;
  for (int k = 0; k < own; k++) has_cpu |= place[k].kind == SITU_CPU;
  if (!has_cpu && own <= SITU__SHOWN) place[count++] = cpu;
  add_inputs(r);
  /* Operands without a variable: the library copies them, if the policy allows it. That comes first only for a model
     that a device map has spread, and last otherwise, as it does not mend the model. A check weighs the fixes of all
     calls itself. */
  const bool last = !situ__dry && !was_mapped(r, r->like);
  for (int at = 0; at < count * (1 + last) && chosen < 0; at++) {
    const int k = at % count;
    *why = 0;
    bring_to(r, &first, place[k]);
    copies = first.broken;
    if (copies && last && at < count) continue;
    if (copies) allow_copies(r, &first);
    if (try_choice(r, &first, why, sizeof why)) chosen = k;
    else if (*why && !*r->even_then)
      snprintf(r->even_then, sizeof r->even_then, "with all operands on %s it would be refused still: %s",
               situ_device_name(place[k], name), why);
  }
  if (chosen < 0) return;
  *r->even_then = 0;
  mark_odd(r, &first);
  print_choice(r, &first, 0);
  if (situ__dry && !copies) situ__dry->mended = place[chosen];
  if (situ__dry && situ__dry->meet.kind) return;
  for (int k = 0; k < own; k++) {
    if (k == chosen && !copies) continue;
    bring_to(r, &other, place[k]);
    if (other.broken || !is_alternative(r, &first, &other) || !try_choice(r, &other, why, sizeof why)) continue;
    print_choice(r, &other, 1);
    return;
  }
}

/* The odd operands get `want`, or those that must be equal `dtype`; moves: all on the cpu. Returns false if the call
   would fail still. */
static bool propose_cast(situ__refusal *r, situ_dtype want, situ_dtype dtype, bool moves) {
  situ__choice choice = { .count = 0 };
  situ_status status;
  char why[512] = "";
  if (moves) bring_to(r, &choice, cpu);
  if (want) cast_odd(r, &choice, want);
  else cast_to(r, &choice, dtype);
  const bool good = situ__mends(r, &choice, &status, why, sizeof why);
  if (good) {
    *r->even_then = 0;
    mark_odd(r, &choice);
    print_choice(r, &choice, 0);
  } else if (*why && !*r->even_then) {
    snprintf(r->even_then, sizeof r->even_then, "as %s it would be refused still: %.480s",
             situ_dtype_name(choice.count ? choice.fix[0].dtype : want), why);
  }
  return good;
}

static void propose_dtypes(situ__refusal *r, situ_dtype want) {
  const int like = situ__vote(r->call, SITU__BY_DTYPE).like;
  const situ_dtype dtype = like < 0 ? want : (situ_dtype)r->call->in[like]->view.dtype;
  if ((want && propose_cast(r, want, want, false)) || !dtype || propose_cast(r, SITU_DTYPE_DEFAULT, dtype, false))
    return;
  for (int i = 0; i < r->count && !want; i++) /* the device may lack that of the majority */
    if (r->row[i].accept & SITU_SAME && propose_cast(r, want, (situ_dtype)r->tensor[i].tensor->view.dtype, false))
      return;
  (void)propose_cast(r, want, dtype, true);
}

/* The model that runs on another device: a layer of the library reads more of its tensors in its next calls. */
static void add_model(situ__refusal *r) {
  enum { FEW = 64 };
  situ_tensor *part[FEW];
  const int at = r->count + r->inputs;
  if (!r->modules.root_module || in_program(r->modules.code) || at == SITU__SHOWN) return;
  const int64_t count = situ__explain_parts(r->modules.root_module, "", part, FEW);
  for (int64_t i = 0; i < count && i < FEW; i++) {
    if (part[i]->view.storage->device.kind == SITU_CPU) continue;
    r->tensor[at] = (situ_explained){ .tensor = part[i] };
    situ_explanation e = { .operand = &r->tensor[at], .count = 1 };
    situ_explain_look(&e);
    r->inputs++;
    return;
  }
}

void situ__propose_capable(situ__refusal *r) {
  char why[480];
  situ_status status;
  situ__choice moved;
  add_inputs(r);
  add_model(r);
  bring_to(r, &moved, cpu);
  if (situ__mends(r, &moved, &status, why, sizeof why)) print_choice(r, &moved, 0);
}

void situ__propose(situ__refusal *r, situ_dtype want) {
  if (r->status != SITU_E_DEVICE) propose_dtypes(r, want);
  else if (r->like >= 0) propose_devices(r);
}
