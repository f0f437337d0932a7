/* NCCL, as far as the backend uses it. Its types are declared here, so that no header of it is needed to build; values
   and layouts are those of nccl.h since 2.14, which tests/dist/cuda_nccl.c compares where that header is there.
   SPDX-License-Identifier: MIT */
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

/* Opens libnccl.so.2 at the first call. Returns NULL after recording an error of op, which says what is missing. */
const situ__nccl_table *situ__nccl_open(const char *op);

#endif
