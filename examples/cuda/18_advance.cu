// The simulation's own kernels, in groups of 64. SPDX-License-Identifier: MIT

// A step of upwind advection on a ring of n cells, at `speed` cells a step. `next` has two more cells at each end,
// which repeat those of the other end.
extern "C" __global__ void advance(float *next, const float *field, int n, float speed) {
  const int at = (int)(blockIdx.x * 64 + threadIdx.x), cell = (at - 2 + n) % n;
  if (at < n + 4) next[at] = field[2 + cell] - speed * (field[2 + cell] - field[2 + (cell + n - 1) % n]);
}

// The exact solution: a wave that moves.
extern "C" __global__ void solve(float *field, int n, float distance) {
  const int at = (int)(blockIdx.x * 64 + threadIdx.x);
  if (at < n + 4) field[at] = sinf(4 * 6.2831853f * ((float)(at - 2) - distance) / (float)n);
}
