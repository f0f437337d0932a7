/* A CUDA runtime without a GPU, for tests: built as libcudart.so.13, it exports the functions that the cuda backend calls and
   runs them on host memory. What a test may ask of it beside that, and how its files see each other.

   Streams are lazy: a task runs only when somebody waits for it (an event, a stream, a stream that waits for an event of
   theirs), so a missing wait shows as a wrong value. Memory lies between guards, counts against a budget and starts as
   garbage; addresses are checked. Any call can be made to fail.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CUDA_DOUBLE_H
#define SITU_CUDA_DOUBLE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUDA_DOUBLE_API __attribute__((visibility("default")))
enum { CUDA_DOUBLE_DEVICES = 4 };

typedef enum cuda_double_peers {
  CUDA_DOUBLE_PEERS_RIGHT,
  CUDA_DOUBLE_PEERS_NONE,   /* devices cannot reach each other */
  CUDA_DOUBLE_PEERS_GARBLED /* they say that they can, and then one byte of what arrives is wrong */
} cuda_double_peers;

typedef enum cuda_double_nccl {
  CUDA_DOUBLE_NCCL_HANGS, /* it never ends */
  CUDA_DOUBLE_NCCL_FAILS, /* nor does it, and NCCL says so */
} cuda_double_nccl;

/* What is there; to be set before the backend looks (peers and budget: at any time). */
typedef struct cuda_double {
  int devices, driver, runtime; /* driver: the CUDA version that it knows; 0: there is none */
  bool pools;                   /* stream-ordered allocation */
  size_t budget;                /* bytes of each device */
  cuda_double_peers peers;
  bool no_ways;       /* cuBLASLt knows no algorithm for anything */
  bool no_start;      /* and does not work with these devices */
  bool no_engines;    /* cuDNN has no engine for anything */
  bool no_handle;     /* and does not work with these devices */
  const char *beside; /* a real libcudnn.so.9, which is told everything but what is to be run (dnn.c) */
  /* The nth call from now on fails with this error (of the function of this name; "cudnn*": of those
     that begin so; NULL: of any). 0: none. */
  const char *fail_name;
  long fail_nth;
  cudaError_t fail_error;
  bool fail_sticky; /* and every later call on its device */
  /* The nth task from now on that runs on this device makes this error stick to it. */
  int break_device;
  long break_nth;
  cudaError_t break_error;
  int nccl_version;
  /* What happens to the nth transfer from now on that NCCL enqueues on this device. */
  int nccl_device;
  long nccl_nth;
  cuda_double_nccl nccl_fault;
  /* Counted. */
  long calls;   /* of functions that can fail */
  long failed;  /* of them, as asked for */
  long kernels; /* launched */
  long peer_copies;
  long trims;                /* of memory pools */
  long waits;                /* of the host, for an event or a stream */
  long host_copies;          /* to or from its memory */
  long pending;              /* tasks that nobody has waited for */
  long heuristics, products; /* of cuBLASLt: algorithms asked for, products queued */
  long lists, solved;        /* of cuDNN: engines asked for, problems queued */
  long carried;              /* by NCCL: transfers */
  /* What is alive now. Memory that was freed behind queued work lives until that has run. */
  long blocks, pinned, streams, events, pools_open, libraries;
  long graphs;             /* captured or made */
  long replays;            /* launched */
  long described, started; /* descriptors of cuBLASLt and cuDNN, handles of cuBLASLt */
  long handles;            /* of cuDNN */
  long ranks;              /* communicators of NCCL */
  size_t bytes[CUDA_DOUBLE_DEVICES];
  long (*orphans)(void); /* descriptors of cuDNN that no plan needs; NULL: it was not opened */
} cuda_double;

CUDA_DOUBLE_API cuda_double *cuda_double_state(void);

/* ---- among its files ------------------------------------------------------------------------ */

/* One lock for everything; begin takes it, counts the call, and says whether it is to fail; end lets go. */
cudaError_t double_begin(const char *name);
cudaError_t double_end(cudaError_t error);
int double_device(void); /* this thread's */
/* Lets other threads in for a moment. */
void double_pause(void);
/* From now on every call on this device fails. */
void double_stick(int device, cudaError_t error);
cudaError_t double_stuck(int device);
#define BEGIN_ANYWHERE(name)                 \
  do {                                       \
    cudaError_t asked_ = double_begin(name); \
    if (asked_) return double_end(asked_);   \
  } while (0)
#define BEGIN(name)                                     \
  do {                                                  \
    BEGIN_ANYWHERE(name);                               \
    cudaError_t stuck_ = double_stuck(double_device()); \
    if (stuck_) return double_end(stuck_);              \
  } while (0)

/* ---- memory (memory.c) ---- */
typedef enum double_kind { DOUBLE_HOST, DOUBLE_PINNED, DOUBLE_DEVICE } double_kind;
typedef struct double_block {
  struct double_block *next;
  char *data;
  size_t bytes;
  int device; /* -1: pinned */
  bool freed; /* behind queued work that is not done */
} double_block;
/* The block that all of these bytes lie in; NULL: ordinary memory of the host. *bad: they begin in a block and end outside. */
double_block *double_find(const void *data, size_t bytes, bool *bad);
void double_release(double_block *block);

/* ---- streams (stream.c) ---- */
typedef enum double_task_kind {
  DOUBLE_COPY,
  DOUBLE_SET,
  DOUBLE_RECORD,
  DOUBLE_WAIT,
  DOUBLE_FREE,
  DOUBLE_KERNEL,
  DOUBLE_CALL
} double_task_kind;
typedef struct double_task {
  struct double_task *next;
  double_task_kind kind;
  size_t more; /* bytes behind it */
  void *to;
  const void *from;
  size_t bytes;
  int value; /* of a SET; a COPY garbles if it is not 0 */
  struct CUevent_st *event;
  struct CUstream_st *recorded_in; /* where what a WAIT waits for is queued */
  long ticket;
  double_block *block;
  const char *kernel;
  unsigned groups, lanes;
  void *argument[32];                 /* of a kernel: behind the task itself */
  void (*call)(const void *payload);  /* of a CALL, whose payload lies behind the task */
  bool (*ready)(const void *payload); /* of a CALL: whether it can be run now; NULL: always */
} double_task;
int double_stream_device(cudaStream_t stream);
/* A task with `more` bytes behind it, queued. */
double_task *double_queue(cudaStream_t stream, double_task_kind kind, size_t more);
void double_run_all(cudaStream_t stream);
/* All of a device's streams. */
void double_run_device(int device);
/* ---- graphs (graph.c) ---- */
/* What is queued on a stream between the begin and the end of a capture. */
typedef struct CUgraph_st {
  int device, owners; /* itself and what was made of it */
  bool spoilt;        /* something was asked for that cannot be captured */
  double_task *first, **last;
  double_block *block[64]; /* allocated in it; to be freed in it */
  int blocks;
} double_graph;
/* That is being captured; NULL: nothing is. */
double_graph **double_capture(cudaStream_t stream);
/* What a stream cannot do while it is captured: waiting, and meeting others. */
#define NOT_CAPTURED(stream)                                          \
  do {                                                                \
    double_graph *graph_ = *double_capture(stream);                   \
    if (graph_) graph_->spoilt = true;                                \
    if (graph_) return double_end(cudaErrorStreamCaptureUnsupported); \
  } while (0)

/* Runs a kernel; in launch.c. */
bool double_run_kernel(const double_task *task);

#endif
