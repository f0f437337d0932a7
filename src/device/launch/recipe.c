/* Recipes: the recorded work that computes the values of a storage on meta, replayed when it moves to another device.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"

/* Maximum number of slots over all steps of a recipe, including those of its inputs; initialisers need only a few. It
   bounds the memory that a long computation on meta holds, the nesting of recipes, and the steps and buffers of a
   replay. */
enum { RECIPE_MAX = 256, SLOTS_MAX = 2 * SITU_WORK_MAX };

typedef struct situ_recipe situ_recipe;

/* The content of one storage after a step. The first one of a chain of `before` stands for the memory: the later ones
   are written into the same memory. */
struct situ_recipe {
  struct step *step;          /* the step that contains this slot; freed with it */
  struct situ_recipe *before; /* its content before the step; NULL: none, or fully overwritten */
  size_t bytes;
};

/* A piece of work recorded on meta: plain data. Operands name slots instead of storages, because the content of a
   storage changes and a step does not. */
typedef struct step {
  int64_t refs;
  uint64_t number; /* process-wide; a replay runs the steps in this order */
  size_t size;
  int whole; /* slots of the whole recipe, counted as a tree */
  int slots, views;
  situ_work work; /* its operands point into `view`, whose storage is not valid */
  situ_window window;
  uint8_t in[SITU_WORK_MAX], out[SITU_WORK_MAX]; /* slots of the operands */
  situ_recipe slot[SLOTS_MAX];
  situ_view_desc view[];
} step;

static uint64_t taken;

/* ---- ownership ---- */

static situ_recipe *retain_recipe(situ_recipe *r) {
  if (r) (void)__atomic_add_fetch(&r->step->refs, 1, __ATOMIC_RELAXED);
  return r;
}

void situ__recipe_release(situ_recipe *r) {
  if (!r || __atomic_sub_fetch(&r->step->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
  step *s = r->step;
  for (int i = 0; i < s->slots; i++) situ__recipe_release(s->slot[i].before);
  situ__small_free(s, s->size);
}

static void drop_recipe(situ_storage *storage) {
  situ__recipe_release(storage->recipe);
  storage->recipe = NULL;
}

void situ__recipe_lose(situ_storage *storage) {
  if (situ__is_dry() && !situ__is_void(storage)) return; /* a dry run changes no other storage */
  drop_recipe(storage);
  situ__storage_wrote(storage);
}

/* ---- recording ---- */

/* How a piece of work uses a storage. */
typedef struct part {
  situ_storage *storage;
  bool read, written, whole; /* whole: overwritten completely */
} part;

static int find_part(part *list, int *count, situ_storage *storage) {
  for (int i = 0; i < *count; i++)
    if (list[i].storage == storage) return i;
  list[*count] = (part){ .storage = storage };
  return (*count)++;
}

static bool covers_storage(const situ_view_desc *v) {
  return v->contiguous && v->offset == 0 &&
         (size_t)v->numel * situ__dtype_size((situ_dtype)v->dtype) == v->storage->bytes;
}

/* Lists the distinct storages of a piece of work. */
static int parts_of(const situ_work *work, part *list) {
  int count = 0;
  for (int i = 0; i < work->ins; i++)
    if (work->in[i]) list[find_part(list, &count, work->in[i]->storage)].read = true;
  for (int i = 0; i < work->outs; i++) {
    if (!work->out[i]) continue;
    part *p = &list[find_part(list, &count, work->out[i]->storage)];
    p->written = true;
    p->whole = p->whole || (work->verb != SITU_VERB_SCATTER && covers_storage(work->out[i]));
  }
  return count;
}

static bool keeps_content(const part *p) { return p->read || !p->whole; }

/* Returns true if the work can be repeated: all its input values must have recipes, within RECIPE_MAX. */
static bool is_repeatable(const part *list, int count, int *whole) {
  *whole = count;
  for (int i = 0; i < count; i++) {
    const situ_storage *s = list[i].storage;
    if (!keeps_content(&list[i])) continue;
    if (s->recipe) *whole += s->recipe->step->whole;
    else if (list[i].read || !(s->flags & SITU_STORAGE_UNWRITTEN)) return false;
  }
  return *whole <= RECIPE_MAX;
}

static void copy_operands(step *s, const situ_view_desc **operand, int operands, uint8_t *slot, part *list) {
  for (int i = 0; i < operands; i++) {
    if (!operand[i]) continue;
    slot[i] = (uint8_t)find_part(list, &s->slots, operand[i]->storage);
    s->view[s->views] = *operand[i];
    operand[i] = &s->view[s->views++];
  }
}

static step *step_new(const situ_work *work, part *list, int count, int whole) {
  size_t size = sizeof(step) + (size_t)(work->ins + work->outs) * sizeof(situ_view_desc);
  step *s = situ__small_alloc(size);
  if (!s) return NULL;
  memset(s, 0, offsetof(step, slot));
  s->number = __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
  s->size = size;
  s->whole = whole;
  s->slots = count;
  s->work = *work;
  if (work->window) s->window = *work->window;
  if (work->window) s->work.window = &s->window;
  copy_operands(s, s->work.in, work->ins, s->in, list);
  copy_operands(s, s->work.out, work->outs, s->out, list);
  for (int i = 0; i < count; i++)
    s->slot[i] = (situ_recipe){ .step = s,
                                .before = keeps_content(&list[i]) ? retain_recipe(list[i].storage->recipe) : NULL,
                                .bytes = list[i].storage->bytes };
  return s;
}

/* Work on a list (an optimiser's step, a move) gets no recipe. */
static void drop_lists(const situ_work *work) {
  for (int64_t i = 0; i < work->list_count; i++) {
    drop_recipe(work->list[i].param->storage);
    for (int k = 0; k < 3; k++)
      if (work->list[i].state[k]) drop_recipe(work->list[i].state[k]->storage);
  }
}

bool situ__recipe_add(const char *op, const situ_work *work) {
  part list[SLOTS_MAX];
  int count = parts_of(work, list), whole;
  drop_lists(work);
  step *s = NULL;
  bool of_lists = work->verb > SITU_VERB_ATTENTION;
  if (!of_lists && is_repeatable(list, count, &whole)) {
    s = step_new(work, list, count, whole);
    if (!s) return situ__no_memory(op, sizeof *s), false;
  }
  for (int i = 0; i < count; i++) {
    if (!list[i].written) continue;
    drop_recipe(list[i].storage);
    if (!s) continue;
    s->refs++;
    list[i].storage->recipe = &s->slot[i];
  }
  return true;
}

/* ---- replaying ---- */

/* The state of a replay: the steps in order, and the memory that they use. */
typedef struct replay {
  step *list[RECIPE_MAX];
  const situ_recipe *first[RECIPE_MAX]; /* first recipe of the chain that uses this memory */
  situ_storage *memory[RECIPE_MAX];
  int steps, memories;
} replay;

static void collect_steps(replay *k, step *s) {
  for (int i = 0; i < k->steps; i++)
    if (k->list[i] == s) return;
  k->list[k->steps++] = s;
  for (int i = 0; i < s->slots; i++)
    if (s->slot[i].before) collect_steps(k, s->slot[i].before->step);
}

static int by_number(const void *a, const void *b) {
  const step *x = *(step *const *)a, *y = *(step *const *)b;
  return x->number < y->number ? -1 : x->number > y->number;
}

static const situ_recipe *first_of(const situ_recipe *r) {
  while (r->before) r = r->before;
  return r;
}

/* Returns the memory of a slot, allocated on first use; NULL after recording an error. */
static situ_storage *memory_of(replay *k, const char *op, const situ_recipe *slot) {
  const situ_recipe *first = first_of(slot);
  for (int i = 0; i < k->memories; i++)
    if (k->first[i] == first) return k->memory[i];
  situ_storage *memory = situ__storage_new(op, k->memory[0]->device, slot->bytes);
  if (!memory) return NULL;
  k->first[k->memories] = first;
  return k->memory[k->memories++] = memory;
}

/* Runs one step with its recorded numbers and in the recorded order, so that the result has the bits that the device
   would have computed at once. */
static bool run_step(replay *k, const char *op, const step *s) {
  situ_work work = s->work;
  situ_view_desc view[SLOTS_MAX];
  int views = 0;
  for (int i = 0; i < SLOTS_MAX; i++) {
    bool in = i < SITU_WORK_MAX;
    int at = in ? i : i - SITU_WORK_MAX;
    const situ_view_desc **operand = in ? &work.in[at] : &work.out[at];
    if (at >= (in ? work.ins : work.outs) || !*operand) continue;
    situ_view_desc *v = &view[views++];
    *v = **operand;
    v->storage = memory_of(k, op, &s->slot[in ? s->in[at] : s->out[at]]);
    if (!v->storage) return false;
    *operand = v;
  }
  return situ__run(op, k->memory[0]->device, &work) == SITU_OK;
}

bool situ__recipe_replay(const char *op, const situ_storage *from, situ_storage *to) {
  replay *k = situ__alloc(sizeof *k);
  if (!k) return situ__no_memory(op, sizeof *k), false;
  k->steps = 0;
  k->memories = 1;
  k->first[0] = first_of(from->recipe);
  k->memory[0] = to;
  collect_steps(k, from->recipe->step);
  qsort(k->list, (size_t)k->steps, sizeof(step *), by_number);
  bool good = true;
  for (int i = 0; i < k->steps && good; i++) good = run_step(k, op, k->list[i]);
  for (int i = 1; i < k->memories; i++) situ__storage_release(k->memory[i]);
  situ__free(k);
  return good;
}
