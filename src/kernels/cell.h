/* Recurrent cells for one element of the floating type T. Included once for each T, after floats.h.
   SPDX-License-Identifier: MIT */

/* The gates before their functions become those after. c becomes the new state. */
DEVICE void FN(lstm_gates)(T *i, T *f, T *g, T *o, T *c) {
  *i = FN(logistic)(*i);
  *f = FN(logistic)(*f);
  *g = tanh(*g);
  *o = FN(logistic)(*o);
  *c = *f * *c + *i * *g;
}

/* The same; returns h. */
DEVICE T FN(lstm)(T *i, T *f, T *g, T *o, T *c) {
  FN(lstm_gates)(i, f, g, o, c);
  return *o * tanh(*c);
}

/* The gates after their functions become their gradients. Returns the gradient of c. dc, dh: of c_new and h. */
DEVICE T FN(lstm_grad)(T *i, T *f, T *g, T *o, T c, T c_new, T dh, T dc) {
  const T y = tanh(c_new), in = *i, keep = *f, fresh = *g, show = *o;
  dc = dc + dh * show * (1 - y * y);
  *i = dc * fresh * in * (1 - in);
  *f = dc * c * keep * (1 - keep);
  *g = dc * in * (1 - fresh * fresh);
  *o = dh * y * show * (1 - show);
  return dc * keep;
}

/* r, z, n: of the gates, then after their functions; hr, hz, hn: of the product with h. Returns the new h. */
DEVICE T FN(gru)(T *r, T *z, T *n, T hr, T hz, T hn, T h) {
  *r = FN(logistic)(*r + hr);
  *z = FN(logistic)(*z + hz);
  *n = tanh(*n + *r * hn);
  return *n + *z * (h - *n);
}

/* r, z, n after their functions become the gradients of the gates; hn becomes that of the product's n. Returns the
   gradient of h where it is multiplied by z. dh: of the new h. */
DEVICE T FN(gru_grad)(T *r, T *z, T *n, T *hn, T h, T dh) {
  const T reset = *r, update = *z, fresh = *n, dn = dh * (1 - update) * (1 - fresh * fresh);
  *r = dn * *hn * reset * (1 - reset);
  *z = dh * (h - fresh) * update * (1 - update);
  *n = dn;
  *hn = dn * reset;
  return dh * update;
}
