// Counts where each person's test item ranks, a block of threads for each person:
// sottovoce.simulation.evaluation.kernels.

__device__ void count_rank(const Setup *s, Int n, int *counts, bool full) {
    Int row = s->begin + n;
    int test = s->tests[row];
    if (threadIdx.x == 0) counts[0] = counts[1] = 0;
    __syncthreads();
    if (test < 0) return;
    const float *x = s->X + n * FACTORS;
    float own = compute_score(x, s->V + (Int)test * FACTORS);
    int better = 0, ties = 0;
    Int many = full ? s->n_items : s->n_candidates;
    for (Int c = threadIdx.x; c < many; c += blockDim.x) {
        Int item = full ? c : (Int)s->candidates[row * s->n_candidates + c];
        if (item < 0) continue;
        float other = compute_score(x, s->V + item * FACTORS);
        better += other > own;
        ties += other == own;
    }
    // Touched items do not count, and the test item ties with itself.
    if (full) {
        for (Int t = s->indptr[row] + threadIdx.x; t < s->indptr[row + 1]; t += blockDim.x) {
            float other = compute_score(x, s->V + (Int)s->indices[t] * FACTORS);
            better -= other > own;
            ties -= other == own;
        }
        ties -= threadIdx.x == 0;
    }
    if (better) atomicAdd(counts, better);
    if (ties) atomicAdd(counts + 1, ties);
}

extern "C" __global__ void rank_rows(const Setup *s) {
    __shared__ int counts[2];
    for (Int n = blockIdx.x; n < s->end - s->begin; n += gridDim.x) {
        count_rank(s, n, counts, s->n_candidates == 0);
        __syncthreads();
        if (threadIdx.x < 2) s->ranks[2 * (s->begin + n) + threadIdx.x] = counts[threadIdx.x];
        __syncthreads();
    }
}
