/* The data loader: worker threads prefetch batches, and the caller takes them in order.
   SPDX-License-Identifier: MIT */
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/mutex.h"
#include "base/size.h"
#include "data/sampler.h"
#include "situ/ops.h"

static const char op[] = "data_loader";

/* A finished batch that was not taken yet: a tree, or an error. */
typedef struct slot {
  bool full;
  situ_tree *batch;
  situ_status status;
  char message[512];
} slot;

struct situ_data_loader {
  uint32_t head;
  situ__alone alone;
  situ_dataset *dataset;
  situ_data_loader_options options;
  int64_t samples, batches;
  int64_t *order;     /* order of the samples in this epoch */
  situ_tree *current; /* the batch that the caller has */
  pid_t process;      /* worker threads do not exist in a forked child */
  situ_device home;   /* default device of the thread that created the loader */
  void *made_at;      /* return address of the call that created it: errors of workers name this line */

  /* Batch b waits in ring[b % ahead]. The lock guards all fields below. */
  situ__mutex lock;
  pthread_cond_t work, ready;
  pthread_t *threads;
  int workers; /* started */
  slot *ring;
  int64_t ahead;
  int64_t claimed, taken; /* batches begun by workers; taken by the caller */
  int64_t busy;           /* workers that are making a batch */
  bool running, stop;
};

static bool is_loader(const situ_data_loader *l) { return situ__valid(op, "loader", l, SITU__A_LOADER); }

/* ---- making a batch -------------------------------------------------------------------------- */

static situ_tensor *to_device(situ_tensor *t, void *device) { return situ_to(t, *(const situ_device *)device); }

static situ_tensor *to_pinned(situ_tensor *t, void *device) { return situ_pin_memory(t, *(const situ_device *)device); }

/* Each tensor of the batch as `copy` makes it, which takes the batch; as it is without a device. */
static situ_tree *copy_batch(situ_tree *batch, situ_tensor *(*copy)(situ_tensor *t, void *device),
                             situ_device *device) {
  if (!batch || device->kind == SITU_DEVICE_DEFAULT) return batch;
  situ_tree *copied = situ_tree_map(batch, copy, device);
  situ_tree_free(batch);
  return copied;
}

static situ_tree *collect_samples(situ_data_loader *l, const int64_t *indices, int64_t count) {
  if (!situ__dataset_given(op, l->dataset)) return NULL;
  if (l->dataset->type->get_batch && !l->options.collate)
    return l->dataset->type->get_batch(l->dataset, indices, count);
  situ_tree **samples = situ__calloc((size_t)count, sizeof *samples);
  if (!samples) return situ__no_memory(op, (size_t)count * sizeof *samples), NULL;
  int64_t got = 0;
  while (got < count && (samples[got] = situ_dataset_get(l->dataset, indices[got]))) got++;
  situ_tree *batch = got < count          ? NULL
                     : l->options.collate ? l->options.collate(samples, count, l->options.payload)
                                          : situ_default_collate(samples, count);
  for (int64_t i = 0; i < got; i++) situ_tree_free(samples[i]);
  situ__free(samples);
  return batch;
}

static situ_tree *make_batch(situ_data_loader *l, int64_t number) {
  int64_t first = number * l->options.batch_size;
  int64_t count = situ__min_i64(l->options.batch_size, l->samples - first);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *batch = collect_samples(l, l->order + first, count);
  batch = copy_batch(batch, to_pinned, &l->options.pin_memory);
  batch = copy_batch(batch, to_device, &l->options.device);
  situ_status status = situ_scope_end(&scope);
  if (batch && status == SITU_OK) return batch;
  /* A custom data set may return NULL without recording an error. */
  if (status == SITU_OK && situ_error() == SITU_OK)
    situ__fail(SITU_E_STATE, op, "%s gave no sample for batch %lld", l->dataset->type->name, (long long)number);
  situ_tree_free(batch);
  return NULL;
}

/* ---- workers --------------------------------------------------------------------------------- */

static bool may_claim(const situ_data_loader *l) {
  return l->running && l->claimed < l->batches && l->claimed < l->taken + l->ahead;
}

static void *run_worker(void *payload) {
  situ_data_loader *l = payload;
  situ__origin = (situ__thread_origin){ __builtin_return_address(0), l->made_at, NULL };
  SITU_IGNORE(situ_set_default_device(l->home));
  situ__mutex_lock(&l->lock);
  for (;;) {
    while (!l->stop && !may_claim(l)) situ__mutex_wait(&l->lock, &l->work);
    if (l->stop) break;
    int64_t number = l->claimed++;
    slot *s = &l->ring[number % l->ahead];
    l->busy++;
    situ__mutex_unlock(&l->lock);

    /* Other threads do not read s before it is full. The caller gets the error when it takes the batch. */
    situ__errors own;
    situ__errors_aside(&own);
    s->batch = make_batch(l, number);
    s->status = situ__errors_back(&own, s->message, sizeof s->message);
    if (s->batch) s->status = SITU_OK;

    situ__mutex_lock(&l->lock);
    s->full = true;
    l->busy--;
    pthread_cond_signal(&l->ready);
  }
  situ__mutex_unlock(&l->lock);
  return NULL;
}

static bool start_workers(situ_data_loader *l) {
  int wanted = l->options.num_workers;
  l->ring = situ__calloc((size_t)l->ahead, sizeof *l->ring);
  l->threads = situ__calloc((size_t)wanted, sizeof *l->threads);
  if (!l->ring || !l->threads) return situ__no_memory(op, (size_t)l->ahead * sizeof *l->ring), false;
  situ__fork_guard();
  for (; l->workers < wanted; l->workers++) {
    if (pthread_create(&l->threads[l->workers], NULL, run_worker, l) == 0) continue;
    return situ__fail(SITU_E_LIMIT, op, "only %d of %d worker threads could be started", l->workers, wanted), false;
  }
  return true;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static bool begin_epoch(situ_data_loader *l) {
  if (l->options.sampler && situ_sampler_draw(l->options.sampler, l->order, l->samples) != SITU_OK) return false;
  int64_t *order = l->options.shuffle ? situ__random_order(op, l->samples, l->options.generator) : l->order;
  if (!order) return false;
  if (order != l->order) {
    situ__free(l->order);
    l->order = order;
  }
  l->claimed = l->taken = 0;
  l->running = true;
  pthread_cond_broadcast(&l->work);
  return true;
}

/* Waits for the workers to finish their batches, and discards all batches. */
static void end_epoch(situ_data_loader *l) {
  l->running = false;
  while (l->busy > 0) situ__mutex_wait(&l->lock, &l->ready);
  for (int64_t i = 0; l->workers > 0 && i < l->ahead; i++) {
    situ_tree_free(l->ring[i].batch);
    l->ring[i].batch = NULL;
    l->ring[i].full = false;
  }
}

/* Takes the next batch from the workers. The caller holds the lock. */
static situ_tree *take_batch(situ_data_loader *l) {
  slot *s = &l->ring[l->taken % l->ahead];
  while (!s->full) situ__mutex_wait(&l->lock, &l->ready);
  situ_tree *batch = s->batch;
  if (!batch) situ__fail(s->status, op, "a worker could not make batch %lld: %s", (long long)l->taken, s->message);
  s->batch = NULL;
  s->full = false;
  return batch;
}

const situ_tree *situ_data_loader_next(situ_data_loader *loader) {
  if (!is_loader(loader)) return NULL;
  if (loader->workers > 0 && loader->process != getpid())
    return situ__fail(SITU_E_STATE, op,
                      "its workers are threads of the parent process: make the loader after the fork"),
           NULL;
  SITU__ALONE(in, &loader->alone, op, "this loader");
  if (!in) return NULL;
  situ_tree_free(loader->current);
  loader->current = NULL;
  /* Without workers datasets and samplers run here: not under a lock, which a fork would wait for. */
  if (loader->workers > 0) situ__mutex_lock(&loader->lock);
  bool on = loader->running || begin_epoch(loader);
  if (on && loader->taken < loader->batches) {
    loader->current = loader->workers > 0 ? take_batch(loader) : make_batch(loader, loader->taken);
    loader->taken++;
    pthread_cond_signal(&loader->work);
  }
  if (!loader->current) end_epoch(loader);
  if (loader->workers > 0) situ__mutex_unlock(&loader->lock);
  return loader->current;
}

int64_t situ_data_loader_length(const situ_data_loader *loader) {
  return loader && is_loader(loader) ? loader->batches : -1;
}

/* ---- creating and freeing ---- */

static bool check_device(situ_device device) {
  char name[SITU_DEVICE_NAME_MAX];
  if (device.kind == SITU_DEVICE_DEFAULT || situ_device_is_available(device)) return true;
  return situ__fail(SITU_E_DEVICE, op, "there is no device %s", situ_device_name(device, name)), false;
}

static bool check_options(situ_dataset *dataset, const situ_data_loader_options *o) {
  if (!situ__dataset_given(op, dataset)) return false;
  if (o->batch_size < 0 || o->num_workers < 0 || o->num_workers > 256 || o->prefetch < 0 || o->prefetch > 1024) {
    situ__fail(SITU_E_ARG, op, "batch_size %lld, num_workers %d (0..256), prefetch %d (0..1024)",
               (long long)o->batch_size, o->num_workers, o->prefetch);
  } else if (o->sampler && o->shuffle) {
    situ__fail(SITU_E_ARG, op, "a sampler and shuffle: the sampler chooses the order");
  } else {
    return check_device(o->device) && check_device(o->pin_memory);
  }
  return false;
}

/* Number of samples per epoch; -1 after recording an error. */
static int64_t count_samples(situ_dataset *dataset, const situ_sampler *sampler) {
  const int64_t length = situ_dataset_length(dataset);
  if (length < 0 || !sampler) return length;
  if (sampler->bound <= length) return sampler->count;
  return situ__fail(SITU_E_INDEX, op, "%s draws indices up to %lld from a dataset of %lld", sampler->type->name,
                    (long long)sampler->bound - 1, (long long)length),
         -1;
}

situ_data_loader *situ_data_loader_new(situ_dataset *dataset, const situ_data_loader_options *options) {
  static const situ_data_loader_options defaults;
  if (!check_options(dataset, options ? options : &defaults) ||
      (options && !situ__optional(op, "sampler", options->sampler, SITU__A_SAMPLER)))
    return NULL;
  const int64_t samples = count_samples(dataset, options ? options->sampler : NULL);
  if (samples < 0) return NULL;
  situ_data_loader *l = situ__handle_new(SITU__A_LOADER, sizeof *l);
  if (!l) return situ__no_memory(op, sizeof *l), NULL;
  l->dataset = dataset;
  l->options = options ? *options : defaults;
  situ_data_loader_options *o = &l->options;
  if (o->batch_size == 0) o->batch_size = 1;
  l->samples = samples;
  l->batches = o->drop_last ? l->samples / o->batch_size : situ__ceil_div(l->samples, o->batch_size);
  l->ahead = (int64_t)o->num_workers * (o->prefetch ? o->prefetch : 2);
  l->process = getpid();
  l->home = situ_get_default_device();
  l->made_at = __builtin_return_address(0);
  situ__mutex_init(&l->lock);
  pthread_cond_init(&l->work, NULL);
  pthread_cond_init(&l->ready, NULL);
  l->order = situ__calloc((size_t)samples + 1, sizeof *l->order);
  if (!l->order) situ__fail(SITU_E_NOMEM, op, "no memory for the order of %lld samples", (long long)samples);
  for (int64_t i = 0; l->order && i < l->samples; i++) l->order[i] = i;
  if (l->order && (o->num_workers == 0 || start_workers(l))) return l;
  situ_data_loader_free(l);
  return NULL;
}

void situ_data_loader_free(situ_data_loader *loader) {
  if (!loader || !is_loader(loader) || !situ__alone_begin(&loader->alone, "data_loader_free", "this loader")) return;
  if (loader->process == getpid()) { /* a forked child has no workers */
    situ__mutex_lock(&loader->lock);
    loader->stop = true;
    end_epoch(loader);
    pthread_cond_broadcast(&loader->work);
    situ__mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->workers; i++) pthread_join(loader->threads[i], NULL);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->work);
  }
  situ__mutex_destroy(&loader->lock);
  situ_tree_free(loader->current);
  situ__free(loader->threads);
  situ__free(loader->ring);
  situ__free(loader->order);
  situ__handle_free(loader, sizeof *loader, NULL);
}
