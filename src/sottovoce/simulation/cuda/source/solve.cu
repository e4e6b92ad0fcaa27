// User vectors: `solve_user_vectors` of sottovoce.core, with a block of threads for each person.
//
// A last entry of 1 is appended to the vector v of every item. So the sums of the right side of the
// equations become one more row of the lower triangle of `sum v v^T`. This row is summed with the
// other rows, and the Cholesky decomposition applies the forward substitution to it.

#define SIDE (FACTORS + 1)
#define TRIANGLE (SIDE * (SIDE + 1) / 2)
#define ROW_PAIRS ((SIDE + 1) / 2)  // rows of the triangle, two by two
#define TILE_COUNT (ROW_PAIRS * (ROW_PAIRS + 1) / 2)

// Computes G = V^T V item after item, with a block of threads for each row of G. First all threads
// multiply; then each thread adds up the products of one entry of the row.
extern "C" __global__ void compute_gram(const Setup *s) {
    double *products = block_memory;
    int f = blockIdx.x;
    for (int base = 0; base < FACTORS; base += blockDim.x) {
        int wide = min((int)blockDim.x, FACTORS - base);
        double total = 0;
        for (Int start = 0; start < s->n_items; start += ROWS_PER_GRAM_STEP) {
            int n = (int)min((Int)ROWS_PER_GRAM_STEP, s->n_items - start);
            __syncthreads();
            for (int e = threadIdx.x; e < n * wide; e += blockDim.x) {
                const float *row = s->V + (start + e / wide) * FACTORS;
                products[e] = (double)row[base + e % wide] * (double)row[f];
            }
            __syncthreads();
            if (threadIdx.x >= wide) continue;
#pragma unroll 8
            for (int i = 0; i < n; i++) total += products[i * wide + threadIdx.x];
        }
        if (threadIdx.x < wide) s->G[f * FACTORS + base + threadIdx.x] = total;
    }
}

__device__ int lower_index(int i, int j) { return i * (i + 1) / 2 + j; }

// Memory that the threads of a block share, for the equations of one person.
struct Equations {
    double lower[TRIANGLE];
    double rows[ROWS_PER_STEP * 2 * ROW_PAIRS];
    int2 at[TRIANGLE];  // row and column of each entry
    int is_used[ROWS_PER_STEP];
    Int next;
};

__device__ void number_entries(Equations *q) {
    for (int e = threadIdx.x; e < TRIANGLE; e += blockDim.x) {
        int row = 0;
        while (lower_index(row + 1, 0) <= e) row++;
        q->at[e] = make_int2(row, e - lower_index(row, 0));
    }
    __syncthreads();
}

// Computes `sum v v^T` item after item. Each thread computes a tile of two by two entries.
__device__ void add_items(const Setup *s, const History &own, Equations *q) {
    for (int base = 0; base < TILE_COUNT; base += blockDim.x) {
        int tile = base + threadIdx.x;
        int2 at = q->at[tile < TILE_COUNT ? tile : 0];
        double s00 = 0, s01 = 0, s10 = 0, s11 = 0;
        for (Int start = 0; start < own.size; start += ROWS_PER_STEP) {
            int n = (int)min((Int)ROWS_PER_STEP, own.size - start);
            __syncthreads();
            for (int e = threadIdx.x; e < n * 2 * ROW_PAIRS; e += blockDim.x) {
                int t = e / (2 * ROW_PAIRS), f = e % (2 * ROW_PAIRS);
                Int item = s->indices[own.start + start + t];
                q->rows[e] = f < FACTORS ? (double)s->V[item * FACTORS + f] : 1.0;
                if (f == 0) q->is_used[t] = is_remembered(s, own, start + t);
            }
            __syncthreads();
            for (int t = 0; t < n && tile < TILE_COUNT; t++) {
                if (!q->is_used[t]) continue;
                const double *down = q->rows + t * 2 * ROW_PAIRS + 2 * at.x;
                const double *across = q->rows + t * 2 * ROW_PAIRS + 2 * at.y;
                s00 += down[0] * across[0];
                s01 += down[0] * across[1];
                s10 += down[1] * across[0];
                s11 += down[1] * across[1];
            }
        }
        if (tile >= TILE_COUNT) continue;
        int i = 2 * at.x, j = 2 * at.y;
        q->lower[lower_index(i, j)] = s00;
        if (j < i) q->lower[lower_index(i, j + 1)] = s01;
        if (i + 1 < SIDE) {
            q->lower[lower_index(i + 1, j)] = s10;
            q->lower[lower_index(i + 1, j + 1)] = s11;
        }
    }
    __syncthreads();
}

// Solves the equations by Cholesky decomposition, in the same order of operations as
// sottovoce.core, and writes the vector into x.
__device__ void solve_system(const Setup *s, Equations *q, float *x) {
    double *lower = q->lower, *right = q->lower + lower_index(FACTORS, 0);
    for (int e = threadIdx.x; e < TRIANGLE; e += blockDim.x) {
        int i = q->at[e].x, j = q->at[e].y;
        if (i == FACTORS) {
            lower[e] = (1.0 + s->alpha) * lower[e];
        } else {
            lower[e] = s->G[i * FACTORS + j] + s->alpha * lower[e];
            if (i == j) lower[e] += s->regularization;
        }
    }
    for (int k = 0; k < FACTORS; k++) {
        __syncthreads();
        double root = sqrt(lower[lower_index(k, k)]);
        __syncthreads();
        if (threadIdx.x == 0) lower[lower_index(k, k)] = root;
        for (int i = k + 1 + threadIdx.x; i < SIDE; i += blockDim.x)
            lower[lower_index(i, k)] /= root;
        __syncthreads();
        int left = SIDE - k - 1;
        for (int e = threadIdx.x; e < left * (left + 1) / 2; e += blockDim.x) {
            int i = k + 1 + q->at[e].x, j = k + 1 + q->at[e].y;
            lower[lower_index(i, j)] -= lower[lower_index(i, k)] * lower[lower_index(j, k)];
        }
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    bool usable = true;
    for (int i = FACTORS - 1; i >= 0; i--) {
        double value = right[i];
        for (int k = i + 1; k < FACTORS; k++) value -= lower[lower_index(k, i)] * right[k];
        right[i] = value / lower[lower_index(i, i)];
        x[i] = (float)right[i];
        usable = usable && fabsf(x[i]) <= MAX_USER_ENTRY;
    }
    for (int i = 0; i < FACTORS && !usable; i++) x[i] = 0;
}

// Solves the vectors of the people in `with_history`. They are stored at the same places as the
// vectors of `solve_rows`, so that reports can use either.
extern "C" __global__ void solve_with_history(const Setup *s) {
    Equations *q = (Equations *)block_memory;
    Int many = s->counts[WITH_HISTORY], n;
    number_entries(q);
    while ((n = take_next(s->counts + NEXT_SOLVED, many, &q->next)) >= 0) {
        Int place = s->with_history[n];
        add_items(s, get_history(s, s->begin + place, s->resampled), q);
        solve_system(s, q, s->X + place * FACTORS);
    }
}

// Solves the vectors of all people in rows `begin` to `end` of the data.
extern "C" __global__ void solve_rows(const Setup *s) {
    Equations *q = (Equations *)block_memory;
    Int many = s->end - s->begin, n;
    number_entries(q);
    while ((n = take_next(s->counts + NEXT_SOLVED, many, &q->next)) >= 0) {
        Int row = s->begin + n;
        add_items(s, History{s->indptr[row], s->indptr[row + 1] - s->indptr[row], row, false}, q);
        solve_system(s, q, s->X + n * FACTORS);
    }
}
