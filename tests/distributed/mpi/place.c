/* A program of several ranks over MPI: snapshots, lock files, plans, checks and moves of all of them. The last rank is the
   one that differs. Each writes what it saw to result.<rank>. Built by tests/distributed/mpi.sh with the mpicc under test.
   SPDX-License-Identifier: MIT */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "situ/mpi.h"
#include "situ/situ.h"

enum { TEXT = 1 << 14 };

static FILE *result;

typedef struct rank {
  situ_comm *comm;
  int number, last;
  situ_nn_module *model; /* on cpu, but for the last rank's last layer */
} rank;

static bool is(bool good, const char *what) {
  if (!good) fprintf(result, "not so: %s: %s\n", what, situ_error_message());
  return good;
}

/* The call was refused on every rank because of the last one. */
static bool refused(const rank *r, situ_status got, situ_status want, const char *says) {
  char heard[32];
  (void)snprintf(heard, sizeof heard, "rank %d: ", r->last);
  const bool last = r->number == r->last;
  const bool good = is(got == (last ? want : SITU_E_COMM) && strstr(situ_error_message(), says) &&
                           (last || strstr(situ_error_message(), heard)),
                       says);
  situ_error_clear();
  return good;
}

static bool on(const rank *r, const char *name, const char *device) {
  return situ_device_equal(situ_device_of(situ_nn_get_tensor(r->model, name)), situ_dev(device));
}

static bool shows_all(const rank *r) {
  char text[TEXT], last[64];
  situ_snapshot *all = situ_dist_snapshot(r->model, r->comm);
  (void)snprintf(last, sizeof last, "rank %d: Sequential", r->last);
  bool good = is(all && situ_snapshot_count(all) == 1 + (r->last + 1) * (1 + 3 + 4), "all tensors of all ranks") &&
              is(situ_snapshot_to_string(all, NULL, text, sizeof text) > 0 && strstr(text, last), last);
  if (r->number == 0) good = is(situ_snapshot_lock_write(all, "ranks.lock") == SITU_OK, "lock file") && good;
  good = is(situ_comm_barrier(r->comm, "lock file") == SITU_OK, "barrier") && good;
  good = is(situ_snapshot_lock_check(all, "ranks.lock") == SITU_OK, "as the lock file says") && good;
  situ_snapshot_free(all);
  return good;
}

static bool moves_all_or_none(const rank *r) {
  char text[TEXT];
  const bool last = r->number == r->last;
  const situ_nn_to_options wrong = { .map = "9=sim:0" }, to = { .device = situ_dev("sim:0") };
  if (!refused(r, situ_dist_to(r->model, r->comm, last ? &wrong : &to), SITU_E_ARG, "\"9\" matches no module"))
    return false;
  if (!is(on(r, "0.weight", "cpu") && on(r, "2.weight", last ? "sim:1" : "cpu"), "nothing has moved")) return false;
  return is(situ_dist_plan_to_string(r->model, r->comm, &to, NULL, text, sizeof text) > 0 &&
                strstr(text, "it can be made"),
            "a plan") &&
         is(situ_dist_to(r->model, r->comm, &to) == SITU_OK, "a move") &&
         is(on(r, "0.weight", "sim:0") && on(r, "2.weight", "sim:0"), "all have moved");
}

/* The last rank's input is where its model is not. */
static bool checks_all(const rank *r) {
  const bool last = r->number == r->last;
  bool good = true;
  for (int wrong = 1; wrong >= 0 && good; wrong--) {
    const situ_options where = { .device = situ_dev(last && wrong ? "sim:1" : "sim:0") };
    situ_tree *inputs = situ_tree_tensor(situ_ones(SITU_SHAPE(2, 6), &where));
    situ_place_report report = { 0 };
    char heard[32];
    (void)snprintf(heard, sizeof heard, "rank %d: ", r->last);
    const situ_status status = situ_dist_check(r->model, inputs, r->comm, NULL, &report);
    good = wrong ? is(status == SITU_E_STATE && strstr(situ_error_message(), heard) && report.mistakes == last, heard)
                 : is(status == SITU_OK && report.finished, "no mistake");
    situ_error_clear();
    situ_place_report_free(&report);
    situ_tree_free(inputs);
  }
  return good;
}

int main(int argc, char **argv) {
  int provided;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return 4;
  rank r = { .comm = situ_comm_mpi(MPI_COMM_WORLD, NULL) };
  if (!r.comm) return 5;
  r.number = situ_comm_rank(r.comm), r.last = situ_comm_size(r.comm) - 1;
  char name[64];
  (void)snprintf(name, sizeof name, "result.%d", r.number);
  if (!(result = fopen(name, "w"))) return 6;
  situ_scope s;
  situ_scope_begin(&s);
  situ_error_mode(SITU_ERROR_QUIET);
  r.model = situ_nn_sequential(situ_nn_linear(6, 8, NULL), situ_nn_relu(), situ_nn_linear(8, 3, NULL));
  const bool good = is(r.number != r.last || situ_nn_to_map(r.model, "2=sim:1") == SITU_OK, "the last layer's place") &&
                    shows_all(&r) && moves_all_or_none(&r) && checks_all(&r);
  situ_nn_free(r.model);
  fprintf(result, "%s\n", situ_scope_end(&s) == SITU_OK && good ? "ok" : "bad");
  (void)fclose(result);
  situ_comm_free(r.comm);
  (void)MPI_Finalize();
  return !good;
}
