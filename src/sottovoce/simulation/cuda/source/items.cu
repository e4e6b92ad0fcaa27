// What the server does with a model: its rows in the blocks of `loudest`, and the next one.

// H along one block of items, for one factor: butterflies from the lowest bit.
__device__ void transform(double *values, Int size) {
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

// sottovoce.mechanism.blocks.Blocks.compute_item_rows, F x R.
extern "C" __global__ void fill_item_rows(const Setup *s) {
    Int start = blockIdx.x / FACTORS * s->block;
    int f = blockIdx.x % FACTORS;
    for (Int r = threadIdx.x; r < s->block; r += blockDim.x) {
        Int item = s->item_at[start + r];
        room[r] = item < 0 ? 0.0 : (double)s->signs[item] * (double)s->V[item * FACTORS + f];
    }
    transform(room, s->block);
    for (Int r = threadIdx.x; r < s->block; r += blockDim.x)
        s->item_rows[f * s->n_lines + start + r] = (float)room[r];
}

// Sums of signs by direction, back to items: whole numbers, so no order of sums matters.
extern "C" __global__ void sums_by_item(const Setup *s) {
    Int start = blockIdx.x / FACTORS * s->block;
    int f = blockIdx.x % FACTORS;
    for (Int r = threadIdx.x; r < s->block; r += blockDim.x)
        room[r] = s->sums[(start + r) * FACTORS + f];
    transform(room, s->block);
    for (Int r = threadIdx.x; r < s->block; r += blockDim.x) {
        Int item = s->item_at[start + r];
        if (item >= 0) s->wide[item * FACTORS + f] = room[r] * (double)s->signs[item];
    }
}

// The same for `coordinate`, whose directions are the entries of V.
extern "C" __global__ void sums_as_they_are(const Setup *s) {
    Int many = s->n_items * FACTORS, stride = (Int)gridDim.x * blockDim.x;
    for (Int e = (Int)blockIdx.x * blockDim.x + threadIdx.x; e < many; e += stride)
        s->wide[e] = s->sums[e];
}

// sottovoce.training.next_items: update, then the basis of the next epoch; a thread for one item.
extern "C" __global__ void next_items(const Setup *s) {
    Int stride = (Int)gridDim.x * blockDim.x;
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < s->n_items; i += stride) {
        float row[FACTORS];
        for (int f = 0; f < FACTORS; f++) {
            double estimate = s->wide[i * FACTORS + f] * s->scale;
            double value = s->fade * (double)s->V[i * FACTORS + f];
            for (Int step = 0; step < s->steps; step++)
                value = value - s->rate * (estimate + 2.0 * s->ridge * value);
            if (!(fabs(value) <= s->most_entry)) atomicAdd(s->counts + DIVERGED, 1);
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
            s->next_V[i * FACTORS + f] = fabsf(value) < LEAST_ENTRY ? 0.0f : value;
        }
    }
}
