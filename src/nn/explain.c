/* What modules know of the operands of a refused call: their paths, which module runs, what else of it is elsewhere.
   Asked for when a call has been refused; until then a running module costs a few stores.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "nn/nn.h"
#include "situ/sys/op.h"

SITU__THREAD_LOCAL situ__nn_frame *situ__nn_running;

/* ---- paths: from a part up to the module that nobody holds ---- */

typedef bool matcher(const situ_nn_slot *slot, const void *part);

static bool is_it(const situ_nn_slot *slot, const void *part) { return slot->held == part; }

static bool on_its_storage(const situ_nn_slot *slot, const void *part) {
  return !situ__nn_is_child(slot) && situ_desc(slot->held)->storage == situ_desc(part)->storage;
}

static const situ_nn_slot *slot_in(const situ_nn_module *m, const void *part, matcher *matches) {
  for (int64_t i = 0; i < m->count; i++)
    if (matches(&m->slots[i], part)) return &m->slots[i];
  return NULL;
}

/* Those that run come first: a part of two models is named after the one in use. The list of modules is locked. */
static const situ_nn_module *holder(const void *part, matcher *matches, const situ_nn_slot **slot) {
  for (const situ__nn_frame *f = situ__nn_running; f; f = f->outer)
    if ((*slot = slot_in(f->module, part, matches))) return f->module;
  for (const situ_nn_module *m = situ__nn_newest(); m; m = m->older)
    if ((*slot = slot_in(m, part, matches))) return m;
  return NULL;
}

static const char *root_name(const situ_nn_module *m) { return m->name ? m->name : m->type->name; }

/* Writes a part's path; a module is a part of itself. NULL: no module holds it; else the root. */
static const situ_nn_module *path_of(const void *part, bool module, char path[SITU_PATH_TEXT]) {
  char text[SITU_PATH_TEXT], *at = text + sizeof text - 1;
  const situ_nn_module *root = module ? part : NULL, *above;
  const situ_nn_slot *slot;
  *at = 0;
  for (int depth = 0; depth <= SITU__NN_DEPTH && (above = holder(root ? root : part, is_it, &slot)); depth++) {
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

/* ---- the module that runs ---- */

const char *situ_nn_running(char *buffer, size_t size) {
  const situ_nn_module *m = situ__nn_running ? situ__nn_running->module : NULL;
  char path[SITU_PATH_TEXT] = "";
  size_t above = 0;
  if (!size) return buffer;
  situ__nn_lock();
  const situ_nn_module *root = m ? path_of(m, true, path) : NULL;
  if (root) above = strlen(root_name(root));
  situ__nn_unlock();
  (void)snprintf(buffer, size, "%s", path[above] == '.' ? path + above + 1 : "");
  return buffer;
}

static void module_line(const situ_nn_module *m, const char *path, char *text, size_t size) {
  char detail[120] = "";
  int (*say)(const situ_nn_module *, char *, size_t) = m->type->brief ? m->type->brief : m->type->extra_repr;
  if (say) (void)say(m, detail, sizeof detail);
  bool same = strcmp(path, m->type->name) == 0;  /* a root without a name goes by its type's */
  if (same) snprintf(text, size, "%s%s%s", path, *detail ? " " : "", detail);
  else snprintf(text, size, "%.120s (%s%s%s)", path, m->type->name, *detail ? " " : "", detail);
}

enum { DEVICES = 8, BUDGET = 1 << 16 };  /* slots looked at: modules shared again and again make a tree too large to walk */
typedef struct census {
  situ_device device[DEVICES];
  int64_t     count[DEVICES];
  int         devices, budget;
} census;

static void count_devices(census *c, const situ_nn_module *m, int depth) {
  for (int64_t i = 0; i < m->count && c->budget > 0; i++, c->budget--) {
    if (situ__nn_is_child(&m->slots[i])) {
      if (depth < SITU__NN_DEPTH) count_devices(c, m->slots[i].held, depth + 1);
      continue;
    }
    situ_device device = situ_device_of(m->slots[i].held);
    int k = 0;
    while (k < c->devices && !situ_device_equal(c->device[k], device)) k++;
    if (k == DEVICES) continue;
    if (k == c->devices) c->device[c->devices++] = device;
    c->count[k]++;
  }
}

/* Where most tensors of the innermost module that has any are. */
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

/* ---- its operands ---- */

static bool in_tree(const situ_tree *tree, const situ_tensor *t) {
  if (situ_tree_kind_of(tree) == SITU_TREE_TENSOR) return situ_tree_value(tree) == t;
  for (int64_t i = 0; i < situ_tree_count(tree); i++)
    if (in_tree(situ_tree_at(tree, i), t)) return true;
  return false;
}

static bool is_input(situ_explained *x) {
  bool found = false;
  for (const situ__nn_frame *f = situ__nn_running; f; f = f->outer) {
    if (f->input != x->tensor && !(f->inputs && in_tree(f->inputs, x->tensor))) continue;
    x->site = f->site;
    found = true;
  }
  return found;
}

/* The offset of the field of a running module's struct that shows the tensor. */
static size_t field_of(const situ_nn_module *m, const situ_tensor *t) {
  for (size_t at = sizeof *m; at + sizeof t <= m->type->size; at += sizeof t)
    if (memcmp((const char *)m + at, &t, sizeof t) == 0) return at;
  return 0;
}

/* A part that a field shows and nothing names. */
static void field_path(const situ_nn_module *m, const situ_tensor *t, size_t at, char path[SITU_PATH_TEXT]) {
  char module[SITU_PATH_TEXT];
  const char *name = situ_name(t);
  path_of(m, true, module);
  if (*name) snprintf(path, SITU_PATH_TEXT, "%.120s.%.70s", module, name);
  else snprintf(path, SITU_PATH_TEXT, "%.120s.(field at byte %zu)", module, at);
}

static bool unregistered(situ_explained *x) {
  for (const situ__nn_frame *f = situ__nn_running; f; f = f->outer) {
    size_t at = field_of(f->module, x->tensor);
    if (at) field_path(f->module, x->tensor, at, x->path);
    if (at) return true;
  }
  for (const situ_nn_module *m = situ__nn_newest(); m; m = m->older) {
    for (int64_t i = 0; !m->build && i < m->stray_count; i++) {
      if (m->strays[i].tensor != x->tensor || !m->strays[i].offset || m->strays[i].serial != situ_desc(x->tensor)->storage->serial) continue;
      field_path(m, x->tensor, m->strays[i].offset, x->path);
      return true;
    }
  }
  return false;
}

static void look_at(situ_explained *x) {
  const situ_nn_slot *slot;
  if (path_of(x->tensor, false, x->path)) x->held = SITU_HELD_REGISTERED;
  else if (is_input(x)) x->held = SITU_HELD_INPUT;
  else if (unregistered(x)) x->held = SITU_HELD_UNREGISTERED;
  else if (holder(x->tensor, on_its_storage, &slot)) {
    path_of(slot->held, false, x->path);
    x->held = SITU_HELD_REGISTERED;
    x->view = true;
  }
}

static void look(situ_explanation *e) {
  const situ_nn_module *m = situ__nn_running ? situ__nn_running->module : NULL, *root = NULL;
  char path[SITU_PATH_TEXT] = "";
  situ__nn_lock();
  if (m) root = path_of(m, true, path);
  for (int i = 0; i < e->count; i++) look_at(&e->operand[i]);
  e->home = home();
  situ__nn_unlock();
  snprintf(e->root, sizeof e->root, "%s", root && root->name ? root->name : "model");
  if (m) module_line(m, path, e->module, sizeof e->module);  /* asks the type, which may ask us */
}

/* ---- what would fail next ---- */

enum { NAMED = 3 };
typedef struct misplaced {
  const situ_tensor    *tensor;
  const situ_nn_module *module;
  size_t                field;  /* not registered, but shown there; 0: registered */
} misplaced;
typedef struct search {
  const situ_explanation *e;
  situ_device             device;
  misplaced               named[NAMED];
  int                     names, budget;
  int64_t                 count;
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
    if (!situ__nn_is_child(&m->slots[i])) note(s, (misplaced){ .tensor = m->slots[i].held });
    else if (depth < SITU__NN_DEPTH) find_misplaced(s, m->slots[i].held, depth + 1);
  }
}

/* The innermost module's come first; what is counted is all of the outermost, which is looked at last. */
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
                           x->field ? "not registered" : situ_role_of(x->tensor) == SITU_ROLE_PARAMETER ? "parameter" : "buffer",
                           situ_device_name(situ_device_of(x->tensor), name));
  }
  situ__nn_unlock();
  if (s.count > s.names && at < size) snprintf(buffer + at, size - at, " and %lld more", (long long)(s.count - s.names));
}

const situ_module_lore situ__nn_lore = { look, elsewhere };
