/* Data: datasets, a data loader that batches and shuffles on worker threads, CSV and IDX files.
   Threads: a loader that another thread is using is refused; a batch lives until the next call (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_DATA_H
#define SITU_DATA_H

#include "nn.h"
#include "progress.h"
#include "random.h"
#include "tree.h"

SITU_BEGIN

/* ---- data sets ---------------------------------------------------------------------------- */

typedef struct situ_dataset situ_dataset;

/** The methods of a kind of dataset. A custom dataset is a struct that begins with situ_dataset, and one of these. */
typedef struct situ_dataset_type {
  const char *name;
  size_t size; /**< sizeof the whole struct */
  /** Number of samples; the same at every call. */
  int64_t (*length)(situ_dataset *self);
  /** The index-th sample, a tree of tensors, which the caller frees; NULL on error. Worker threads call it
      concurrently, each inside its own no_grad scope. Random numbers should depend on the index alone:
      situ_generator_seeded(index). */
  situ_tree *(*get)(situ_dataset *self, int64_t index);
  /** A whole batch, already stacked; NULL: get is called for each sample, and the samples are stacked. */
  situ_tree *(*get_batch)(situ_dataset *self, const int64_t *indices, int64_t count);
  /** Frees the resources of the fields, not the struct; may be NULL. */
  void (*release)(situ_dataset *self);
} situ_dataset_type;

struct situ_dataset {
  uint32_t head; /**< marks a live dataset: situ_dataset_alloc sets it */
  const situ_dataset_type *type;
};

/** A zeroed struct of type->size bytes with its type set; NULL on error. */
SITU_API situ_dataset *situ_dataset_alloc(const situ_dataset_type *type);
/** Calls release and frees the struct. NULL is fine. */
SITU_API void situ_dataset_free(situ_dataset *dataset);
/** Number of samples; -1 after recording an error: for NULL, and for a dataset whose length is negative. */
SITU_API int64_t situ_dataset_length(situ_dataset *dataset);
/** The index-th sample; the caller frees it. An index out of range is SITU_E_INDEX. */
SITU_API situ_tree *situ_dataset_get(situ_dataset *dataset, int64_t index);

/** torch.utils.data.TensorDataset: sample i has row i of every tensor, in a tree of the same structure. All must have
    the same first dimension. Takes ownership of the tree, also when the call fails. */
SITU_API situ_dataset *situ_tensor_dataset(situ_tree *tensors);
/** torch.utils.data.Subset: the listed samples (the list is copied) of a dataset, which must outlive it. */
SITU_API situ_dataset *situ_subset(situ_dataset *dataset, const int64_t *indices, int64_t count);
/** torch.utils.data.random_split into two: *first gets `count` samples in a random order, *second the rest. NULL
    generator: the default one. */
SITU_API SITU_CHECKED situ_status situ_random_split(situ_dataset *dataset, int64_t count, situ_generator *generator,
                                                    situ_dataset **first, situ_dataset **second);

/* ---- samplers ------------------------------------------------------------------------------- */

/** The order of the samples in an epoch. A generator that is given must outlive the sampler; NULL: the default one.
    Batches are made by the loader (torch's BatchSampler: batch_size and drop_last). */
typedef struct situ_sampler situ_sampler;

/** torch.utils.data.SequentialSampler: 0, 1, ... */
SITU_API situ_sampler *situ_sequential_sampler(situ_dataset *dataset);

typedef struct situ_random_sampler_options {
  bool replacement;    /**< draw each index from all */
  int64_t num_samples; /**< in an epoch; 0: the dataset's length. More are drawn from further permutations */
  situ_generator *generator;
} situ_random_sampler_options;
/** torch.utils.data.RandomSampler. */
SITU_API situ_sampler *situ_random_sampler(situ_dataset *dataset, const situ_random_sampler_options *options);
/** torch.utils.data.SubsetRandomSampler: the listed indices, which are copied, in a random order. */
SITU_API situ_sampler *situ_subset_random_sampler(const int64_t *indices, int64_t count, situ_generator *generator);
/** torch.utils.data.WeightedRandomSampler: num_samples indices below count, each drawn with a probability in proportion
    to its weight. Weights are at least 0, finite, need not sum to 1, and are copied. torch's default replacement is
    true; without it num_samples can be at most the number of weights above 0. */
SITU_API situ_sampler *situ_weighted_random_sampler(const double *weights, int64_t count, int64_t num_samples,
                                                    bool replacement, situ_generator *generator);

typedef struct situ_distributed_sampler_options {
  int64_t num_replicas; /**< required: number of processes */
  int64_t rank;         /**< of this process, from 0 */
  bool no_shuffle;      /**< torch's shuffle=False */
  uint64_t seed;        /**< the same in all processes */
  bool drop_last;       /**< leave out the last samples instead of repeating the first, so that all have equally many */
} situ_distributed_sampler_options;
/** torch.utils.data.distributed.DistributedSampler: every num_replicas-th sample of an order that depends on seed and
    epoch only. */
SITU_API situ_sampler *situ_distributed_sampler(situ_dataset *dataset, const situ_distributed_sampler_options *options);
/** The epoch that the next draw is for. Call it before each epoch; otherwise all have the same order. SITU_E_ARG for
    another kind of sampler. */
SITU_API SITU_CHECKED situ_status situ_distributed_sampler_set_epoch(situ_sampler *sampler, int64_t epoch);

/** Number of indices per epoch; -1 after recording an error. */
SITU_API int64_t situ_sampler_length(const situ_sampler *sampler);
/** Writes the indices of an epoch; SITU_E_ARG if capacity is below situ_sampler_length. The loader calls it at the
    beginning of each epoch. */
SITU_API SITU_CHECKED situ_status situ_sampler_draw(situ_sampler *sampler, int64_t *indices, int64_t capacity);
/** Frees a sampler. NULL is fine. */
SITU_API void situ_sampler_free(situ_sampler *sampler);

/* ---- the loader --------------------------------------------------------------------------- */

typedef struct situ_data_loader situ_data_loader;

typedef struct situ_data_loader_options {
  int64_t batch_size;        /**< 0: 1 */
  bool shuffle;              /**< a new order each epoch, drawn from generator */
  situ_sampler *sampler;     /**< the order of the samples, in place of shuffle; must outlive the loader. NULL: none */
  bool drop_last;            /**< leave out a last batch that is not full */
  int num_workers;           /**< threads that prepare batches; 0: the caller's thread does */
  int prefetch;              /**< batches that each worker prepares ahead (torch's prefetch_factor); 0: 2 */
  situ_generator *generator; /**< must outlive the loader; NULL: the default one */
  situ_device device;        /**< device of the batches; {0}: that of their samples */
  situ_device pin_memory;    /**< the worker copies batches into memory that this device copies directly, on cpu
                                  (situ_pin_memory), and from there to `device`, if that is set; {0}: it does not */
  /** Makes a batch of samples, on a worker thread; NULL: situ_default_collate. */
  situ_tree *(*collate)(situ_tree *const *samples, int64_t count, void *payload);
  void *payload; /**< passed to collate */
} situ_data_loader_options;

/** torch.utils.data.DataLoader. The batches and their order are the same for any number of workers.
    The dataset must outlive the loader. NULL on error. */
SITU_API situ_data_loader *situ_data_loader_new(situ_dataset *dataset, const situ_data_loader_options *options);
/** Stops the workers and frees the loader; also in the middle of an epoch. NULL is fine. */
SITU_API void situ_data_loader_free(situ_data_loader *loader);
/** Number of batches per epoch. */
SITU_API int64_t situ_data_loader_length(const situ_data_loader *loader);

/** The next batch, owned by the loader: it lives until the next call. NULL at the end of an epoch (the next call begins
    another) and on error; situ_error() tells them apart:

      const situ_tree *batch;
      while ((batch = situ_data_loader_next(loader)))
        step(situ_tree_tensor_at(batch, 0), situ_tree_tensor_at(batch, 1));
      if (situ_error()) return 1;

    A worker's error is returned here in place of its batch, and ends the epoch. */
SITU_API const situ_tree *situ_data_loader_next(situ_data_loader *loader);

/** torch.optim.swa_utils.update_bn: computes the running statistics of all batch norms in model anew, for an averaged
    model (situ_optim_averaged_model), as equal averages over one epoch of loader. model is called with its batches, or
    with the first tensor of each, in training mode. device: where these are copied to; {0}: they are not. Batch norms
    without running statistics are left alone; without any, the loader is not read. On error the statistics are as
    before. */
SITU_API SITU_CHECKED situ_status situ_optim_update_bn(situ_data_loader *loader, situ_nn_module *model,
                                                       situ_device device);

/** torch.utils.data.default_collate: a tree of the samples' structure, with their tensors stacked along a new first
    dimension. All must have the same structure and shapes. The caller frees the tree. */
SITU_API situ_tree *situ_default_collate(situ_tree *const *samples, int64_t count);

/* ---- files -------------------------------------------------------------------------------- */

typedef struct situ_csv_options {
  char delimiter;   /**< 0: ',' */
  int skip_lines;   /**< lines before the first row: 1 if there is a header */
  situ_dtype dtype; /**< default f32; an integer dtype accepts whole numbers in its range */
  situ_device device;
} situ_csv_options;
/** Reads numbers, one row per line, into a 2-D tensor. Every row must have as many fields as the first; an empty field,
    text or a number out of the dtype's range is SITU_E_FORMAT with its line and column. */
SITU_API situ_tensor *situ_csv_load(const char *path, const situ_csv_options *options);

/** Reads an IDX file (MNIST's "train-images-idx3-ubyte", unpacked): a tensor of the file's dtype and shape. */
SITU_API situ_tensor *situ_idx_load(const char *path, situ_device device);

SITU_END
#endif
