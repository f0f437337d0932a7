/* Joining the ranks of a communicator, and leaving them.
   SPDX-License-Identifier: MIT */
#include <string.h>
#include <time.h>

#include "backend/cuda/nccl.h"

static const char *const joining = "comm_use_nccl";

/* ---- leaving --------------------------------------------------------------------------------- */

void situ__nccl_pause(void) { (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); }

void situ__nccl_abort(situ__nccl_member *m) {
  if (m->comm) (void)m->nccl->CommAbort(m->comm);
  m->comm = NULL;
}

/* ncclCommDestroy alone could wait for a rank that never comes to it. */
static bool finalize(const situ__nccl_member *m) {
  int state = SITU__NCCL_IN_PROGRESS, result = m->nccl->CommFinalize(m->comm);
  if (result != SITU__NCCL_SUCCESS && result != SITU__NCCL_IN_PROGRESS) return false;
  for (int k = 0; k < SITU__NCCL_PATIENCE && state == SITU__NCCL_IN_PROGRESS; k++) {
    if (m->nccl->CommGetAsyncError(m->comm, &state) != SITU__NCCL_SUCCESS) return false;
    if (state == SITU__NCCL_IN_PROGRESS) situ__nccl_pause();
  }
  return state == SITU__NCCL_SUCCESS;
}

void situ__nccl_release(void *state, bool failed) {
  situ__nccl_member *m = state;
  if (m->comm && !failed && finalize(m)) {
    (void)m->nccl->CommDestroy(m->comm);
    m->comm = NULL;
  }
  situ__nccl_abort(m);
  if (m->stream) (void)situ__cuda.StreamDestroy(m->stream);
  situ__host->free(m);
}

/* ---- joining --------------------------------------------------------------------------------- */

situ_status situ__nccl_identify(int index, unsigned char id[SITU_COMM_ID]) {
  const situ__nccl_table *n = situ__nccl_open(joining);
  situ__nccl_id made;
  if (!n) return SITU_E_UNSUPPORTED;
  if (!id) return SITU_OK;
  const int result = n->GetUniqueId(&made);
  if (result != SITU__NCCL_SUCCESS)
    return situ__host->fail(SITU_E_COMM, joining, "cuda:%d: ncclGetUniqueId: %s", index, n->GetErrorString(result));
  memcpy(id, made.bytes, sizeof made.bytes);
  return SITU_OK;
}

/* On the device, which is entered. */
static situ_status connect(situ__cuda_device *d, situ__nccl_member *m, const unsigned char *id) {
  situ__nccl_config config = { sizeof config, (unsigned)SITU__NCCL_MAGIC, SITU__NCCL_LEAST, 0, SITU__NCCL_UNSET };
  situ__nccl_id known;
  situ_comm_report report;
  memcpy(known.bytes, id, sizeof known.bytes);
  const cudaError_t error = situ__cuda.StreamCreateWithFlags(&m->stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) {
    m->stream = NULL;
    return situ__cuda_fail(d, joining, "cudaStreamCreateWithFlags", error);
  }
  const int result = m->nccl->CommInitRankConfig(&m->comm, m->size, known, m->rank, &config);
  if (result == SITU__NCCL_SUCCESS || result == SITU__NCCL_IN_PROGRESS) return SITU_OK;
  (void)situ__nccl_report(m, "ncclCommInitRankConfig", result, &report);
  m->comm = NULL;
  return situ__host->fail(SITU_E_COMM, joining, "%s", report.text);
}

situ_status situ__nccl_join(int index, const unsigned char id[SITU_COMM_ID], int rank, int size, void **state) {
  const situ__nccl_table *n = situ__nccl_open(joining);
  situ_status status = SITU_E_UNSUPPORTED;
  situ__cuda_device *d = n ? situ__cuda_enter(index, joining, &status) : NULL;
  if (!d) return status;
  situ__nccl_member *m = situ__host->alloc(sizeof *m);
  if (!m) return situ__cuda_leave(d, situ__host->fail(SITU_E_NOMEM, joining, "no memory for a rank"));
  *m = (situ__nccl_member){ .index = index, .rank = rank, .size = size, .nccl = n };
  m->last = &m->waiting;
  status = connect(d, m, id);
  (void)situ__cuda_leave(d, status);
  if (status == SITU_OK) *state = m;
  else situ__nccl_release(m, true);
  return status;
}
