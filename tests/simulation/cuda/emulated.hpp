// A graphics card on the processor, so that the kernels can be tested without one: the threads of a
// block are threads here, blocks run one after the other.

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#define __device__ static
#define __global__
#define __shared__ static

struct Place {
    int x;
};
struct int2 {
    int x, y;
};
static int2 make_int2(int x, int y) { return {x, y}; }

static thread_local Place threadIdx, blockIdx;
static Place blockDim, gridDim;
static double *block_memory;
static std::barrier<> *everybody;

static void __syncthreads() { everybody->arrive_and_wait(); }
template <class T, class U> T atomicAdd(T *at, U value) {
    return std::atomic_ref<T>(*at).fetch_add((T)value);
}
template <class T, class U> T atomicMax(T *at, U value) {
    std::atomic_ref<T> there(*at);
    T old = there.load();
    while (old < (T)value && !there.compare_exchange_weak(old, (T)value)) {}
    return old;
}
template <class To, class From> To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To out;
    std::memcpy(&out, &value, sizeof out);
    return out;
}
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static int __popc(unsigned value) { return __builtin_popcount(value); }
static unsigned __float_as_uint(float value) { return bits_as<unsigned>(value); }
static float __uint_as_float(unsigned value) { return bits_as<float>(value); }
static long long __double_as_longlong(double value) { return bits_as<long long>(value); }
static double __longlong_as_double(long long value) { return bits_as<double>(value); }
using std::max;
using std::min;

struct Setup;

static void run_kernel(void (*kernel)(const Setup *), int blocks, int threads, long bytes,
                       const Setup *setup) {
    std::vector<double> memory(bytes / 8 + 1);
    std::barrier<> gate(threads);
    block_memory = memory.data();
    everybody = &gate;
    gridDim.x = blocks;
    blockDim.x = threads;
    std::vector<std::thread> all;
    for (int t = 0; t < threads; t++)
        all.emplace_back([=] {
            threadIdx.x = t;
            for (int block = 0; block < blocks; block++) {
                blockIdx.x = block;
                __syncthreads();
                kernel(setup);
                __syncthreads();
            }
        });
    for (std::thread &thread : all) thread.join();
}
