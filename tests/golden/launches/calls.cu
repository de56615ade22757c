#include <cstdio>
// Functions called through a table by threads that part, and what printf prints of some of them
typedef int (*Step)(int, int*);
__device__ __noinline__ int triple(int x, int* count) { *count += 1; return 3 * x; }
__device__ __noinline__ int halve(int x, int* count) { *count += 2; return x / 2; }
__device__ __noinline__ int both(int x, int* count) { int y = triple(x, count); return y ^ halve(x, count); }
__device__ Step steps[3] = {triple, halve, both};
extern "C" __global__ void calls(const int* x, int* d, int rounds) {
  int value = x[threadIdx.x], count = 0;
  for (int i = 0; i < rounds; ++i) value = steps[(unsigned)(value + i) % 3](value, &count);
  d[2 * threadIdx.x] = value;
  d[2 * threadIdx.x + 1] = count;
  if (threadIdx.x % 20 == 0) printf("%3d: %d calls, %+.3f %s %5.1e|%-6u|%06x|%c|%lld%%\n", threadIdx.x, count, value / 7.0, count > 9 ? "many" : "few", value * 1e3, count, value, 'a' + count, (long long)value << 20);
}
