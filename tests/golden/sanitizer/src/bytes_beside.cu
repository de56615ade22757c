// Lanes store bytes and half words that lie in the same word, and other warps read whole words behind a barrier.
extern "C" __global__ void bytes_beside(const unsigned *x, unsigned *y) {
  __shared__ __align__(16) unsigned char bytes[256];
  __shared__ __align__(16) unsigned short halves[256];
  const int i = threadIdx.x;

  bytes[i] = x[i] & 0xff;                     // @byte
  halves[(i * 77) % 256] = x[i] >> 16;        // @half
  __syncthreads();                            // @barrier
  if (i < 64) y[i] = reinterpret_cast<unsigned *>(bytes)[63 - i];   // @word
  if (i >= 128) y[i - 64] = reinterpret_cast<unsigned *>(halves)[i - 128];  // @pair
}
