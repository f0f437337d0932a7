/* NCCL, as far as the backend uses it. Its types are declared here, so that no header of it is needed to build; values
   and layouts are those of nccl.h since 2.14, which tests/distributed/comm/cuda_nccl.c compares where that header is
   there. SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CUDA_NCCL_H
#define SITU_BACKEND_CUDA_NCCL_H

#include "backend/cuda/cuda.h"
#include "situ/sys/comm_device.h"

typedef struct situ__nccl_comm situ__nccl_comm;
typedef struct situ__nccl_id {
  char bytes[SITU_COMM_ID];
} situ__nccl_id;

/* The head of ncclConfig_t, which later versions take by its size. */
typedef struct situ__nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking;
  int clusters; /* left to NCCL */
} situ__nccl_config;

enum { SITU__NCCL_LEAST = 21400, SITU__NCCL_MAGIC = (int)0xcafebeef, SITU__NCCL_UNSET = INT32_MIN };
enum { SITU__NCCL_SUCCESS = 0, SITU__NCCL_INVALID_USAGE = 5, SITU__NCCL_IN_PROGRESS = 7 }; /* ncclResult_t */
enum { SITU__NCCL_SUM = 0, SITU__NCCL_MAX = 2, SITU__NCCL_MIN = 3 };                       /* ncclRedOp_t */
enum {                                                                                     /* ncclDataType_t */
       SITU__NCCL_INT8 = 0,
       SITU__NCCL_UINT8 = 1,
       SITU__NCCL_INT32 = 2,
       SITU__NCCL_INT64 = 4,
       SITU__NCCL_FLOAT32 = 7,
       SITU__NCCL_FLOAT64 = 8
};

/* All of its functions that the backend calls; enums are ints. */
#define SITU__NCCL(ROW)                                                                                           \
  ROW(int, GetVersion, (int *version))                                                                            \
  ROW(int, GetUniqueId, (situ__nccl_id * id))                                                                     \
  ROW(const char *, GetErrorString, (int result))                                                                 \
  ROW(const char *, GetLastError, (situ__nccl_comm * comm))                                                       \
  ROW(int, CommInitRankConfig,                                                                                    \
      (situ__nccl_comm * *comm, int size, situ__nccl_id id, int rank, situ__nccl_config *config))                 \
  ROW(int, CommGetAsyncError, (situ__nccl_comm * comm, int *result))                                              \
  ROW(int, CommFinalize, (situ__nccl_comm * comm))                                                                \
  ROW(int, CommDestroy, (situ__nccl_comm * comm))                                                                 \
  ROW(int, CommAbort, (situ__nccl_comm * comm))                                                                   \
  ROW(int, GroupStart, (void))                                                                                    \
  ROW(int, GroupEnd, (void))                                                                                      \
  ROW(int, AllReduce,                                                                                             \
      (const void *send, void *receive, size_t count, int type, int op, situ__nccl_comm *comm, cudaStream_t s))   \
  ROW(int, ReduceScatter,                                                                                         \
      (const void *send, void *receive, size_t count, int type, int op, situ__nccl_comm *comm, cudaStream_t s))   \
  ROW(int, AllGather,                                                                                             \
      (const void *send, void *receive, size_t count, int type, situ__nccl_comm *comm, cudaStream_t s))           \
  ROW(int, Broadcast,                                                                                             \
      (const void *send, void *receive, size_t count, int type, int root, situ__nccl_comm *comm, cudaStream_t s)) \
  ROW(int, Send, (const void *send, size_t count, int type, int peer, situ__nccl_comm *comm, cudaStream_t s))     \
  ROW(int, Recv, (void *receive, size_t count, int type, int peer, situ__nccl_comm *comm, cudaStream_t s))

typedef struct situ__nccl_table {
#define ROW(result, name, parameters) result(*name) parameters;
  SITU__NCCL(ROW)
#undef ROW
} situ__nccl_table;

/* ---- a rank: the engine's state -------------------------------------------------------------- */

typedef enum situ__nccl_stage { SITU__NCCL_WAITING, SITU__NCCL_ENQUEUING, SITU__NCCL_RUNNING } situ__nccl_stage;

typedef struct situ__nccl_flight {
  struct situ__nccl_flight *next; /* among those that wait */
  situ_comm_transfer what;
  situ__nccl_stage stage;
  cudaEvent_t before, after; /* the device's work when it was marked; its own end */
} situ__nccl_flight;

typedef struct situ__nccl_member {
  int index, rank, size;
  const situ__nccl_table *nccl;
  situ__nccl_comm *comm; /* NULL: aborted */
  cudaStream_t stream;
  situ__nccl_flight *waiting, **last;
  situ__nccl_flight *enqueuing; /* NCCL is at it; NULL: at none */
} situ__nccl_member;

enum { SITU__NCCL_PATIENCE = 1000 }; /* milliseconds in which NCCL's kernels see an abort, and the ranks leave */

/* NCCL's words for a call that it has refused. Returns SITU_E_COMM. (nccl.c) */
situ_status situ__nccl_report(const situ__nccl_member *m, const char *call, int result, situ_comm_report *report);

/* Slots of the engine (nccl_join.c). */
situ_status situ__nccl_identify(int index, unsigned char id[SITU_COMM_ID]);
situ_status situ__nccl_join(int index, const unsigned char id[SITU_COMM_ID], int rank, int size, void **state);
void situ__nccl_release(void *state, bool failed);
/* All transfers end, whatever they have done. */
void situ__nccl_abort(situ__nccl_member *m);
void situ__nccl_pause(void);

/* Opens libnccl.so.2 at the first call. Returns NULL after recording an error of op, which says what is missing.
   (nccl_open.c) */
const situ__nccl_table *situ__nccl_open(const char *op);

#endif
