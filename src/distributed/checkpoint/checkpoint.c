/* Sharded checkpoints: all ranks save a set of files, or none; all load it, or none.
   SPDX-License-Identifier: MIT */
#include "checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static const char save_op[] = "dist_checkpoint_save";
static const char load_op[] = "dist_checkpoint_load";

/* ---- agreement ---- */

enum { WHY = 256 };

/* What each rank tells all others. */
typedef struct verdict {
  int32_t status, replaced;
  situ__set_id id;
  uint64_t layout;
  char why[WHY];
} verdict;

typedef enum agreement { ALL_GOOD, REFUSED, LOST } agreement;

typedef struct meeting {
  const char *op;
  situ_comm *comm;
  verdict mine, *all; /* all: of each rank, after an exchange */
} meeting;

/* Exchanges whether each rank has come this far. REFUSED, which is the same on all ranks: one has not; LOST: this rank
   does not know. Both after recording an error. */
static agreement agree(meeting *m, const char *name, bool good) {
  m->mine.status = good ? SITU_OK : situ_error();
  (void)snprintf(m->mine.why, sizeof m->mine.why, "%s", good ? "" : situ_error_message());
  if (!situ__comm_gather(m->op, m->comm, name, 0, &m->mine, m->all, sizeof m->mine)) {
    situ_comm_abort(m->comm, situ_error_message());
    return LOST;
  }
  for (int r = 0; r < m->comm->size; r++) {
    if (m->all[r].status == SITU_OK) continue;
    if (good) situ__fail((situ_status)m->all[r].status, m->op, "rank %d: %.255s", r, m->all[r].why);
    else situ__error_add("  on rank %d of %d", m->comm->rank, m->comm->size);
    return REFUSED;
  }
  return ALL_GOOD;
}

static bool begin_meeting(meeting *m, const char *op, situ_comm *comm) {
  *m = (meeting){ .op = op, .comm = comm, .all = situ__calloc((size_t)comm->size, sizeof *m->all) };
  memset(&m->mine, 0, sizeof m->mine); /* padding is sent, too */
  if (m->all) return true;
  situ__no_memory(op, (size_t)comm->size * sizeof *m->all);
  situ_comm_abort(comm, situ_error_message());
  return false;
}

static bool good_parts(const char *op, const char *directory, const situ_dist_checkpoint *c) {
  if (!situ__given(op, "directory", directory) || !situ__given(op, "checkpoint", c) ||
      (c->model && !situ__valid(op, "model", c->model, SITU__A_MODULE)) ||
      (c->ddp && !situ__valid(op, "ddp", c->ddp, SITU__A_DDP)) ||
      (c->optimizer && !situ__valid(op, "optimizer", c->optimizer, SITU__AN_OPTIMISER)) ||
      (c->zero && !situ__valid(op, "zero", c->zero, SITU__A_ZERO)) ||
      (c->scheduler && !situ__valid(op, "scheduler", c->scheduler, SITU__A_SCHEDULER)))
    return false;
  if (c->optimizer && c->zero)
    return situ__fail(SITU_E_ARG, op, "an optimizer and a zero: a checkpoint has one of them"), false;
  if (!c->ddp || !c->ddp->position) return true;
  return situ__fail(SITU_E_STATE, op, "%lld of %lld micro-batches of a step have ended: end the step first",
                    (long long)c->ddp->position, (long long)c->ddp->count),
         false;
}

/* ---- saving ---- */

static bool good_options(const situ_save_options *o) {
  if (!o->max_shard_bytes) return true;
  return situ__fail(SITU_E_ARG, save_op, "max_shard_bytes is %lld, must be 0: each rank writes one file",
                    (long long)o->max_shard_bytes),
         false;
}

/* The names, dtypes and shapes of what all ranks have alike. */
static bool same_layout(const meeting *m) {
  for (int r = 1; r < m->comm->size; r++)
    if (m->all[r].layout != m->all[0].layout)
      return situ__fail(SITU_E_COMM, save_op,
                        "rank 0 and rank %d have other names, dtypes or shapes in model, optimizer or scheduler", r),
             false;
  return true;
}

static bool write_own(const meeting *m, const char *directory, const situ_tree *file,
                      const situ_save_options *options) {
  const situ_save_options own = { .no_sync = options->no_sync };
  char *path = situ__set_file(save_op, directory, m->mine.id, m->comm->rank);
  const bool good = path && situ_save(path, file, &own) == SITU_OK;
  situ__free(path);
  return good;
}

/* Writes the file of this rank, then the manifest by rank 0. Files that no manifest names are deleted if all ranks know
   that none will; otherwise a later save deletes them. */
static bool write_set(meeting *m, const char *directory, const situ_tree *file, const situ_save_options *options,
                      situ_replaced *replaced) {
  agreement a = agree(m, "files of a checkpoint", write_own(m, directory, file, options));
  if (a == ALL_GOOD) {
    situ_save_options own = *options;
    own.replaced = replaced;
    const bool good = m->comm->rank || situ__set_commit(save_op, directory, m->mine.id, &own) == SITU_OK;
    m->mine.replaced = *replaced;
    a = agree(m, "manifest of a checkpoint", good);
    if (a != LOST) *replaced = (situ_replaced)m->all[0].replaced;
  }
  if (a == REFUSED && *replaced == SITU_NOT_REPLACED) situ__set_remove(save_op, directory, m->mine.id, m->comm->rank);
  return a == ALL_GOOD;
}

/* No step comes between the counts of steps and the values, which are read later. */
static bool part_marks(const void *object, situ__mark_visitor *visit) {
  const situ_dist_checkpoint *c = object;
  const situ_optim *optim = c->zero ? c->zero->optim : c->optimizer;
  return (!c->model || situ__module_marks(c->model, visit)) && (!optim || situ__optim_marks(optim, visit));
}

static bool save_set(meeting *m, const char *directory, const situ_dist_checkpoint *c, const situ_save_options *options,
                     situ_replaced *replaced) {
  situ_tree *file = NULL;
  situ__use use;
  const bool used = good_parts(save_op, directory, c) && good_options(options) &&
                    (situ__use_begin(&use, part_marks, c) || situ__busy(save_op, "the model or its optimizer"));
  const bool begun = used && (m->comm->rank || situ__set_make_directory(save_op, directory, !options->no_sync)) &&
                     (file = situ__dist_own_pieces(save_op, m->comm, c, &m->mine.layout)) != NULL;
  m->mine.id = (situ__set_id){ situ__set_new_tag(), m->comm->size };
  bool good = agree(m, "start of a checkpoint", begun) == ALL_GOOD && same_layout(m);
  m->mine.id = m->all[0].id;
  good = good && write_set(m, directory, file, options, replaced);
  situ_tree_free(file);
  if (used) situ__use_end();
  return good;
}

situ_status situ_dist_checkpoint_save(const char *directory, situ_comm *comm, const situ_dist_checkpoint *checkpoint,
                                      const situ_save_options *options) {
  static const situ_save_options defaults;
  SITU__MADE_OF_OPS(save_op);
  meeting m;
  situ_replaced replaced = SITU_NOT_REPLACED;
  if (options && options->replaced) *options->replaced = replaced;
  if (!situ__comm_given(save_op, comm) || !situ__comm_replicates(save_op, comm)) return situ_error();
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  const bool good =
      begin_meeting(&m, save_op, comm) && save_set(&m, directory, checkpoint, options ? options : &defaults, &replaced);
  const situ_status ended = situ_scope_end(&scope);
  situ__free(m.all);
  if (options && options->replaced) *options->replaced = replaced;
  return good ? ended : situ_error();
}

/* ---- loading ---- */

static bool is_same_set(const meeting *m) {
  for (int r = 1; r < m->comm->size; r++)
    if (m->all[r].id.tag != m->all[0].id.tag || m->all[r].id.ranks != m->all[0].id.ranks) return false;
  return true;
}

/* All ranks open the same set, also beside a program that saves. */
static bool open_set(meeting *m, situ__set *set, const char *directory, const situ_dist_checkpoint *c,
                     const situ_load_options *options) {
  const bool given = good_parts(load_op, directory, c);
  for (int k = 0; k < SITU__SET_TRIES; k++) {
    const bool opened = given && situ__set_open(set, load_op, directory, options);
    m->mine.id = set->id;
    if (agree(m, "opening of a checkpoint", opened) != ALL_GOOD) return false;
    if (is_same_set(m)) return true;
    situ__set_close(set);
  }
  return situ__fail(SITU_E_COMM, load_op, "%s: is replaced faster than all ranks can open it", directory), false;
}

static const char loading_call[] = "loading of a checkpoint";

/* What a load asks the other ranks before its first change. */
typedef struct question {
  meeting *m;
  situ_nn_module *model; /* NULL: none */
  const situ__dist_loading *loading;
  bool asked, agreed;
} question;

static situ_status ask(void *payload) {
  question *q = payload;
  q->asked = true;
  q->agreed = agree(q->m, loading_call, true) == ALL_GOOD;
  return q->agreed ? SITU_OK : situ_error();
}

static bool load_model(void *payload) {
  question *q = payload;
  const situ_nn_load_options home = { .device = q->loading->home };
  return (q->model ? situ_nn_load_when(q->model, q->loading->model, &home, ask, q) : ask(q)) == SITU_OK;
}

static bool load_set(meeting *m, const char *directory, situ_dist_checkpoint *c, const situ_load_options *options) {
  situ__set set = { 0 };
  situ__dist_loading loading = { .home = options ? options->device : (situ_device){ 0 } };
  if (!loading.home.kind) loading.home = situ_get_default_device();
  question q = { .m = m, .model = c ? c->model : NULL, .loading = &loading };
  const bool opened = open_set(m, &set, directory, c, options);
  const bool loaded = opened && (!c->zero || !c->zero->shards || situ__zero_scatter(load_op, c->zero, true)) &&
                      situ__dist_load_prepare(&loading, &set, m->comm, c) &&
                      situ__dist_bring_wholes(&loading, c->zero, load_model, &q) &&
                      situ__dist_commit_shards(&loading, c->zero);
  if (opened && !q.asked) SITU_IGNORE((int)agree(m, loading_call, false));
  if (q.agreed && !loaded) situ_comm_abort(m->comm, situ_error_message()); /* a device has failed */
  situ__dist_load_end(&loading, c, loaded);
  situ__set_close(&set);
  return loaded;
}

situ_status situ_dist_checkpoint_load(const char *directory, situ_comm *comm, situ_dist_checkpoint *checkpoint,
                                      const situ_load_options *options) {
  SITU__MADE_OF_OPS(load_op);
  meeting m;
  if (!situ__comm_given(load_op, comm) || !situ__comm_replicates(load_op, comm)) return situ_error();
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  const bool good = begin_meeting(&m, load_op, comm) && load_set(&m, directory, checkpoint, options);
  const situ_status ended = situ_scope_end(&scope);
  situ__free(m.all);
  return good ? ended : situ_error();
}
