/* Describes the operands of a refused call for its error: their paths, the running module, which of its tensors are on
   other devices. Computed only after a call was refused; until then a running module costs a few stores.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/peek.h"
#include "nn/nn.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

SITU__THREAD_LOCAL situ__nn_frame *situ__nn_running;

/* ---- paths: from a part up to the outermost module ---- */

typedef bool matcher(const situ_nn_slot *slot, const void *part);

static bool is_it(const situ_nn_slot *slot, const void *part) { return slot->held == part; }

static bool on_its_storage(const situ_nn_slot *slot, const void *part) {
  return !situ__nn_is_child(slot) && situ_desc(slot->held)->storage == situ_desc(part)->storage;
}

static bool has_gradient(const situ_nn_slot *slot, const void *part) {
  return !situ__nn_is_child(slot) && situ_grad(slot->held) == part;
}

static const situ_nn_slot *slot_in(const situ_nn_module *m, const void *part, matcher *matches) {
  for (int64_t i = 0; i < m->count; i++)
    if (matches(&m->slots[i], part)) return &m->slots[i];
  return NULL;
}

/* Finds a module that holds the part. Running modules first: a part of two models is named after the one in use. The
   list of modules is locked. */
static const situ_nn_module *holder(const void *part, matcher *matches, const situ_nn_slot **slot) {
  for (const situ__nn_frame *f = situ__nn_running; f; f = f->outer)
    if ((*slot = slot_in(f->module, part, matches))) return f->module;
  for (const situ_nn_module *m = situ__nn_newest(); m; m = m->older)
    if ((*slot = slot_in(m, part, matches))) return m;
  return NULL;
}

/* The same for a tensor: none holds an activation, and no module is looked at for one. */
static const situ_nn_module *holder_of_tensor(const situ_tensor *t, matcher *matches, const situ_nn_slot **slot) {
  return situ_is_registered(t) ? holder(t, matches, slot) : NULL;
}

/* The same for a module. The one that holds it is known if there is only one. */
static const situ_nn_module *holder_of(const situ_nn_module *m, const situ_nn_slot **slot) {
  const int32_t parents = __atomic_load_n(&m->parents, __ATOMIC_RELAXED);
  if (!parents) return NULL;
  const situ_nn_module *by = parents == 1 ? m->holder : NULL;
  const bool there = by && m->place < by->count && by->slots[m->place].held == m;
  *slot = there ? &by->slots[m->place] : by ? slot_in(by, m, is_it) : NULL;
  return *slot ? by : holder(m, is_it, slot);
}

static const char *root_name(const situ_nn_module *m) { return m->name ? m->name : m->type->name; }

/* Writes a part's path. Returns its outermost module, which for a module may be itself; NULL if no module holds the
   part. */
static const situ_nn_module *path_of(const void *part, bool module, char path[SITU_PATH_TEXT]) {
  char text[SITU_PATH_TEXT], *at = text + sizeof text - 1;
  const situ_nn_module *root = module ? part : NULL, *above;
  const situ_nn_slot *slot;
  *at = 0;
  for (int depth = 0;
       depth <= SITU__NN_DEPTH && (above = root ? holder_of(root, &slot) : holder_of_tensor(part, is_it, &slot));
       depth++) {
    size_t length = strlen(slot->name) + 1;
    if ((size_t)(at - text) < length) break;
    at -= length;
    *at = '.';
    memcpy(at + 1, slot->name, length - 1);
    root = above;
  }
  snprintf(path, SITU_PATH_TEXT, "%s%s", root ? root_name(root) : "", at);
  return root;
}

/* ---- the running module ---- */

void situ_nn_running_part(const char *path) {
  if (situ__nn_running) situ__nn_running->part = path;
}

static SITU__THREAD_LOCAL struct {
  situ_status (*watch)(situ_tensor *result, void *payload);
  void *payload;
} watcher;

void situ_nn_watch_parts(situ_status (*watch)(situ_tensor *result, void *payload), void *payload) {
  watcher.watch = watch;
  watcher.payload = payload;
}

situ_status situ_nn_part_result(situ_tensor *result) {
  if (!situ__valid("nn_part_result", "result", result, SITU__A_TENSOR)) return situ_error();
  return watcher.watch ? watcher.watch(result, watcher.payload) : SITU_OK;
}

static const char *running_part(void) {
  return situ__nn_running && situ__nn_running->part ? situ__nn_running->part : "";
}

void situ__nn_running_path(char *buffer, size_t size) {
  char path[SITU_PATH_TEXT] = "";
  situ__nn_lock();
  if (situ__nn_running) (void)path_of(situ__nn_running->module, true, path);
  situ__nn_unlock();
  const char *part = running_part();
  (void)snprintf(buffer, size, "%s%s%s", path, *part ? "." : "", part);
}

const char *situ_nn_running(char *buffer, size_t size) {
  const situ_nn_module *m = situ__nn_running ? situ__nn_running->module : NULL;
  char path[SITU_PATH_TEXT] = "";
  size_t above = 0;
  if (!situ__given("nn_running", "buffer", buffer)) return "";
  if (!size) return buffer;
  situ__nn_lock();
  const situ_nn_module *root = m ? path_of(m, true, path) : NULL;
  if (root) above = strlen(root_name(root));
  situ__nn_unlock();
  const char *below = path[above] == '.' ? path + above + 1 : "", *part = running_part();
  (void)snprintf(buffer, size, "%s%s%s", below, *below && *part ? "." : "", part);
  return buffer;
}

static void module_line(const situ_nn_module *m, const char *path, char *text, size_t size) {
  char detail[120] = "";
  int (*say)(const situ_nn_module *, char *, size_t) = m->type->brief ? m->type->brief : m->type->extra_repr;
  if (say) (void)say(m, detail, sizeof detail);
  bool same = strcmp(path, m->type->name) == 0; /* a root without a name is named after its type */
  if (same) snprintf(text, size, "%s%s%s", path, *detail ? " " : "", detail);
  else snprintf(text, size, "%.120s (%s%s%s)", path, m->type->name, *detail ? " " : "", detail);
}

enum {
  DEVICES = SITU_EXPLAINED_DEVICES,
  DTYPES = 32,
  BUDGET = 1 << 16
}; /* maximum number of slots visited, as repeated sharing can make the tree exponentially large */
typedef struct census {
  const situ_explanation *apart; /* its operands are not counted; may be NULL */
  situ_device device[DEVICES];
  int64_t count[DEVICES], of_dtype[DTYPES];
  int devices, budget;
} census;

static bool is_operand(const situ_explanation *e, const situ_tensor *t) {
  for (int i = 0; e && i < e->count; i++)
    if (e->operand[i].tensor == t) return true;
  return false;
}

static void count_tensor(census *c, const situ_tensor *t) {
  situ_device device = situ_device_of(t);
  situ_dtype dtype = situ_dtype_of(t);
  int k = 0;
  if (situ_dtype_is_floating(dtype) && (unsigned)dtype < DTYPES) c->of_dtype[dtype]++;
  while (k < c->devices && !situ_device_equal(c->device[k], device)) k++;
  if (k == DEVICES) return;
  if (k == c->devices) c->device[c->devices++] = device;
  c->count[k]++;
}

static void count_devices(census *c, const situ_nn_module *m, int depth) {
  for (int64_t i = 0; i < m->count && c->budget > 0; i++, c->budget--) {
    if (!situ__nn_is_child(&m->slots[i])) {
      if (!is_operand(c->apart, m->slots[i].held)) count_tensor(c, m->slots[i].held);
    } else if (depth < SITU__NN_DEPTH) {
      count_devices(c, m->slots[i].held, depth + 1);
    }
  }
}

/* The device of most tensors of the innermost module that has any. */
static situ_device home(void) {
  for (const situ__nn_frame *f = situ__nn_running; f; f = f->outer) {
    census c = { .budget = BUDGET };
    int best = 0;
    bool tie = false;
    count_devices(&c, f->module, 0);
    for (int k = 1; k < c.devices; k++) {
      tie = c.count[k] == c.count[best] || (tie && c.count[k] < c.count[best]);
      if (c.count[k] > c.count[best]) best = k;
    }
    if (c.devices && !tie) return c.device[best];
  }
  return (situ_device){ 0 };
}

/* Finds the device and dtype of the rest of the outermost module, to compare the operands of a refused call with. */
static void look_at_rest(situ_explanation *e, const situ_nn_module *root) {
  census c = { .budget = BUDGET, .apart = e };
  count_devices(&c, root, 0);
  for (e->devices = 0; e->devices < c.devices; e->devices++) {
    int best = 0;
    for (int k = 1; k < c.devices; k++)
      if (c.count[k] > c.count[best]) best = k;
    e->device[e->devices] = c.device[best];
    c.count[best] = -1;
  }
  int kinds = 0;
  for (int d = 0; d < DTYPES; d++) {
    kinds += c.of_dtype[d] > 0;
    if (c.of_dtype[d] > (e->dtype ? c.of_dtype[e->dtype] : 0)) e->dtype = (situ_dtype)d;
  }
  e->dtypes = kinds > 1;
}

/* ---- its operands ---- */

/* Called with each input of a running module and the program's name for it; true: it is enough. */
typedef bool input_visitor(const situ_tensor *t, const char *name, void *payload);

static bool each_leaf(const situ_tree *tree, const char *name, input_visitor *visit, void *payload) {
  if (situ_tree_kind_of(tree) == SITU_TREE_TENSOR) return visit(situ_tree_value(tree), name, payload);
  const bool dict = situ_tree_kind_of(tree) == SITU_TREE_DICT, packed = situ_tree_find(tree, "batch_sizes") != NULL;
  for (int64_t i = 0; i < situ_tree_count(tree); i++) {
    char own[64] = "";
    if (dict) (void)snprintf(own, sizeof own, "%s%.40s", packed ? "packed." : "", situ_tree_key(tree, i));
    if (each_leaf(situ_tree_at(tree, i), own, visit, payload)) return true;
  }
  return false;
}

static bool each_input(const situ__nn_frame *f, input_visitor *visit, void *payload) {
  return f->inputs ? each_leaf(f->inputs, "", visit, payload) : f->input && visit(f->input, "", payload);
}

static bool is_on(const situ_tensor *t, const situ_tensor *other) {
  return situ_desc(t)->storage == situ_desc(other)->storage;
}

typedef struct sought {
  situ_explained *x;
  bool views; /* of an input count as it */
} sought;

static bool is_sought(const situ_tensor *t, const char *name, void *payload) {
  const sought *s = payload;
  if (t != s->x->tensor && !(s->views && is_on(t, s->x->tensor))) return false;
  (void)snprintf(s->x->name, sizeof s->x->name, "%s", *situ_name(t) ? situ_name(t) : name);
  return true;
}

static bool is_input_or_view(situ_explained *x, bool views) {
  sought s = { x, views };
  bool found = false;
  for (const situ__nn_frame *f = situ__nn_running; f; f = f->outer) {
    if (!each_input(f, is_sought, &s)) continue;
    x->site = f->site;
    x->given = !f->outer;
    found = true;
  }
  return found;
}

static bool runs_own_code(const situ__nn_frame *f) {
  return f && situ__base_up.own_code(situ__nn_code(situ__nn_type(f->module)));
}

/* What the library's modules make of an input without a copy has no variable but the input's. */
static bool is_input(situ_explained *x) {
  return is_input_or_view(x, false) || (runs_own_code(situ__nn_running) && is_input_or_view(x, true));
}

/* The sizes of a packed sequence stay on the host. */
static bool keep_input(const situ_tensor *t, const char *name, void *payload) {
  situ_explanation *e = payload;
  bool known = strcmp(name, "packed.batch_sizes") == 0;
  for (int i = 0; i < e->count; i++) known = known || is_on(t, e->operand[i].tensor);
  for (int i = 0; i < e->inputs; i++) known = known || e->input[i].tensor == t;
  if (known || e->inputs == SITU_EXPLAINED_INPUTS) return false;
  situ_explained_input *in = &e->input[e->inputs++];
  in->tensor = t;
  (void)snprintf(in->name, sizeof in->name, "%s", *situ_name(t) ? situ_name(t) : name);
  return false;
}

static void look_at_inputs(situ_explanation *e) {
  const situ__nn_frame *called = NULL;
  for (const situ__nn_frame *f = situ__nn_running; runs_own_code(f); f = f->outer) called = f;
  e->inputs = 0;
  if (!called) return;
  (void)each_input(called, keep_input, e);
  e->inputs_at = called->site;
}

/* Offset of the field in a running module's struct that points to the tensor. */
static size_t field_of(const situ_nn_module *m, const situ_tensor *t) {
  for (size_t at = sizeof *m; at + sizeof t <= m->type->size; at += sizeof t)
    if (memcmp((const char *)m + at, &t, sizeof t) == 0) return at;
  return 0;
}

static const char *name_at(const situ_nn_module *m, size_t at) {
  for (int64_t i = 0; at && i < m->count; i++)
    if (m->slots[i].offset == at) return m->slots[i].name;
  return "";
}

/* Path of a part that is in a field but not registered: with the name under which the field was registered, else the
   tensor's own. */
static void field_path(const situ_nn_module *m, const situ_tensor *t, size_t at, char path[SITU_PATH_TEXT]) {
  char module[SITU_PATH_TEXT];
  const char *name = *name_at(m, at) ? name_at(m, at) : situ_name(t);
  path_of(m, true, module);
  if (*name) snprintf(path, SITU_PATH_TEXT, "%.120s.%.70s", module, name);
  else snprintf(path, SITU_PATH_TEXT, "%.120s.(field at byte %zu)", module, at);
}

static bool show_field(situ_explained *x, const situ_nn_module *m, size_t at) {
  x->held = SITU_HELD_UNREGISTERED;
  x->field = at;
  x->goes_to = m->home;
  snprintf(x->name, sizeof x->name, "%s", *name_at(m, at) ? name_at(m, at) : situ_name(x->tensor));
  path_of(m, true, x->owner);
  field_path(m, x->tensor, at, x->path);
  return true;
}

static bool unregistered(situ_explained *x) {
  for (const situ__nn_frame *f = situ__nn_running; f; f = f->outer) {
    size_t at = field_of(f->module, x->tensor);
    if (at) return show_field(x, f->module, at);
  }
  for (const situ_nn_module *m = situ__nn_newest(); m; m = m->older)
    for (int64_t i = 0; !m->build && i < m->stray_count; i++)
      if (m->strays[i].tensor == x->tensor && m->strays[i].offset &&
          m->strays[i].serial == situ_desc(x->tensor)->storage->serial)
        return show_field(x, m, m->strays[i].offset);
  return false;
}

static bool holds_part(const situ_nn_module *m, const void *part) { return slot_in(m, part, is_it) != NULL; }

/* True if an array on the heap contains it; the array may have a few empty entries. */
static bool in_array(void *const *list, const void *part) {
  enum { LONGEST = 256, GAP = 8 };
  for (int i = 0, empty = 0; i < LONGEST && empty <= GAP; i++) {
    void *word;
    if ((uintptr_t)(list + i) % _Alignof(void *) || !situ__peek(list + i, &word, sizeof word)) return false;
    if (word == part) return true;
    empty = word ? 0 : empty + 1;
  }
  return false;
}

/* True if a field of m's struct points to a module, or to an array that contains it. *at: the field's offset; 0 for an
   array. */
static bool shows_module(const situ_nn_module *m, const void *part, size_t *at) {
  for (*at = sizeof *m; *at + sizeof part <= m->type->size; *at += sizeof part) {
    void *word;
    memcpy(&word, (const char *)m + *at, sizeof word);
    if (word == part) return true;
  }
  *at = 0;
  for (size_t k = sizeof *m; k + sizeof part <= m->type->size; k += sizeof part) {
    void *word;
    memcpy(&word, (const char *)m + k, sizeof word);
    if ((uintptr_t)word >= 4096 && !holds_part(m, word) && in_array(word, part)) return true;
  }
  return false;
}

/* Handles a tensor whose outermost module is not registered in the running module, which has it in its struct
   nevertheless. */
static void find_owner(situ_explained *x, const situ_nn_module *own, const situ_nn_module *root) {
  for (const situ__nn_frame *f = situ__nn_running; own != root && f && !x->loose; f = f->outer) {
    if (f->module == own || !shows_module(f->module, own, &x->field)) continue;
    x->loose = true;
    x->goes_to = f->module->home;
    snprintf(x->name, sizeof x->name, "%s", name_at(f->module, x->field));
    path_of(f->module, true, x->owner);
  }
}

static void look_at(situ_explained *x, const situ_nn_module *root) {
  const situ_nn_slot *slot;
  if (x->of_gradient) {
    if (!holder(x->tensor, has_gradient, &slot)) return;
    x->goes_to = situ_device_of(slot->held);
    (void)path_of(slot->held, false, x->path);
    return;
  }
  const situ_nn_module *own = path_of(x->tensor, false, x->path);
  if (!own && is_input(x)) {
    x->held = SITU_HELD_INPUT;
  } else if (!own && !unregistered(x) && holder_of_tensor(x->tensor, on_its_storage, &slot)) {
    own = path_of(slot->held, false, x->path);
    x->view = true;
  }
  if (!own) return;
  if (situ__nn_is_lent(x->tensor)) {
    x->given = true;
    return;
  }
  x->held = SITU_HELD_REGISTERED;
  x->root = own;
  x->root_length = (int)strlen(root_name(own));
  if (root) find_owner(x, own, root);
}

static void look(situ_explanation *e) {
  const situ_nn_module *m = situ__nn_running ? situ__nn_running->module : NULL, *outer = NULL, *root = NULL;
  char path[SITU_PATH_TEXT] = "";
  for (const situ__nn_frame *f = situ__nn_running; f; f = f->outer) outer = f->module, e->site = f->site;
  situ__nn_lock();
  if (m) root = path_of(outer, true, path), path_of(m, true, path);
  for (int i = 0; i < e->count; i++) look_at(&e->operand[i], root);
  look_at_inputs(e);
  e->home = home();
  if (root) look_at_rest(e, root);
  situ__nn_unlock();
  e->root_module = root;
  if (m) e->code = situ__nn_code(m->type);
  snprintf(e->root, sizeof e->root, "%s", root && root->name ? root->name : "model");
  if (m) module_line(m, path, e->module, sizeof e->module); /* calls the type's function, which may call back */
}

/* ---- its tensors ---- */

static void list_parts(const situ_nn_module *m, situ_tensor **list, int64_t capacity, int64_t *count, int *budget,
                       int depth) {
  for (int64_t i = 0; i<m->count && * budget> 0; i++, --*budget) {
    if (situ__nn_is_child(&m->slots[i])) {
      if (depth < SITU__NN_DEPTH) list_parts(m->slots[i].held, list, capacity, count, budget, depth + 1);
      continue;
    }
    if (*count < capacity) list[*count] = m->slots[i].held;
    ++*count;
  }
}

static const situ_nn_module *below_it(const situ_nn_module *m, const char *path) {
  while (m && *path) {
    size_t length = strcspn(path, ".");
    const situ_nn_slot *slot = situ__nn_find_part(m, path, length);
    m = slot && situ__nn_is_child(slot) ? slot->held : NULL;
    path += length + (path[length] != 0);
  }
  return m;
}

static int64_t parts(const void *root, const char *below, situ_tensor **list, int64_t capacity) {
  int64_t count = 0;
  int budget = BUDGET;
  situ__nn_lock();
  const situ_nn_module *m = situ__nn_newest();
  while (m && m != root) m = m->older;
  m = below_it(m, below);
  if (m) list_parts(m, list, capacity, &count, &budget, 0);
  situ__nn_unlock();
  return count;
}

/* ---- further parts on other devices ---- */

enum { NAMED = 3 };
typedef struct misplaced {
  const situ_tensor *tensor;
  const situ_nn_module *module;
  size_t field; /* offset of the field that points to it, if it is not registered; 0: registered */
} misplaced;
typedef struct search {
  const situ_explanation *e;
  situ_device device;
  misplaced named[NAMED];
  int names, budget;
  int64_t count;
} search;

static void note(search *s, misplaced found) {
  if (situ_device_equal(situ_device_of(found.tensor), s->device)) return;
  for (int i = 0; i < s->e->count; i++)
    if (s->e->operand[i].tensor == found.tensor) return;
  s->count++;
  for (int i = 0; i < s->names; i++)
    if (s->named[i].tensor == found.tensor) return;
  if (s->names < NAMED) s->named[s->names++] = found;
}

static void find_misplaced(search *s, const situ_nn_module *m, int depth) {
  for (int64_t i = 0; i < m->stray_count; i++) {
    const situ_nn_stray *stray = &m->strays[i];
    if (stray->offset && situ_is_tensor(stray->tensor) && situ_desc(stray->tensor)->storage->serial == stray->serial)
      note(s, (misplaced){ stray->tensor, m, stray->offset });
  }
  for (int64_t i = 0; i < m->count && s->budget > 0; i++, s->budget--) {
    const bool child = situ__nn_is_child(&m->slots[i]);
    if (child && depth < SITU__NN_DEPTH) find_misplaced(s, m->slots[i].held, depth + 1);
    if (!child && !situ_device_equal(m->computes_on, s->device)) note(s, (misplaced){ .tensor = m->slots[i].held });
  }
}

/* Lists the innermost module's tensors first; the count is that of the outermost module, which is searched last. */
static void elsewhere(const situ_explanation *e, situ_device device, char *buffer, size_t size) {
  search s = { .e = e, .device = device, .budget = BUDGET };
  size_t at = 0;
  *buffer = 0;
  situ__nn_lock();
  for (const situ__nn_frame *f = situ__nn_running; f; f = f->outer) {
    s.count = 0;
    find_misplaced(&s, f->module, 0);
  }
  for (int i = 0; i < s.names && at < size; i++) {
    const misplaced *x = &s.named[i];
    char path[SITU_PATH_TEXT], name[SITU_DEVICE_NAME_MAX];
    if (x->field) field_path(x->module, x->tensor, x->field, path);
    else path_of(x->tensor, false, path);
    at += (size_t)snprintf(buffer + at, size - at, "%s%s (%s, on %s)", i ? ", " : "", path,
                           x->field                                         ? "not registered"
                           : situ_role_of(x->tensor) == SITU_ROLE_PARAMETER ? "parameter"
                                                                            : "buffer",
                           situ_device_name(situ_device_of(x->tensor), name));
  }
  situ__nn_unlock();
  if (s.count > s.names && at < size)
    snprintf(buffer + at, size - at, " and %lld more", (long long)(s.count - s.names));
}

const situ_module_lore situ__nn_lore = { look, elsewhere, parts };
