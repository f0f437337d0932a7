/* All CUDA functions that the backend calls, in one table that is filled at run time: the module is built with the
   toolkit's headers but links none of its libraries, so that it loads on any machine and can report what is missing.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CUDA_TABLE_H
#define SITU_BACKEND_CUDA_TABLE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

/* Functions of libcudart; the types are those of the toolkit's header. */
/* clang-format off */
#define SITU__CUDART(ROW)                                                                     \
  ROW(RuntimeGetVersion) ROW(DriverGetVersion) ROW(GetDeviceCount) ROW(GetDeviceProperties)   \
  ROW(DeviceGetAttribute) ROW(GetDevice) ROW(SetDevice) ROW(GetLastError) ROW(GetErrorName)   \
  ROW(GetErrorString) ROW(StreamCreateWithFlags) ROW(StreamDestroy) ROW(StreamSynchronize)    \
  ROW(StreamWaitEvent) ROW(EventCreateWithFlags) ROW(EventDestroy) ROW(EventRecord)           \
  ROW(EventSynchronize) ROW(EventQuery) ROW(StreamQuery) ROW(Malloc) ROW(Free)                \
  ROW(MemPoolCreate) ROW(MemPoolDestroy) ROW(MemPoolSetAttribute) ROW(MemPoolTrimTo)          \
  ROW(MemPoolSetAccess) ROW(MallocFromPoolAsync) ROW(FreeAsync) ROW(HostAlloc) ROW(FreeHost)  \
  ROW(PointerGetAttributes) ROW(MemcpyAsync) ROW(MemcpyPeerAsync) ROW(MemsetAsync)            \
  ROW(DeviceCanAccessPeer) ROW(DeviceEnablePeerAccess) ROW(LibraryLoadData)                   \
  ROW(LibraryGetKernel) ROW(LaunchKernel) ROW(StreamBeginCapture) ROW(StreamEndCapture)       \
  ROW(GraphInstantiate) ROW(GraphLaunch) ROW(GraphExecDestroy) ROW(GraphDestroy)              \
  ROW(StreamGetDevice) ROW(GetDriverEntryPointByVersion)
/* clang-format on */

typedef struct situ__cuda_table {
#define ROW(name) __typeof__(&cuda##name) name;
  SITU__CUDART(ROW)
#undef ROW
} situ__cuda_table;

/* situ__cuda_open fills it; all NULL before. */
extern situ__cuda_table situ__cuda;

/* Opens the runtime and fills the table. Returns false with the reason in `why`, in one line. */
bool situ__cuda_open(char *why, size_t size);

/* Opens a library of the toolkit and looks up `count` names in it; for situ__cuda_open and for optional libraries.
   table: a struct of as many function pointers. If $SITU_CUDA_PATH (an absolute directory) is set, looks only there.
   Returns false with the reason in `why`; nothing is written to the table then. */
bool situ__cuda_bind(const char *file, const char *const *name, int count, void *table, char *why, size_t size);

#endif
