/* Fuzzes calls of ops: any shapes, dtypes, layouts and numbers. One input is a chain of calls: an operand may be a result of an
   earlier call. Each call is made on cpu and on sim:0, which must agree to the bit; in f64, which an f32 call must be near to;
   and with an allocation that fails, after which the same call again must give what an undisturbed one gives.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/compare.h"
#include "situ/device.h"
#include "situ/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What would take longer is read, but not called. 2^20: a few ms under sanitizers. */
enum { MOST_WORK = 1 << 20 };

/* ---- how many calls were made and compared ---- */

static struct { uint64_t inputs, cpu, sim, wide, failing, failed, refused, too_large; } calls;

static void say_counts(void) {
  fprintf(
      stderr,
      "%llu calls in %llu inputs: %llu on cpu (%llu of them refused), %llu on sim:0, %llu in f64, %llu with an allocation that "
      "is to fail (%llu failed); %llu more were too large\n",
      (unsigned long long)(calls.cpu + calls.sim + calls.wide + calls.failing), (unsigned long long)calls.inputs,
      (unsigned long long)calls.cpu, (unsigned long long)calls.refused, (unsigned long long)calls.sim,
      (unsigned long long)calls.wide, (unsigned long long)calls.failing, (unsigned long long)calls.failed,
      (unsigned long long)calls.too_large);
}

/* ---- one input ---- */

static call chain[CALLS];
static int chain_length;
static bool saying; /* SITU_FUZZ_SAY is set: each call is described before it is made, to see what one input is */

void wrong(const char *what) {
  for (int k = 0; k < chain_length && !saying; k++) describe(&chain[k], k);
  say_counts();
  fprintf(stderr, "%s; last error: %s\n", what, situ_error_message());
  abort();
}

/* Where the chain runs. */
typedef struct places {
  place cpu, sim, failing;
} places;

static bool compares_with_f64(const call *c) {
  bool any = false;
  if (c->narrow) return false;
  for (int k = 0; k < c->count; k++) {
    const operand *o = &c->operand[k];
    if (o->from != MADE || o->special || (o->dtype != SITU_F32 && situ_dtype_is_floating(o->dtype))) return false;
    any |= o->dtype == SITU_F32;
  }
  for (int k = 0; k < 2 && c->fuzzed; k++)
    if (!(fabs(c->numbers.d[k]) <= 8)) return false;
  return any;
}

/* The places on a device share its memory: for each call there is MOST_MEMORY beside what all of them hold. */
static void make_room(situ_device device) {
  situ_device_properties p;
  if (situ_device_info(device, &p) != SITU_OK ||
      situ_set_memory_limit(device, (int64_t)(p.memory_reserved - p.memory_cached) + MOST_MEMORY) != SITU_OK)
    wrong("the memory of cpu and sim:0 cannot be limited (is SITU_SIM=1 set?)");
}

static void run_wide(const call *c, const outcome *f32) {
  place wide = { .device = situ_dev("cpu"), .wide = true };
  make_room(wide.device);
  const operands with = make_operands(c, &wide);
  outcome o = run_call(c, &wide, &with, 0, 0);
  calls.wide++;
  if (o.status != SITU_E_NOMEM) compare_wide(f32, &o);
  forget(&o);
}

static void run_failing(const call *c, place *p, int number, const outcome *good) {
  make_room(p->device);
  const operands with = make_operands(c, p);
  outcome before = { .status = SITU_OK };
  keep_operands(c, &with, &before);
  outcome o = run_call(c, p, &with, number, c->failing);
  calls.failing += c->failing > 0;
  if (o.status == SITU_E_NOMEM) {
    calls.failed++;
    compare_unchanged(&before, &o);
    if (o.result) {
      run_backward_again(c, p, &with, &o);
    } else {
      forget(&o);
      o = run_call(c, p, &with, number, 0);
    }
  }
  compare_bits(good, &o, "an undisturbed call and one after a failed allocation");
  forget(&before);
  forget(&o);
}

/* A call that one of them had no memory for is not compared. */
static bool leaves_memory(const outcome *o) {
  return o->status != SITU_E_NOMEM && (!o->result || situ_numel(o->result) <= MOST_MEMORY);
}

/* False: what follows would start from different results. */
static bool run_everywhere(const call *c, places *at, int number) {
  at->cpu.retain = at->sim.retain = !c->last;
  make_room(at->cpu.device);
  make_room(at->sim.device);
  const operands on_cpu = make_operands(c, &at->cpu), on_sim = make_operands(c, &at->sim);
  outcome cpu = run_call(c, &at->cpu, &on_cpu, number, 0), sim = run_call(c, &at->sim, &on_sim, number, 0);
  calls.cpu++;
  calls.sim++;
  calls.refused += !cpu.result;
  const bool enough = leaves_memory(&cpu) && leaves_memory(&sim);
  if (enough) compare_bits(&cpu, &sim, "cpu and sim:0");
  if (enough && chain[0].failing) run_failing(c, &at->failing, number, &cpu);
  if (enough && compares_with_f64(c)) run_wide(c, &cpu);
  forget(&cpu);
  forget(&sim);
  return enough && !sim.late;
}

static void run_chain(source s) {
  places at = { { .device = situ_dev("cpu") },
                { .device = situ_dev("sim:0") },
                { .device = situ_dev("cpu"), .retain = true } };
  bool more = true;
  for (chain_length = 0; more && chain_length < CALLS;) {
    const int number = chain_length++;
    call *c = &chain[number];
    read_call(&s, c, at.cpu.result, number == 0);
    more = !c->last;
    if (saying) describe(c, number);
    if (estimated_work(c) > MOST_WORK) calls.too_large++;
    else more = run_everywhere(c, &at, number) && more;
  }
}

static void begin(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  saying = getenv("SITU_FUZZ_SAY") != NULL;
  (void)atexit(say_counts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (calls.inputs++ == 0) begin();
  situ_error_clear();
  const int64_t alive = situ_live_tensors();
  situ_scope scope;
  situ_scope_begin(&scope);
  run_chain((source){ data, size });
  if (situ_scope_end(&scope) != SITU_OK) wrong("a deferred error");
  if (situ_live_tensors() != alive) wrong("tensors are left alive");
  if (calls.inputs % (1 << 16) == 0) say_counts();
  return 0;
}
