/* Loads of a sharded checkpoint into parts, broken on purpose: files that are gone, cut short or changed, also while they
   are read, sets that are whole but fit no model, memory that ends. All ranks refuse it, nothing has
   changed, and the same objects load the set when it is mended. */
/* test-devices: cpu sim:0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "situ/situ.h"
#include "base/alloc.h"
#include "base/file.h"
#include "distributed/checkpoint/set.h"
#include "distributed/checkpoint/sets.h"
#include "distributed/must.h"
#include "situ/sys/alloc.h"
#include "situ/sys/shape.h"
#include "situ/sys/sim.h"
#include "situ/sys/tensor.h"

#define DIRECTORY "broken"
enum { RANKS = 2, INPUTS = 5 };

/* ---- ranks ---- */

typedef enum home { WHOLE, HALF, META, HOMES } home; /* of the model on meta, before the load */

typedef struct trainer {
  set_rank r; /* model and zero */
  situ_dist_ddp *ddp;
  situ_generator generator;
} trainer;

static situ_nn_module *make(home at) {
  const situ_nn_linear_options here = { .device = test_device() }, none = { .device = situ_dev("meta") };
  situ_nn_batch_norm_options norm = situ_nn_batch_norm_defaults();
  norm.device = at == META ? none.device : here.device;
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(INPUTS, INPUTS, at == META ? &none : &here),
                                         situ_nn_batch_norm1d(INPUTS, &norm),
                                         situ_nn_linear(INPUTS, INPUTS, at == META ? &none : &here),
                                         situ_nn_linear(INPUTS, 3, at == WHOLE ? &here : &none));
  situ_nn_add_tensor(situ_nn_get_submodule(m, "2"), "weight", NULL, situ_nn_get_tensor(m, "0.weight"),
                     SITU_NN_PARAMETER);
  return m;
}

static bool begin(trainer *t, situ_comm *comm, home at, int seed) {
  situ_manual_seed((uint64_t)seed);
  *t = (trainer){ .generator = situ_generator_seeded((uint64_t)seed) };
  t->r.model = make(at);
  t->ddp = situ_dist_ddp_new(t->r.model, comm, &(situ_dist_ddp_options){ .micro_batches = 4 });
  if (t->ddp)
    t->r.zero = situ_dist_zero3_new(situ_nn_parameters(t->r.model), t->ddp, NULL, situ_optim_adamw, 0.1, NULL);
  t->r.state = (situ_dist_checkpoint){
    .model = t->r.model, .zero = t->r.zero, .ddp = t->ddp, .generator = &t->generator, .step = seed
  };
  return t->r.zero != NULL;
}

static bool train(trainer *t, int seed) {
  for (int64_t k = 0; k < situ_dist_ddp_micro_batches(t->ddp); k++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *x = situ_arange(0, 4 * INPUTS, 1, &(situ_options){ .device = test_device() });
    x = situ_sin(
        situ_reshape(situ_mul_scalar(x, seed + (double)situ_dist_ddp_micro_batch(t->ddp)), SITU_SHAPE(4, INPUTS)));
    const situ_status status = situ_backward(situ_sum(situ_nn_forward(t->r.model, x), NULL), NULL);
    if (situ_scope_end(&s) != SITU_OK || status != SITU_OK) return false;
  }
  return situ_dist_zero_step(t->r.zero) == SITU_OK && situ_dist_zero_zero_grad(t->r.zero) == SITU_OK;
}

static void end(trainer *t) {
  situ_dist_zero_free(t->r.zero);
  situ_dist_ddp_free(t->ddp);
  situ_nn_free(t->r.model);
}

static void add_bytes(set_picture *p, const void *data, size_t bytes) {
  if (p->bytes + bytes > sizeof p->data) abort();
  memcpy(p->data + p->bytes, data, bytes);
  p->bytes += bytes;
}

/* Its device, and the values that are there. */
static situ_status look_at(const situ_nn_visit *at, void *picture) {
  const situ_device d = situ_device_of(at->tensor);
  add_bytes(picture, &d, sizeof d);
  if (d.kind != SITU_META && !situ_memory_is_away(at->tensor)) set_add(picture, at->tensor);
  return SITU_OK;
}

static void look(set_picture *p, trainer *t) {
  memset(p, 0, sizeof *p);
  SITU_IGNORE(situ_nn_walk(t->r.model, SITU_NN_VISIT_TENSORS, look_at, p));
  const situ_optim *o = situ_dist_zero_optim(t->r.zero);
  for (int64_t i = 0; i < situ_optim_count(o); i++) {
    SITU_IGNORE(look_at(&(situ_nn_visit){ .tensor = situ_optim_param(o, i, NULL) }, p));
    for (int k = 0; k < SITU_OPTIM_STATES; k++)
      if (situ_optim_state(o, i, k, NULL)) set_add(p, situ_optim_state(o, i, k, NULL));
  }
  const int64_t numbers[] = { t->r.state.step, situ_dist_ddp_step(t->ddp), (int64_t)t->generator.offset };
  add_bytes(p, numbers, sizeof numbers);
}

/* ---- faults ---- */

/* One thing that is wrong with the set, or with the system of rank 1. */
typedef enum way { GONE, CUT, FLIP, NO_FILE, ENDS, CRAFTED, LITTLE, NOTHING } way;
typedef struct fault {
  way how;
  int file;   /* GONE, CUT, FLIP: of the set; CRAFTED: the entry */
  int64_t at; /* CUT, FLIP: the byte; NO_FILE, ENDS: the call from which on; CRAFTED: what is changed; LITTLE: bytes */
} fault;

static situ__calls real;
static fault now = { .how = NOTHING };
static int64_t calls[2]; /* of rank 1: openat, pread */
static _Thread_local int this_rank;

static bool is_call(way how) { return this_rank == 1 && calls[how == ENDS]++ >= now.at && now.how == how; }
static int missing_openat(int dir, const char *path, int flags, mode_t mode) {
  if (is_call(NO_FILE)) return errno = ENOENT, -1;
  return real.openat(dir, path, flags, mode);
}
static ssize_t ending_pread(int fd, void *data, size_t bytes, off_t at) {
  return is_call(ENDS) ? 0 : real.pread(fd, data, bytes, at);
}

/* The set as it was saved: files[0] is the manifest. */
typedef struct saved {
  char path[300];
  unsigned char bytes[1 << 15];
  size_t size;
} saved;
static saved files[RANKS + 1];
static int file_count;

static void read_set(void) {
  DIR *list = opendir(DIRECTORY);
  file_count = 0;
  for (struct dirent *e; (e = readdir(list));) {
    if (*e->d_name == '.') continue;
    saved *f = &files[file_count++];
    (void)snprintf(f->path, sizeof f->path, DIRECTORY "/%s", e->d_name);
    FILE *in = fopen(f->path, "rb");
    f->size = fread(f->bytes, 1, sizeof f->bytes, in);
    fclose(in);
  }
  closedir(list);
}

static void write_file(const saved *f, size_t size) {
  FILE *out = fopen(f->path, "wb");
  if (!out || fwrite(f->bytes, 1, size, out) != size || fclose(out)) abort();
}

/* ---- sets that are whole, of one file, in which one entry is another ---- */

typedef enum change {
  DROPPED,
  MOVED,
  SHORTER,
  HUGE_SIZE,
  TWICE,
  NO_PIECE,
  NARROWER,
  WIDER,
  FLAT,
  TURNED,
  CHANGES
} change;
static bool other_shape; /* of the tensor that was changed last */

static bool put_changed(situ_tree **tree, const situ__piece *p, situ_tensor *t, change what) {
  char name[200];
  situ_shape shape = p->shape;
  int64_t from = p->from;
  bool good = true;
  (void)snprintf(name, sizeof name, "%.*s", (int)p->name_length, p->name);
  if (what == MOVED) from++;
  if (what == SHORTER) t = situ_narrow(t, 0, 0, situ_numel(t) - (situ_numel(t) > 0));
  if (what == HUGE_SIZE) shape = SITU_SHAPE(INT64_MAX / 2, 4);
  if (what == FLAT) shape = SITU_SHAPE(p->numel);
  if (what == TURNED && shape.ndim == 2) shape = SITU_SHAPE(p->shape.dim[1], p->shape.dim[0]);
  if (what == NARROWER && p->dtype == SITU_I64) t = situ_to_dtype(t, SITU_I32);
  if (what == WIDER && p->dtype == SITU_F32) t = situ_to_dtype(t, SITU_F64);
  other_shape = p->shape.ndim && !situ_shape_equal(&shape, &p->shape); /* numbers are of any */
  if (what == NO_PIECE) good = (*tree = situ_tree_put(*tree, name, situ_tree_tensor(t))) != NULL;
  else if (what != DROPPED) good = situ__piece_put(tree, name, shape, from, t);
  if (what == TWICE && situ_numel(t) > 1)
    good = good && situ__piece_put(tree, name, shape, from, situ_narrow(t, 0, 0, 1));
  return good;
}

/* Adds the entries of a file to the tree; that of number `which` is changed, or from there on all of its tensor. Returns
   the number behind them. */
static int put_entries(situ_tree **tree, const char *path, int number, int which, change what) {
  static char victim[200];
  situ_safetensors *in = situ_safetensors_open(path, NULL);
  if (number == 0) *victim = '\0';
  for (int64_t i = 0; i < situ_safetensors_count(in); i++, number++) {
    const situ_file_entry *e = situ_safetensors_entry(in, i);
    situ__piece p;
    situ_tensor *t = situ_safetensors_load(in, e->name);
    bool good = situ__piece_parse(e, e->name, &p);
    if (number == which) (void)snprintf(victim, sizeof victim, "%.*s[", (int)p.name_length, p.name);
    if (number == which || (what >= WIDER && *victim && strncmp(e->name, victim, strlen(victim)) == 0))
      good = good && put_changed(tree, &p, t, what);
    else good = good && (*tree = situ_tree_put(*tree, e->name, situ_tree_tensor(t))) != NULL;
    if (!good) abort();
  }
  situ_safetensors_close(in);
  return number;
}

/* Returns the number of entries. */
static int craft(int which, change what) {
  const situ__set_id id = { situ__set_new_tag(), 1 };
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tree *tree = situ_tree_dict();
  int count = 0;
  for (int i = 0; i < file_count; i++)
    if (!strstr(files[i].path, "manifest")) count = put_entries(&tree, files[i].path, count, which, what);
  char *path = situ__set_file("test", DIRECTORY, id, 0);
  if (situ_save(path, tree, NULL) != SITU_OK ||
      situ__set_commit("test", DIRECTORY, id, &(situ_save_options){ 0 }) != SITU_OK)
    abort();
  situ__free(path);
  situ_tree_free(tree);
  if (situ_scope_end(&s) != SITU_OK) abort();
  return count;
}

/* The device has so many bytes more than it uses. */
static void set_budget(uint64_t more) {
  situ_device_properties p = { 0 };
  if (situ_synchronize(test_device()) != SITU_OK || situ_empty_cache(test_device()) != SITU_OK ||
      situ_device_info(test_device(), &p) != SITU_OK || situ_sim_budget(0, p.memory_used + more) != SITU_OK)
    abort();
}

static void break_it(void) {
  saved *f = now.how == CRAFTED ? NULL : &files[now.file];
  memset(calls, 0, sizeof calls);
  if (now.how == GONE && unlink(f->path)) abort();
  if (now.how == CUT) write_file(f, (size_t)now.at);
  if (now.how == FLIP) {
    f->bytes[now.at] ^= (unsigned char)(1 << now.at % 8);
    write_file(f, f->size);
    f->bytes[now.at] ^= (unsigned char)(1 << now.at % 8);
  }
  if (now.how == CRAFTED) craft(now.file, (change)now.at);
  if (now.how == LITTLE) set_budget((uint64_t)now.at);
}

static void mend_it(void) {
  if (now.how == LITTLE) set_budget(1 << 30);
  now = (fault){ .how = NOTHING };
  DIR *list = opendir(DIRECTORY);
  for (struct dirent *e; list && (e = readdir(list));) SITU_IGNORE(unlinkat(dirfd(list), e->d_name, 0));
  if (list) closedir(list);
  for (int i = 0; i < file_count; i++) write_file(&files[i], files[i].size);
}

/* ---- loads ---- */

static set_picture want[RANKS]; /* of what was saved */

typedef struct job {
  home at;
  const fault *faults;
  int count;
  situ_status status[RANKS];
  char text[RANKS][600], problem[1400];
  uint64_t allocation;
  bool begun[RANKS], same[RANKS], right[RANKS];
  int refused, accepted;
} job;

/* After a load with this fault. */
static void judge(job *j, const fault *f) {
  const char *problem = NULL;
  const bool good = j->status[0] == SITU_OK, told = f->how < CRAFTED;
  if (j->status[0] != j->status[1]) problem = "other results";
  else if (good && f->how < CRAFTED) problem = "not refused";
  for (int r = 0; r < RANKS && !problem; r++) {
    if (!good && !j->same[r]) problem = "a refused load has changed something";
    if (good && (!j->right[r] || (f->how == CRAFTED && f->at >= FLAT && other_shape))) problem = "other values";
    if (told && !strstr(j->text[r], DIRECTORY "/")) problem = "no file is named";
  }
  if (good) j->accepted++;
  else j->refused++;
  if (problem)
    (void)snprintf(j->problem, sizeof j->problem, "way %d, file %d, at %lld: %s: %.500s; %.500s", (int)f->how, f->file,
                   (long long)f->at, problem, j->text[0], j->text[1]);
}

static void load(job *j, trainer *t, situ_comm *comm, const set_picture *before) {
  const int rank = situ_comm_rank(comm);
  set_picture after;
  const situ_load_options options = { .device = test_device() };
  j->status[rank] = situ_dist_checkpoint_load(DIRECTORY, comm, &t->r.state, &options);
  situ_fail_allocation(0, false);
  (void)snprintf(j->text[rank], sizeof j->text[rank], "%s", situ_error_message());
  situ_error_clear();
  look(&after, t);
  j->same[rank] = set_same(&after, before);
  j->right[rank] = set_same(&after, &want[rank]);
}

static void load_broken(world_rank *self) {
  job *j = self->payload;
  trainer t;
  set_picture before;
  this_rank = self->rank;
  MUST(begin(&t, self->comm, j->at, 9) && (j->at != WHOLE || train(&t, 3)));
  for (int i = 0; i < j->count && !*j->problem; i++) {
    look(&before, &t);
    if (self->rank == 0) now = j->faults[i], break_it();
    MUST(situ_comm_barrier(self->comm, "broken") == SITU_OK);
    load(j, &t, self->comm, &before);
    MUST(situ_comm_barrier(self->comm, "loaded") == SITU_OK);
    if (self->rank == 0) mend_it(), judge(j, &j->faults[i]);
    MUST(situ_comm_barrier(self->comm, "judged") == SITU_OK);
  }
  look(&before, &t);
  load(j, &t, self->comm, &before);
  MUST(j->status[self->rank] == SITU_OK && j->right[self->rank]);
out:
  end(&t);
}

/* One load, in which memory ends. */
static void load_once(world_rank *self) {
  job *j = self->payload;
  trainer t;
  set_picture before;
  MUST(begin(&t, self->comm, j->at, 9) && (j->at != WHOLE || train(&t, 3)));
  look(&before, &t);
  MUST(situ_comm_barrier(self->comm, "before") == SITU_OK);
  if (self->rank == 0 && j->allocation) situ_fail_allocation(j->allocation, false);
  MUST(situ_comm_barrier(self->comm, "begin") == SITU_OK);
  load(j, &t, self->comm, &before);
  j->begun[self->rank] = true;
out:
  end(&t);
}

static void save(world_rank *self) {
  trainer t;
  MUST(begin(&t, self->comm, WHOLE, 4) && train(&t, 1) && train(&t, 2));
  MUST(situ_dist_checkpoint_save(DIRECTORY, self->comm, &t.r.state, NULL) == SITU_OK);
  look(&want[self->rank], &t);
out:
  end(&t);
}

static void run(job *j, world_rank ranks[WORLD_MOST], void (*body)(world_rank *self)) {
  situ_comm_sim *world = situ_comm_sim_new(RANKS, NULL);
  now = (fault){ .how = NOTHING };
  memset(calls, 0, sizeof calls);
  world_run(world, ranks, RANKS, body, j, j->allocation ? 5 : 60);
  situ_fail_allocation(0, false);
}

static void save_set(void) {
  world_rank ranks[WORLD_MOST];
  file_count = 0;
  mend_it();
  run(&(job){ 0 }, ranks, save);
  for (int r = 0; r < RANKS; r++) expect_rank_ok(&ranks[r]);
  read_set();
  assert_int_equal(file_count, RANKS + 1);
}

static void expect_each(const fault *list, int count, home at) {
  world_rank ranks[WORLD_MOST];
  job j = { .at = at, .faults = list, .count = count };
  run(&j, ranks, load_broken);
  if (*j.problem) fail_msg("%s", j.problem);
  for (int r = 0; r < RANKS; r++) expect_rank_ok(&ranks[r]);
  print_message("%d loads refused, %d accepted\n", j.refused, j.accepted);
}

static int64_t header_of(const saved *f) {
  int64_t length;
  memcpy(&length, f->bytes, sizeof length);
  return length + 8;
}

enum { MOST = 1 << 15 };
static fault list[MOST];
static int listed;
static void add_fault(way how, int file, int64_t at) {
  assert_true(listed < MOST);
  list[listed++] = (fault){ how, file, at };
}

/* Files that are gone, cut at each place that matters, or have another byte in the header or among the values. */
static void damaged_files(void **state) {
  (void)state;
  const int step = getenv("SITU_TEST_ALL") ? 1 : test_is_slow() ? 193 : 61;
  save_set();
  listed = 0;
  for (int i = 0; i < file_count; i++) {
    const int64_t header = header_of(&files[i]), size = (int64_t)files[i].size;
    const int64_t cuts[] = { 0, 1, 7, 8, 9, header / 2, header - 1, header, header + 4, size - 1 };
    add_fault(GONE, i, 0);
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++)
      if (cuts[k] < size) add_fault(CUT, i, cuts[k]);
    for (int64_t at = 0; at < header; at += at < 8 ? 1 : step) add_fault(FLIP, i, at);
    for (int64_t at = header; at < size; at += 5 * step) add_fault(FLIP, i, at);
  }
  for (home at = 0; at < HOMES; at++) {
    if (at && step > 1) listed = listed > 60 ? 60 : listed;
    expect_each(list, listed, at);
  }
}

/* Each entry in turn is missing, or another. */
static void sets_that_do_not_fit(void **state) {
  (void)state;
  save_set();
  listed = 0;
  const int entries = craft(-1, DROPPED);
  mend_it();
  for (int e = 0; e < entries; e++)
    for (change what = 0; what < CHANGES; what++)
      if (getenv("SITU_TEST_ALL") || (e + (int)what) % (test_is_slow() ? 5 : 2) == 0) add_fault(CRAFTED, e, what);
  expect_each(list, listed, WHOLE);
}

/* Rank 1 does not find a file, or finds its end too early; the device has little memory. */
static void systems_that_fail(void **state) {
  (void)state;
  save_set();
  for (home at = 0; at < HOMES; at++) {
    expect_each(list, 0, at);
    const int64_t opened = calls[0], read = calls[1];
    listed = 0;
    for (int64_t k = 0; k < opened; k++) add_fault(NO_FILE, 0, k);
    for (int64_t k = 0; k < read; k += 1 + test_is_slow() * 4) add_fault(ENDS, 0, k);
    for (int64_t k = 0; k < 48 && test_device().kind == SITU_SIM; k++) add_fault(LITTLE, 0, k * 1024);
    expect_each(list, listed, at);
  }
}

/* A load ends on some ranks, with another communicator; what one has not loaded is as it was. Returns whether any has
   failed. */
static bool lose(job *j) {
  world_rank ranks[WORLD_MOST];
  bool failed = false;
  run(j, ranks, load_once);
  for (int r = 0; r < RANKS; r++) {
    failed |= ranks[r].status != SITU_OK || j->status[r] != SITU_OK;
    if (j->begun[r] && !(j->status[r] == SITU_OK ? j->right[r] : j->same[r]))
      fail_msg("home %d, allocation %d, rank %d: %s", (int)j->at, (int)j->allocation, r, j->text[r]);
  }
  return failed;
}

static void memory_ends(void **state) {
  (void)state;
  save_set();
  for (home at = HALF; at < HOMES; at++) {
    int refused = 0;
    for (int nth = 1;; nth += test_is_slow() ? 61 : 17) {
      job j = { .at = at, .allocation = (uint64_t)nth };
      const bool failed = lose(&j);
      refused += failed;
      if (!failed && nth > 2000) break;
    }
    print_message("home %d: %d loads without memory\n", (int)at, refused);
    assert_true(refused > 10);
  }
}

int main(void) {
  real = situ__sys;
  situ__sys.openat = missing_openat;
  situ__sys.pread = ending_pread;
  const struct CMUnitTest tests[] = { TEST(memory_ends), TEST(sets_that_do_not_fit), TEST(damaged_files),
                                      TEST(systems_that_fail) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
