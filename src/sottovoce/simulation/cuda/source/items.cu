// The computations of the server: the item rows of `loudest`, the estimate and the next V.

// Applies the Walsh transform to one block of items for one factor, from the lowest bit up.
__device__ void apply_walsh(double *values, Int size) {
    for (Int half = 1; half < size; half *= 2) {
        __syncthreads();
        for (Int w = threadIdx.x; w < size / 2; w += blockDim.x) {
            Int r = w / half * 2 * half + w % half;
            double first = values[r], second = values[r + half];
            values[r] = first + second;
            values[r + half] = first - second;
        }
    }
    __syncthreads();
}

// Fills F x R item rows: `Blocks.compute_item_rows` of sottovoce.core.blocks.
extern "C" __global__ void fill_item_rows(const Setup *s) {
    Int start = blockIdx.x / FACTORS * s->block;
    int f = blockIdx.x % FACTORS;
    for (Int r = threadIdx.x; r < s->block; r += blockDim.x) {
        Int item = s->item_at[start + r];
        block_memory[r] =
            item < 0 ? 0.0 : (double)s->signs[item] * (double)s->V[item * FACTORS + f];
    }
    apply_walsh(block_memory, s->block);
    for (Int r = threadIdx.x; r < s->block; r += blockDim.x)
        s->item_rows[f * s->n_lines + start + r] = (float)block_memory[r];
}

// Turns sums of signs by direction into sums by item and factor. They are whole numbers, so the
// order of additions does not matter.
extern "C" __global__ void sum_by_item(const Setup *s) {
    Int start = blockIdx.x / FACTORS * s->block;
    int f = blockIdx.x % FACTORS;
    for (Int r = threadIdx.x; r < s->block; r += blockDim.x)
        block_memory[r] = s->sums[(start + r) * FACTORS + f];
    apply_walsh(block_memory, s->block);
    for (Int r = threadIdx.x; r < s->block; r += blockDim.x) {
        Int item = s->item_at[start + r];
        if (item >= 0) s->wide[item * FACTORS + f] = block_memory[r] * (double)s->signs[item];
    }
}

// Copies the sums of `coordinate`, where each direction is an item and a factor.
extern "C" __global__ void copy_sums(const Setup *s) {
    Int many = s->n_items * FACTORS, stride = (Int)gridDim.x * blockDim.x;
    for (Int e = (Int)blockIdx.x * blockDim.x + threadIdx.x; e < many; e += stride)
        s->wide[e] = s->sums[e];
}

// Rounds to bfloat16, which has 8 significant bits, ties to even; small numbers become 0:
// `round_items` of sottovoce.core.bounds. The unit is a power of two, so only rintf rounds.
__device__ float round_entry(float value) {
    if (fabsf(value) < MIN_ITEM_ENTRY) return 0.0f;
    int exponent;
    frexpf(value, &exponent);
    float unit = ldexpf(1.0f, exponent - 8);
    return rintf(value / unit) * unit;
}

// Computes the next V, rotated to the basis of the next epoch: `compute_next_items` of
// sottovoce.training. There is a thread for each item.
extern "C" __global__ void compute_next_items(const Setup *s) {
    Int stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < s->n_items; i += stride) {
        float row[FACTORS];
        for (int f = 0; f < FACTORS; f++) {
            double estimate = s->wide[i * FACTORS + f] * s->scale;
            double value = s->fade * (double)s->V[i * FACTORS + f];
            for (Int step = 0; step < s->steps; step++)
                value = value - s->rate * (estimate + 2.0 * s->ridge * value);
            if (!(fabs(value) <= s->max_entry)) atomicAdd(s->counts + DIVERGED, 1);
            row[f] = (float)value;
        }
        for (int f = 0; f < FACTORS; f++) {
            float value = row[f];
            if (s->basis) {
                double turned = (double)row[0] * s->basis[f];
                for (int g = 1; g < FACTORS; g++)
                    turned = turned + (double)row[g] * s->basis[g * FACTORS + f];
                value = (float)turned;
            }
            s->next_V[i * FACTORS + f] = round_entry(value);
        }
    }
}
