// Where each person's test item ranks: sottovoce.evaluation.kernels, a block of threads a person.

__device__ void count_rank(const Setup *s, Int n, int *found, bool full) {
    Int row = s->begin + n;
    int test = s->tests[row];
    if (threadIdx.x == 0) found[0] = found[1] = 0;
    __syncthreads();
    if (test < 0) return;
    const float *x = s->X + n * FACTORS;
    float own = score(x, s->V + (Int)test * FACTORS);
    int better = 0, ties = 0;
    Int many = full ? s->n_items : s->n_candidates;
    for (Int c = threadIdx.x; c < many; c += blockDim.x) {
        Int item = full ? c : (Int)s->candidates[row * s->n_candidates + c];
        if (item < 0) continue;
        float other = score(x, s->V + item * FACTORS);
        better += other > own;
        ties += other == own;
    }
    if (full) {  // among all that they did not touch, and the test item ties with itself
        for (Int t = s->indptr[row] + threadIdx.x; t < s->indptr[row + 1]; t += blockDim.x) {
            float other = score(x, s->V + (Int)s->indices[t] * FACTORS);
            better -= other > own;
            ties -= other == own;
        }
        ties -= threadIdx.x == 0;
    }
    if (better) atomicAdd(found, better);
    if (ties) atomicAdd(found + 1, ties);
}

extern "C" __global__ void rank_rows(const Setup *s) {
    __shared__ int found[2];
    for (Int n = blockIdx.x; n < s->end - s->begin; n += gridDim.x) {
        count_rank(s, n, found, s->n_candidates == 0);
        __syncthreads();
        if (threadIdx.x < 2) s->ranks[2 * (s->begin + n) + threadIdx.x] = found[threadIdx.x];
        __syncthreads();
    }
}
