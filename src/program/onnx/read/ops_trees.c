/* Ensembles of decision trees of ai.onnx.ml: each row of the input goes down all trees at once, level by level.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "onnx.h"
#include "situ/sys/dry.h"

typedef struct forest {
  situ_tensor *feature, *split, *yes, *no; /* of each node; a leaf leads to itself */
  situ_tensor *track;                      /* whether NaN leads to yes; NULL: it does not */
  situ_tensor *root;                       /* of each tree */
  int64_t mode;                            /* of all nodes that compare */
  int64_t levels;                          /* known in a run without values: of the deepest tree; else -1 */
} forest;

/* The trees are constants, whose values a run without values has, too. Returns whether situ_dry_resume must follow. */
static bool pause_run(const situ__op_call *c, int k) { return situ__arg_has_values(c, k) && situ_dry_pause(); }
static void resume_run(bool paused) {
  if (paused) situ_dry_resume();
}

/* The longest way down; more than there are nodes, if one has no end; -1 after recording an error. */
static int64_t count_levels(const forest *f) {
  const int64_t nodes = situ_numel(f->yes);
  const size_t bytes = (size_t)nodes * sizeof(int64_t);
  int64_t *way = situ__calloc(3 * (size_t)nodes + 1, sizeof *way), *yes = way + nodes, *no = yes + nodes, levels = 0;
  if (!way) return situ__no_memory("TreeEnsemble", bytes), -1;
  if (situ_copy_to_host(f->yes, yes, bytes) != SITU_OK || situ_copy_to_host(f->no, no, bytes) != SITU_OK) levels = -1;
  for (bool changed = levels == 0; changed && levels <= nodes;) {
    changed = false;
    for (int64_t i = 0; i < nodes; i++) {
      const bool inside = yes[i] >= 0 && yes[i] < nodes && no[i] >= 0 && no[i] < nodes;
      const int64_t below = !inside || (yes[i] == i && no[i] == i) ? 0 : 1 + situ__max_i64(way[yes[i]], way[no[i]]);
      if (below <= way[i]) continue;
      way[i] = below;
      levels = situ__max_i64(levels, below);
      changed = true;
    }
  }
  situ__free(way);
  return levels;
}

static const char *const modes[] = { "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ" };
static situ_tensor *(*const compare[])(situ_tensor *, situ_tensor *) = { situ_le, situ_lt, situ_ge,
                                                                         situ_gt, situ_eq, situ_ne };
enum { MODES = sizeof modes / sizeof *modes };

/* Elements of a list by an index of any shape. */
static situ_tensor *take(situ_tensor *list, situ_tensor *index) {
  return situ_reshape(situ_index_select(list, 0, situ_flatten(index, 0, -1)), situ_shape_of(index));
}

/* The leaves [rows, trees] of x [rows, features]. Waits for the device at each level. */
static situ_tensor *find_leaves(situ__op_call *c, const forest *f, situ_tensor *x) {
  if (situ_dim(x) != 2 || f->mode < 0 || f->mode >= MODES)
    return situ__call_refuse(c, "needs rows of features, and a mode of comparison that situ knows");
  situ_tensor *at = situ_expand(f->root, SITU_SHAPE(situ_size(x, 0), situ_numel(f->root)));
  bool still = false;
  for (int64_t level = f->levels >= 0 ? f->levels : situ_numel(f->split); !still; level--) {
    situ_tensor *value = situ_gather(x, 1, take(f->feature, at));
    situ_tensor *go = compare[f->mode](value, take(f->split, at));
    if (f->track) go = situ_where(situ_isnan(value), situ_to_dtype(take(f->track, at), SITU_BOOL), go);
    situ_tensor *next = situ_where(go, take(f->yes, at), take(f->no, at));
    if (level < 0 || f->levels > situ_numel(f->split)) return situ__call_refuse(c, "has a tree without an end");
    if (f->levels >= 0) still = level <= 1;
    else if (situ_equal(next, at, &still) != SITU_OK) return NULL;
    at = next;
  }
  return at;
}

static situ_tensor *count_to(situ_tensor *x, int64_t n) {
  return situ_arange(0, (double)n, 1, &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(x) });
}
static situ_tensor *transform(situ_tensor *score, const char *name) {
  return strcmp(name, "SOFTMAX") == 0 ? situ_softmax(score, -1) : *name == 'L' ? situ_sigmoid(score) : score;
}

/* ---- nodes by numbers of their tree and in it: TreeEnsembleRegressor and TreeEnsembleClassifier ---- */

enum { X, TREES, NODES, FEATURES, VALUES, MODE, YES, NO, TRACK, HITRATES, AT_TREE, AT_NODE, AT_ID, WEIGHT, BASE, POST };

/* The mode of all nodes but leaves; -1: there are several. */
static int64_t find_mode(const situ__arg *list) {
  int64_t mode = 0;
  const char *first = NULL;
  for (int32_t i = 0; i < list->count; i++) {
    const char *text = list->list[i].text;
    if (strcmp(text, "LEAF") == 0) continue;
    if (first && strcmp(first, text) != 0) return -1;
    first = text;
  }
  while (first && mode < MODES && strcmp(modes[mode], first) != 0) mode++;
  return mode < MODES ? mode : -1;
}
static const char *trees_lack(const situ__op_call *c) {
  return find_mode(&c->arg[MODE]) < 0 ? "compares in more than one mode, or in one that situ lacks" : NULL;
}

/* Whether each node is a leaf. */
static situ_tensor *mark_leaves(const situ__arg *list, situ_tensor *x) {
  bool *leaf = situ__calloc((size_t)list->count + 1, sizeof *leaf);
  if (!leaf) return situ__no_memory("TreeEnsemble", (size_t)list->count), NULL;
  for (int32_t i = 0; i < list->count; i++) leaf[i] = strcmp(list->list[i].text, "LEAF") == 0;
  situ_tensor *mark = situ_from_host(leaf, (size_t)list->count, SITU_SHAPE(list->count),
                                     &(situ_options){ .dtype = SITU_BOOL, .device = situ_device_of(x) });
  situ__free(leaf);
  return mark;
}

/* The nodes, and the weight of each for each target; false after recording an error. */
static bool read_forest(situ__op_call *c, int64_t targets, forest *f, situ_tensor **weight) {
  situ_tensor *x = situ__arg_tensor(c, X), *tree = situ__arg_tensor(c, TREES), *node = situ__arg_tensor(c, NODES);
  situ_tensor *start = situ_reshape(situ_nonzero(situ_eq_scalar(node, 0)), SITU_SHAPE(-1));
  const int64_t nodes = situ_numel(node);
  int64_t weights;
  situ_tensor *first = take(start, tree), *own = count_to(x, nodes), *leaf = mark_leaves(&c->arg[MODE], x);
  bool ordered = false;
  if (situ_equal(situ_add(first, node), own, &ordered) != SITU_OK) return false;
  if (!ordered || situ_numel(leaf) != nodes || targets < 1 || !situ__mul_i64(nodes, targets, &weights))
    return situ__call_refuse(c, "has nodes that are not tree by tree, each from 0 on, or a bad number of targets"),
           false;
  *f = (forest){ .feature = situ__arg_tensor(c, FEATURES),
                 .split = situ__arg_tensor(c, VALUES),
                 .yes = situ_where(leaf, own, situ_add(first, situ__arg_tensor(c, YES))),
                 .no = situ_where(leaf, own, situ_add(first, situ__arg_tensor(c, NO))),
                 .track = situ__arg_tensor(c, TRACK),
                 .root = start,
                 .mode = find_mode(&c->arg[MODE]),
                 .levels = -1 };
  situ_tensor *place = situ_add(take(start, situ__arg_tensor(c, AT_TREE)), situ__arg_tensor(c, AT_NODE));
  place = situ_add(situ_mul_scalar(place, (double)targets), situ__arg_tensor(c, AT_ID));
  const situ_options real = { .dtype = SITU_F32, .device = situ_device_of(x) };
  *weight = situ_scatter_add(situ_zeros(SITU_SHAPE(weights), &real), 0, place, situ__arg_tensor(c, WEIGHT));
  *weight = situ_reshape(*weight, SITU_SHAPE(nodes, targets));
  return *weight && f->yes && f->no;
}

/* Scores [rows, targets]: for each target the sum of its weights at the leaves. */
static situ_tensor *score_trees(situ__op_call *c, int64_t targets) {
  forest f;
  situ_tensor *weight;
  const bool paused = pause_run(c, TREES);
  const bool read = read_forest(c, targets, &f, &weight) && (!paused || (f.levels = count_levels(&f)) >= 0);
  resume_run(paused);
  situ_tensor *at = read ? find_leaves(c, &f, situ__arg_tensor(c, X)) : NULL;
  if (!at) return NULL;
  weight = situ_index_select(weight, 0, situ_flatten(at, 0, -1));
  weight = situ_reshape(weight, SITU_SHAPE(situ_size(at, 0), situ_size(at, 1), targets));
  return situ_sum(weight, &(situ_reduce_options){ .dim = SITU_SHAPE(1) });
}

/* Also n_targets, aggregate_function. */
static situ_tensor *run_regressor(situ__op_call *c) {
  situ_tensor *score = score_trees(c, situ__arg_int(c, POST + 1)), *base = situ__arg_tensor(c, BASE);
  if (score && *situ__arg_text(c, POST + 2) == 'A') {
    double trees = 0;
    const bool paused = pause_run(c, NODES);
    const situ_status status = situ_item(situ_sum(situ_eq_scalar(situ__arg_tensor(c, NODES), 0), NULL), &trees);
    resume_run(paused);
    if (status != SITU_OK) return NULL;
    score = situ_div_scalar(score, trees);
  }
  return transform(base ? situ_add(score, base) : score, situ__arg_text(c, POST));
}

/* Of two classes by one score: the second one's, and the label. */
static situ_tensor *classify_two(situ__op_call *c, situ_tensor *score, situ_tensor *base, situ_tensor **scores) {
  double least = 0;
  if (base) score = situ_add(score, base);
  const bool paused = pause_run(c, WEIGHT);
  const situ_status status = situ_item(situ_amin(situ__arg_tensor(c, WEIGHT), NULL), &least);
  resume_run(paused);
  if (status != SITU_OK) return NULL;
  const bool logistic = *situ__arg_text(c, POST) == 'L';
  situ_tensor *other = least >= 0 ? situ_rsub_scalar(score, 1) : situ_neg(score);
  *scores = situ_cat((situ_tensor *[]){ other, score }, 2, 1);
  if (least < 0 && logistic) *scores = situ_sigmoid(*scores);
  return situ_squeeze(situ_to_dtype(situ_gt_scalar(score, least >= 0 ? 0.5 : 0), SITU_I64), SITU_SHAPE(1));
}
/* Also classlabels_int64s. Results: labels [rows], scores [rows, classes]. */
static situ_tensor *run_classifier(situ__op_call *c) {
  situ_tensor *label = situ__arg_tensor(c, POST + 1), *base = situ__arg_tensor(c, BASE),
              *id = situ__arg_tensor(c, AT_ID);
  const int64_t classes = situ_numel(label);
  int64_t low = 0, high = 0;
  const bool paused = pause_run(c, AT_ID);
  const bool known =
      situ_item_i64(situ_amin(id, NULL), &low) == SITU_OK && situ_item_i64(situ_amax(id, NULL), &high) == SITU_OK;
  resume_run(paused);
  if (!known) return NULL;
  if (classes == 2 && (low != high || (base && situ_numel(base) != 1)))
    return situ__call_refuse(c, "gives two scores of two classes");
  situ_tensor *score = score_trees(c, classes), *best;
  if (!score) return NULL;
  if (classes == 2) {
    best = classify_two(c, situ_narrow(score, 1, low, 1), base, &score);
  } else {
    if (base) score = situ_add(score, base);
    best = situ_argmax(score, &(situ_reduce_options){ .dim = SITU_SHAPE(1) });
    score = transform(score, situ__arg_text(c, POST));
  }
  if (c->node->outs > 1) c->result[1] = score;
  return best ? take(label, best) : NULL;
}

/* ---- TreeEnsemble, whose leaves have numbers of their own ---- */

enum { LEAVES_YES = 6, LEAVES_NO, TRACKS, ROOTS, LEAF_TARGET, LEAF_WEIGHT, TARGETS, AGGREGATE };

/* Nodes and then leaves in one list. */
static situ_tensor *join(situ_tensor *of_nodes, situ_tensor *of_leaves) {
  return situ_cat((situ_tensor *[]){ of_nodes, situ_to_dtype(of_leaves, situ_dtype_of(of_nodes)) }, 2, 0);
}
static bool read_trees(situ__op_call *c, forest *f) {
  situ_tensor *x = situ__arg_tensor(c, 0), *split = situ__arg_tensor(c, 2), *mode = situ__arg_tensor(c, 3), *child[2];
  const int64_t nodes = situ_numel(split), leaves = situ_numel(situ__arg_tensor(c, LEAF_WEIGHT));
  situ_tensor *none = situ_mul_scalar(count_to(x, leaves), 0),
              *own = situ_add_scalar(count_to(x, leaves), (double)nodes);
  int64_t low = 0, high = 0;
  if (situ_item_i64(situ_amin(mode, NULL), &low) != SITU_OK || situ_item_i64(situ_amax(mode, NULL), &high) != SITU_OK)
    return false;
  for (int k = 0; k < 2; k++) {
    situ_tensor *to = situ__arg_tensor(c, 4 + k),
                *is_leaf = situ_to_dtype(situ__arg_tensor(c, LEAVES_YES + k), SITU_BOOL);
    child[k] = join(situ_where(is_leaf, situ_add_scalar(to, (double)nodes), to), own);
  }
  situ_tensor *track = situ__arg_tensor(c, TRACKS);
  *f = (forest){ .feature = join(situ__arg_tensor(c, 1), none),
                 .split = join(split, none),
                 .yes = child[0],
                 .no = child[1],
                 .track = track ? join(track, none) : NULL,
                 .root = situ__arg_tensor(c, ROOTS),
                 .mode = low == high ? low : -1,
                 .levels = -1 };
  return f->feature && f->split && f->yes && f->no;
}
static situ_tensor *run_trees(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, LEAF_WEIGHT);
  const int64_t nodes = situ_numel(situ__arg_tensor(c, 2)), targets = situ__arg_int(c, TARGETS);
  const int64_t aggregate = situ__arg_int(c, AGGREGATE);
  forest f;
  const bool paused = pause_run(c, 3);
  const bool read = read_trees(c, &f) && (!paused || (f.levels = count_levels(&f)) >= 0);
  resume_run(paused);
  if (!read) return NULL;
  situ_tensor *at = find_leaves(c, &f, x);
  if (!at || targets < 1 || aggregate > 1)
    return at ? situ__call_refuse(c, "has an aggregate_function other than SUM and AVERAGE, or no target") : NULL;
  at = situ_sub_scalar(at, (double)nodes);
  const situ_options real = { .dtype = situ_dtype_of(weight), .device = situ_device_of(x) };
  situ_tensor *score = situ_scatter_add(situ_zeros(SITU_SHAPE(situ_size(x, 0), targets), &real), 1,
                                        take(situ__arg_tensor(c, LEAF_TARGET), at), take(weight, at));
  return aggregate == 1 ? score : situ_div_scalar(score, (double)situ_numel(f.root));
}
static const char *tree_lacks(const situ__op_call *c) {
  return situ__arg_int(c, AGGREGATE + 1) != 0 ? "transforms its scores" : NULL;
}

#define TREES_OF(at)                                                                                       \
  "t X, t nodes_treeids, t nodes_nodeids, t nodes_featureids, t nodes_values, S nodes_modes, "             \
  "t nodes_truenodeids, t nodes_falsenodeids, t? nodes_missing_value_tracks_true, _ nodes_hitrates, t " at \
  "_treeids, t " at "_nodeids, t " at "_ids, t " at "_weights, t? base_values, "                           \
  "s? post_transform(NONE|SOFTMAX|LOGISTIC)"

static const situ__op_row rows[] = {
  { "ai.onnx.ml.TreeEnsembleRegressor", TREES_OF("target") ", i n_targets=1, s? aggregate_function(SUM|AVERAGE)",
    .inputs = 1, .lacks = trees_lack, .run = run_regressor },
  { "ai.onnx.ml.TreeEnsembleClassifier", TREES_OF("class") ", t classlabels_int64s", .inputs = 1, .results = 2,
    .lacks = trees_lack, .run = run_classifier },
  { "ai.onnx.ml.TreeEnsemble",
    "t X, t nodes_featureids, t nodes_splits, t nodes_modes, t nodes_truenodeids, t nodes_falsenodeids, "
    "t nodes_trueleafs, t nodes_falseleafs, t? nodes_missing_value_tracks_true, t tree_roots, t leaf_targetids, "
    "t leaf_weights, i n_targets=1, i aggregate_function=1, i post_transform=0, _ nodes_hitrates",
    .inputs = 1, .lacks = tree_lacks, .run = run_trees },
};
const situ__op_family situ__onnx_trees_family = { rows, sizeof rows / sizeof *rows };
