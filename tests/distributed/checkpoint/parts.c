/* Parameters in parts, loaded into a model that was made on meta: a rank reads its own elements, and nothing is ever
   whole. */
/* test-devices: sim:0 */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "distributed/divided.h"
#include "situ/sys/sim.h"

enum { MOST = 4, LAYERS = 6, WIDTH = 96, MICRO = 12, UNIT = WIDTH * (WIDTH + 1), STATES = 2, FDS = 4096 };
static const char directory[] = "parts";

/* ---- what is read of the ranks' files ---- */

static situ__calls real;
static _Atomic int64_t headers[FDS]; /* per descriptor: where the values of the file begin; 0: another file */
static _Atomic int64_t values_read;

static int counting_openat(int dir, const char *path, int flags, mode_t mode) {
  const int fd = real.openat(dir, path, flags, mode);
  uint64_t length = 0;
  if (fd < 0 || fd >= FDS) return fd;
  headers[fd] = 0;
  if (strstr(path, "rank-") && real.pread(fd, &length, sizeof length, 0) == sizeof length)
    headers[fd] = (int64_t)length + 8;
  return fd;
}
static ssize_t counting_pread(int fd, void *data, size_t bytes, off_t offset) {
  const ssize_t got = real.pread(fd, data, bytes, offset);
  if (got > 0 && fd >= 0 && fd < FDS && headers[fd] && offset >= headers[fd]) values_read += got;
  return got;
}

/* ---- ranks ---- */

typedef struct job {
  bool load, meta; /* the model is made on meta */
  bool damaged;    /* a file is, at first, which the load must find */
  int64_t bytes[MOST];
  situ_nn_module *model[MOST];
} job;

static situ_device home(int rank) { return (situ_device){ SITU_SIM, (uint16_t)rank }; }

static situ_nn_module *make(situ_device device) {
  const situ_nn_linear_options o = { .device = device };
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(WIDTH, WIDTH, &o));
  for (int i = 1; i < LAYERS; i++) m = situ_nn_append(m, situ_nn_linear(WIDTH, WIDTH, &o));
  return m;
}

static situ_status train_step(situ_nn_module *m, situ_dist_ddp *ddp, situ_dist_zero *zero, int rank) {
  for (int64_t k = 0; k < situ_dist_ddp_micro_batches(ddp); k++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *x = situ_full(SITU_SHAPE(1, WIDTH), 1 + (double)situ_dist_ddp_micro_batch(ddp),
                               &(situ_options){ .device = home(rank) });
    const situ_status status = situ_backward(situ_sum(situ_tanh(situ_nn_forward(m, x)), NULL), NULL);
    const situ_status ended = situ_scope_end(&s);
    if (status != SITU_OK || ended != SITU_OK) return situ_error();
  }
  SITU_TRY(situ_dist_zero_step(zero));
  return situ_dist_zero_zero_grad(zero);
}

static int64_t bytes_used(int rank) {
  situ_device_properties p;
  if (situ_synchronize(home(rank)) != SITU_OK || situ_empty_cache(home(rank)) != SITU_OK ||
      situ_device_info(home(rank), &p) != SITU_OK)
    return -1;
  return (int64_t)p.memory_used;
}

/* Changes the last value of a rank's file, or changes it back. */
static bool flip(void) {
  char path[300] = "";
  unsigned char byte;
  DIR *list = opendir(directory);
  for (struct dirent *e; list && (e = readdir(list));)
    if (strncmp(e->d_name, "rank-00001", 10) == 0) (void)snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
  if (list) closedir(list);
  FILE *f = fopen(path, "r+b");
  const bool read = f && fseek(f, -2, SEEK_END) == 0 && fread(&byte, 1, 1, f) == 1 && fseek(f, -2, SEEK_END) == 0;
  byte ^= 1;
  const bool good = read && fwrite(&byte, 1, 1, f) == 1;
  return f && fclose(f) == 0 && good;
}

static bool load_damaged(world_rank *self, situ_dist_checkpoint *c, const situ_load_options *options) {
  const bool refused = situ_dist_checkpoint_load(directory, self->comm, c, options) == SITU_E_FORMAT &&
                       strstr(situ_error_message(), "does not match its checksum");
  if (refused) situ_error_clear();
  return refused && situ_comm_barrier(self->comm, "damaged") == SITU_OK && (self->rank || flip()) &&
         situ_comm_barrier(self->comm, "mended") == SITU_OK;
}

/* The load, or the move, has the device's memory for its parts, their states and a unit, with the ends of blocks. */
static bool fill_in_little(job *j, world_rank *self, situ_dist_checkpoint *c) {
  const int r = self->rank;
  const situ_load_options options = { .device = home(r) };
  const int64_t part = 4 * LAYERS * UNIT / self->size, before = bytes_used(r);
  if (situ_sim_budget(r, (uint64_t)(before + (1 + STATES) * part + 4 * UNIT + (64 << 10))) != SITU_OK ||
      (j->damaged && !load_damaged(self, c, &options)))
    return false;
  const bool good = j->load ? situ_dist_checkpoint_load(directory, self->comm, c, &options) == SITU_OK
                            : situ_nn_to(c->model, home(r)) == SITU_OK;
  j->bytes[r] = bytes_used(r) - before;
  return situ_sim_budget(r, 1 << 30) == SITU_OK && good;
}

static void save_or_load(world_rank *self) {
  job *j = self->payload;
  const int r = self->rank;
  situ_dist_ddp *ddp = NULL;
  situ_dist_zero *zero = NULL;
  situ_dist_checkpoint c = { 0 };
  situ_nn_module *m = j->model[r];
  MUST(m && (ddp = situ_dist_ddp_new(m, self->comm, &(situ_dist_ddp_options){ .micro_batches = MICRO })));
  MUST((zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_adamw, 1e-2, NULL)));
  c = (situ_dist_checkpoint){ .model = m, .zero = zero, .ddp = ddp };
  if (j->meta)
    MUST(situ_dist_zero_unshard(zero) == SITU_E_STATE &&
         strstr(situ_error_message(), "is on meta: load a checkpoint") && (situ_error_clear(), true));
  if (j->load || j->meta) MUST(fill_in_little(j, self, &c));
  MUST(train_step(m, ddp, zero, r) == SITU_OK);
  if (!j->load && !j->meta) MUST(situ_dist_checkpoint_save(directory, self->comm, &c, NULL) == SITU_OK);
  if (!j->load) MUST(train_step(m, ddp, zero, r) == SITU_OK); /* as the loaded ones will */
  MUST(situ_dist_zero_unshard(zero) == SITU_OK);
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}

static void run(job *j, world_rank ranks[WORLD_MOST], int size) {
  for (int r = 0; r < size; r++) {
    situ_manual_seed(j->load ? 9 + (uint64_t)r : 7);
    j->model[r] = make(j->meta ? situ_dev("meta") : home(r));
  }
  world_run(situ_comm_sim_new(size, NULL), ranks, size, save_or_load, j, 60);
}
static void free_models(job *j, int size) {
  for (int r = 0; r < size; r++) situ_nn_free(j->model[r]);
}

/* A model that is made on meta and moved has the bits of one that is made on the device. */
static void parts_are_made_on_meta(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  assert_int_equal(situ_sim_create(MOST), SITU_OK);
  job made = { 0 };
  run(&made, ranks, 1);
  for (int size = 1; size <= MOST; size++) {
    job moved = { .meta = true };
    run(&moved, ranks, size);
    for (int r = 0; r < size; r++) {
      expect_rank_ok(&ranks[r]);
      expect_equal_models(moved.model[r], made.model[0], "made on meta", size);
      assert_true(moved.bytes[r] <= 4 * LAYERS * UNIT / size + (32 << 10));
    }
    free_models(&moved, size);
  }
  free_models(&made, 1);
}

/* Ranks that read parts of a piece compare its checksum together; a load that failed can be repeated. */
static void damage_is_found_in_parts(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  assert_int_equal(situ_sim_create(MOST), SITU_OK);
  job saved = { 0 };
  run(&saved, ranks, 2);
  for (int size = 1; size <= MOST; size++) {
    job loaded = { .load = true, .meta = true, .damaged = true };
    assert_true(flip());
    run(&loaded, ranks, size);
    for (int r = 0; r < size; r++) {
      expect_rank_ok(&ranks[r]);
      expect_equal_models(loaded.model[r], saved.model[0], "loaded behind an error", size);
    }
    free_models(&loaded, size);
  }
  free_models(&saved, 2);
}

/* Of as many ranks all read the files once, of others at most twice; the bits are those of training that went on. */
static void a_rank_reads_its_parts(void **state) {
  (void)state;
  static const int sizes[] = { 1, 2, 3, 4 };
  const int64_t all = 4 * (1 + STATES) * LAYERS * UNIT;
  world_rank ranks[WORLD_MOST];
  assert_int_equal(situ_sim_create(MOST), SITU_OK);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    job saved = { 0 };
    run(&saved, ranks, sizes[s]);
    for (int r = 0; r < sizes[s]; r++) expect_rank_ok(&ranks[r]);
    for (int size = 1; size <= MOST; size++)
      for (int meta = 0; meta < 2; meta++) {
        job loaded = { .load = true, .meta = meta };
        real = situ__sys;
        situ__sys.openat = counting_openat;
        situ__sys.pread = counting_pread;
        values_read = 0;
        run(&loaded, ranks, size);
        situ__sys = real;
        for (int r = 0; r < size; r++) {
          expect_rank_ok(&ranks[r]);
          expect_equal_models(loaded.model[r], saved.model[0], "loaded in parts", size);
          if (meta) assert_true(loaded.bytes[r] <= (1 + STATES) * (4 * LAYERS * UNIT / size + 4) + (32 << 10));
        }
        print_message("%d saved, %d load: %lld bytes of values read, %lld are there\n", sizes[s], size,
                      (long long)values_read, (long long)all);
        assert_true(values_read >= all && values_read <= (size == sizes[s] ? 1 : 2) * all + (16 << 10));
        free_models(&loaded, size);
      }
    free_models(&saved, sizes[s]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_rank_reads_its_parts), TEST(parts_are_made_on_meta),
                                      TEST(damage_is_found_in_parts) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
