/* Which values of a program have a history.
   SPDX-License-Identifier: MIT */
#include "support/program/model.h"

#include <string.h>

static int add_family(program_model *m, program_family f) {
  m->family[m->families] = f;
  return m->families++;
}

static const program_family *family_of(const program_model *m, int value) { return &m->family[m->value[value].family]; }

void program_model_begin(program_model *m, const program *p) {
  memset(m, 0, sizeof *m);
  for (; m->values < p->leaves; m->values++)
    m->value[m->values].family = add_family(
        m, (program_family){ .leaf = true, .leaf_view = p->layout[m->values] != PROGRAM_OWN, .memory = m->memories++ });
  m->fresh = -1;
}

bool program_requires_grad(const program_model *m, int value) {
  return (family_of(m, value)->history || family_of(m, value)->leaf) && !m->value[value].no_grad_view;
}

/* What a no_grad scope made of a gradient is a constant, until a write outside of one puts a gradient into its memory. */
static bool is_gradient(const program_model *m, int value) {
  const program_value *v = &m->value[value];
  const program_family *f = &m->family[v->family];
  return f->gradient && (!v->no_grad_view || v->marked != f->marked);
}

/* Another family on the same memory has a history of its own. */
static bool shared_history(const program_model *m, int family) {
  for (int f = 0; f < m->families; f++)
    if (f != family && m->family[f].memory == m->family[family].memory && (m->family[f].history || m->family[f].leaf))
      return true;
  return false;
}

static void look_at_write(const program_model *m, const program_call *c, program_step *s) {
  const program_value *v = &m->value[c->in[0]];
  const program_family *f = &m->family[v->family];
  if (s->recorded && shared_history(m, v->family)) s->forbidden = true;
  if (m->saved[f->memory] || v->spread || v->no_grad_part) s->risky = true;
  if (c->no_grad) return;
  if (f->leaf && !(f->leaf_view && v->no_grad_view && !s->recorded)) s->must_refuse = true;
  if ((v->no_grad_view || v->one_of) && (s->recorded || f->history)) s->must_refuse = true;
}

program_step program_model_look(const program_model *m, const program_call *c) {
  program_step s = { 0 };
  bool gradient = false;
  for (int i = 0; i < c->kind->operands && !(c->kind->flags & PROGRAM_FORGETS); i++) {
    const program_value *v = &m->value[c->in[i]];
    s.constant[i] = !program_requires_grad(m, c->in[i]);
    gradient |= is_gradient(m, c->in[i]);
    if (!s.constant[i] && !c->no_grad) s.recorded = true;
    if (v->no_grad_view && v->rebased != family_of(m, c->in[i])->rebased && !c->no_grad) s.must_refuse = true;
  }
  const program_effect e = c->kind->effect;
  if (e == PROGRAM_DETACHES) s.must_refuse = s.recorded = false;
  else if (s.recorded && gradient) s.must_refuse = true;
  if (e == PROGRAM_WRITES) look_at_write(m, c, &s);
  if ((e == PROGRAM_BACKWARD || e == PROGRAM_GRAD) && m->freed) s.risky = true;
  if (e >= PROGRAM_BACKWARD && (c->no_grad || s.constant[0])) s.forbidden = true;
  if (e == PROGRAM_HOOK && !(m->fresh == c->in[0] || (family_of(m, c->in[0])->leaf && c->in[0] < PROGRAM_LEAVES &&
                                                      !m->losses && m->value[c->in[0]].family == c->in[0])))
    s.forbidden = true;
  return s;
}

void program_model_run(program_model *m, const program_call *c) {
  const program_step s = program_model_look(m, c);
  const program_effect e = c->kind->effect;
  bool gradient = false;
  for (int i = 0; i < c->kind->operands && !(c->kind->flags & PROGRAM_FORGETS); i++)
    gradient |= is_gradient(m, c->in[i]) && !c->no_grad;
  if (s.recorded && c->kind->flags & PROGRAM_SAVES)
    for (int i = 0; i < c->kind->operands; i++) m->saved[family_of(m, c->in[i])->memory] = true;
  program_value v = c->kind->operands ? m->value[c->in[0]] : (program_value){ 0 };
  m->fresh = -1;
  switch (e) {
  case PROGRAM_MAKES:
    v = (program_value){ .family = add_family(m, (program_family){ .history = s.recorded,
                                                                   .gradient = gradient && !s.recorded,
                                                                   .memory = m->memories++ }),
                         .no_grad_part = c->no_grad && c->kind->flags & PROGRAM_PART };
    m->saved[m->family[v.family].memory] = s.recorded && c->kind->flags & PROGRAM_SAVES;
    /* a write through a view of what may itself be a view makes its history anew, without the hook, as in torch */
    if (s.recorded && !(c->kind->flags & PROGRAM_PART)) m->fresh = m->values;
    break;
  case PROGRAM_GRAD:
    v = (program_value){ .family = add_family(m, (program_family){ .gradient = true, .memory = m->memories++ }) };
    break;
  case PROGRAM_DETACHES:
    v = (program_value){ .family = add_family(m, (program_family){ .memory = m->family[v.family].memory }),
                         .spread = v.spread };
    break;
  case PROGRAM_VIEWS:
    if (!gradient) v.marked = m->family[v.family].marked;
    v.no_grad_view |= c->no_grad;
    v.one_of |= (c->kind->flags & PROGRAM_ONE_OF) != 0;
    v.spread |= (c->kind->flags & PROGRAM_SPREADS) != 0;
    v.rebased = m->family[v.family].rebased;
    break;
  case PROGRAM_WRITES:
    m->family[v.family].gradient |= gradient;
    m->family[v.family].marked += gradient;
    if (!s.recorded) break;
    m->family[v.family].history = true;
    m->family[v.family].rebased++;
    if (c->kind->flags & PROGRAM_SAVES) m->saved[m->family[v.family].memory] = true;
    break;
  default: break;
  }
  if (e == PROGRAM_BACKWARD || e == PROGRAM_GRAD) {
    m->losses++;
    m->freed |= c->p[0] == 0;
  }
  m->value[m->values++] = v;
}
