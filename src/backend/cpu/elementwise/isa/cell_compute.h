/* Loops over the cells of kernels/cell.h for one compute type, T. cell.c includes this once for each type, between
   definitions of T and TNAME.
   SPDX-License-Identifier: MIT */
#include "kernels/floats.h"
#include "kernels/cell.h"

static void FN(lstm_loop)(int64_t n, void *const *in, void *const *out) {
  const T *pi = in[0], *pf = in[1], *pg = in[2], *po = in[3];
  const T *hi = in[4], *hf = in[5], *hg = in[6], *ho = in[7], *pc = in[8];
  T *qi = out[0], *qf = out[1], *qg = out[2], *qo = out[3], *qc = out[4], *qh = out[5];
  /* Two loops: in one, each element would wait for its tanh(c), and the processor sees less than two of them ahead. */
  INDEPENDENT
  for (int64_t e = 0; e < n; e++) {
    T i = pi[e] + hi[e], f = pf[e] + hf[e], g = pg[e] + hg[e], o = po[e] + ho[e], c = pc[e];
    FN(lstm_gates)(&i, &f, &g, &o, &c);
    qi[e] = i, qf[e] = f, qg[e] = g, qo[e] = o, qc[e] = c;
  }
  INDEPENDENT
  for (int64_t e = 0; e < n; e++) qh[e] = qo[e] * tanh(qc[e]);
}

static void FN(lstm_grad_loop)(int64_t n, void *const *in, void *const *out) {
  const T *pi = in[0], *pf = in[1], *pg = in[2], *po = in[3], *pc = in[4], *pn = in[5], *ph = in[6], *pd = in[7];
  T *qi = out[0], *qf = out[1], *qg = out[2], *qo = out[3], *qc = out[4];
  INDEPENDENT
  for (int64_t e = 0; e < n; e++) {
    T i = pi[e], f = pf[e], g = pg[e], o = po[e];
    const T dc = FN(lstm_grad)(&i, &f, &g, &o, pc[e], pn[e], ph[e], pd[e]);
    qi[e] = i, qf[e] = f, qg[e] = g, qo[e] = o, qc[e] = dc;
  }
}

static void FN(gru_loop)(int64_t n, void *const *in, void *const *out) {
  const T *pr = in[0], *pz = in[1], *pn = in[2], *hr = in[3], *hz = in[4], *hn = in[5], *ph = in[6];
  T *qr = out[0], *qz = out[1], *qn = out[2], *qk = out[3], *qh = out[4];
  INDEPENDENT
  for (int64_t e = 0; e < n; e++) {
    T r = pr[e], z = pz[e], fresh = pn[e];
    const T h = FN(gru)(&r, &z, &fresh, hr[e], hz[e], hn[e], ph[e]);
    qr[e] = r, qz[e] = z, qn[e] = fresh, qk[e] = hn[e], qh[e] = h;
  }
}

static void FN(gru_grad_loop)(int64_t n, void *const *in, void *const *out) {
  const T *pr = in[0], *pz = in[1], *pn = in[2], *pk = in[3], *ph = in[4], *pd = in[5], *py = in[6];
  T *qr = out[0], *qz = out[1], *qn = out[2], *kr = out[3], *kz = out[4], *kn = out[5], *qh = out[6];
  INDEPENDENT
  for (int64_t e = 0; e < n; e++) {
    T r = pr[e], z = pz[e], fresh = pn[e], kept = pk[e];
    const T dh = FN(gru_grad)(&r, &z, &fresh, &kept, ph[e], pd[e] + py[e]);
    qr[e] = r, qz[e] = z, qn[e] = fresh, kr[e] = r, kz[e] = z, kn[e] = kept, qh[e] = dh;
  }
}

#undef T
#undef TNAME
