/* The modules of a program: the outermost runs it, the others hold its parameters under the names of the file.
   SPDX-License-Identifier: MIT */
#include "module.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "derive.h"
#include "situ/autograd.h"
#include "situ/sys/dry.h"

/* Each has a type of its own, a copy of one of those below, so that it prints as the class that the file names. */
typedef struct part {
  situ_nn_module base;
  situ_nn_type type;
  char name[64];
  situ__program *program; /* of the outermost; else NULL */
  situ__derived *derived; /* of the outermost; NULL: it keeps nothing */
} part;

void situ__program_free(situ__program *program) {
  if (!program || __atomic_sub_fetch(&program->owners, 1, __ATOMIC_ACQ_REL) > 0) return;
  for (int32_t i = 0; i < program->constants; i++) situ_drop(&program->constant[i].tensor);
  situ__free(program->constant);
  situ__free(program->node);
  situ__free(program->kind);
  situ__free(program->meta);
  situ__free(program->declared);
  situ__free(program->model);
  situ__arena_free(&program->arena);
  situ__free(program);
}

/* Such a program trains, but not as the model that was exported. */
static SITU_COLD void tell_folded(situ__program *p) {
  if (situ_is_dry() || __atomic_exchange_n(&p->folded_told, true, __ATOMIC_RELAXED)) return;
  situ__log(
      "%s: its exporter has folded %d batch norms into the layers before them, so that training differs from the "
      "model's: the statistics are fixed, and steps are those of weights that are scaled by them; export the model "
      "to .pt2 to train it as it was, or call situ_nn_eval if it does not train; this line is not warned of again",
      p->path, (int)p->folded_norms);
}

static situ_tree *program_call(situ_nn_module *self, const situ_tree *inputs) {
  part *p = (part *)self;
  if (p->program->folded_norms && self->training && situ_is_grad_enabled()) tell_folded(p->program);
  return situ__program_run(p->program, self, p->derived, inputs);
}

static void release_part(situ_nn_module *self) {
  situ__derived_free(((part *)self)->derived);
  situ__program_free(((part *)self)->program);
}

static situ_status copy_part(situ_nn_module *copy, const situ_nn_module *self) {
  part *to = (part *)copy;
  (void)self;
  copy->type = &to->type;
  to->type.name = to->name;
  if (to->program) __atomic_fetch_add(&to->program->owners, 1, __ATOMIC_RELAXED);
  to->derived = to->program ? situ__derived_new() : NULL;
  return SITU_OK;
}

static const situ_nn_type child_type = { .name = "Part", .size = sizeof(part), .copy = copy_part };
static const situ_nn_type program_type = {
  .name = "Program", .size = sizeof(part), .call = program_call, .release = release_part, .copy = copy_part
};

const situ__program *situ__program_of(const situ_nn_module *m) {
  return m->type->call == program_call ? ((const part *)m)->program : NULL;
}

static situ_tensor *part_at(const void *module, int64_t i, const char **name) {
  *name = situ__program_of(module)->part[i].path;
  return situ_nn_get_tensor((situ_nn_module *)(uintptr_t)module, *name);
}

void *situ__program_values(const char *op, situ_tensor *t, size_t *bytes) {
  *bytes = (size_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t));
  void *values = situ__alloc(*bytes + 1);
  if (!values) return situ__no_memory(op, *bytes), NULL;
  const uint64_t lock = situ__still_lock(t);
  const situ_status status = situ_copy_to_host(t, values, *bytes);
  situ__write_end(lock);
  if (status == SITU_OK) return values;
  situ__free(values);
  return NULL;
}

bool situ__program_hold(const char *op, situ__still *still, situ_nn_module *m) {
  return situ__still_begin(op, still, part_at, m, situ__program_of(m)->parts);
}

static part *new_part(const situ_nn_type *type, const char *name) {
  part *m = situ_nn_alloc(type);
  if (!m) return NULL;
  (void)snprintf(m->name, sizeof m->name, "%s", *name ? name : type->name);
  m->type = *type;
  m->type.name = m->name;
  m->base.type = &m->type;
  return m;
}

situ_nn_module *situ__program_child(const char *name, const situ_nn_module *like) {
  part *m = new_part(&child_type, name);
  if (m) m->base.training = like->training, m->base.home = like->home;
  return situ_nn_done(m);
}

situ_nn_module *situ__program_module(situ__program *program, const char *name) {
  part *m = new_part(&program_type, name);
  if (m) m->program = program, m->derived = situ__derived_new();
  else situ__program_free(program);
  return m ? &m->base : NULL;
}
