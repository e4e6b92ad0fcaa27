// User vectors: sottovoce.model.user_vectors, a block of threads for one person.
//
// The right side of the equations is one more row of their lower triangle: that of a last entry of
// every v, which is 1. So the sums, and the first half of the solution, are those of the triangle.

#define SIDE (FACTORS + 1)
#define TRIANGLE (SIDE * (SIDE + 1) / 2)
#define PAIRS ((SIDE + 1) / 2)  // rows of the triangle, two by two
#define TILES (PAIRS * (PAIRS + 1) / 2)

// G = V^T V, one row of it a block; V is added item after item. All threads multiply, then each
// adds up the products of one entry.
extern "C" __global__ void gram(const Setup *s) {
    double *products = room;
    int f = blockIdx.x;
    for (int base = 0; base < FACTORS; base += blockDim.x) {
        int wide = min((int)blockDim.x, FACTORS - base);
        double total = 0;
        for (Int start = 0; start < s->n_items; start += ADDED) {
            int n = (int)min((Int)ADDED, s->n_items - start);
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

__device__ int lower_at(int i, int j) { return i * (i + 1) / 2 + j; }

// What the threads of one person share.
struct Equations {
    double lower[TRIANGLE];
    double rows[ROWS * 2 * PAIRS];
    int2 at[TRIANGLE];  // row and column of each entry
    int remembered[ROWS];
    Int next;
};

__device__ void number_entries(Equations *q) {
    for (int e = threadIdx.x; e < TRIANGLE; e += blockDim.x) {
        int row = 0;
        while (lower_at(row + 1, 0) <= e) row++;
        q->at[e] = make_int2(row, e - lower_at(row, 0));
    }
    __syncthreads();
}

// `sum v v^T`, item after item; each thread has two by two entries of it.
__device__ void add_items(const Setup *s, const History &own, Equations *q) {
    for (int base = 0; base < TILES; base += blockDim.x) {
        int tile = base + threadIdx.x;
        int2 at = q->at[tile < TILES ? tile : 0];
        double s00 = 0, s01 = 0, s10 = 0, s11 = 0;
        for (Int start = 0; start < own.size; start += ROWS) {
            int n = (int)min((Int)ROWS, own.size - start);
            __syncthreads();
            for (int e = threadIdx.x; e < n * 2 * PAIRS; e += blockDim.x) {
                int t = e / (2 * PAIRS), f = e % (2 * PAIRS);
                Int item = s->indices[own.start + start + t];
                q->rows[e] = f < FACTORS ? (double)s->V[item * FACTORS + f] : 1.0;
                if (f == 0) q->remembered[t] = remembers(s, own, start + t);
            }
            __syncthreads();
            for (int t = 0; t < n && tile < TILES; t++) {
                if (!q->remembered[t]) continue;
                const double *down = q->rows + t * 2 * PAIRS + 2 * at.x;
                const double *across = q->rows + t * 2 * PAIRS + 2 * at.y;
                s00 += down[0] * across[0];
                s01 += down[0] * across[1];
                s10 += down[1] * across[0];
                s11 += down[1] * across[1];
            }
        }
        if (tile >= TILES) continue;
        int i = 2 * at.x, j = 2 * at.y;
        q->lower[lower_at(i, j)] = s00;
        if (j < i) q->lower[lower_at(i, j + 1)] = s01;
        if (i + 1 < SIDE) {
            q->lower[lower_at(i + 1, j)] = s10;
            q->lower[lower_at(i + 1, j + 1)] = s11;
        }
    }
    __syncthreads();
}

// Cholesky, forward and back, in the order of the reference; the vector into x.
__device__ void solve_system(const Setup *s, Equations *q, float *x) {
    double *lower = q->lower, *right = q->lower + lower_at(FACTORS, 0);
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
        double root = sqrt(lower[lower_at(k, k)]);
        __syncthreads();
        if (threadIdx.x == 0) lower[lower_at(k, k)] = root;
        for (int i = k + 1 + threadIdx.x; i < SIDE; i += blockDim.x) lower[lower_at(i, k)] /= root;
        __syncthreads();
        int left = SIDE - k - 1;
        for (int e = threadIdx.x; e < left * (left + 1) / 2; e += blockDim.x) {
            int i = k + 1 + q->at[e].x, j = k + 1 + q->at[e].y;
            lower[lower_at(i, j)] -= lower[lower_at(i, k)] * lower[lower_at(j, k)];
        }
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    bool usable = true;
    for (int i = FACTORS - 1; i >= 0; i--) {
        double value = right[i];
        for (int k = i + 1; k < FACTORS; k++) value -= lower[lower_at(k, i)] * right[k];
        right[i] = value / lower[lower_at(i, i)];
        x[i] = (float)right[i];
        usable = usable && fabsf(x[i]) <= MOST_USER_ENTRY;
    }
    for (int i = 0; i < FACTORS && !usable; i++) x[i] = 0;
}

// Of those whose reports depend on it. Vectors lie by place, so that those of all people in the
// data serve whoever takes part.
extern "C" __global__ void solve_looking(const Setup *s) {
    Equations *q = (Equations *)room;
    Int many = s->counts[LOOKING], n;
    number_entries(q);
    while ((n = next_of(s->counts + NEXT_SOLVED, many, &q->next)) >= 0) {
        Int place = s->looking[n];
        add_items(s, history_of(s, s->begin + place, s->made), q);
        solve_system(s, q, s->X + place * FACTORS);
    }
}

// Of everybody in the data, by their row, from `begin` to `end`.
extern "C" __global__ void solve_rows(const Setup *s) {
    Equations *q = (Equations *)room;
    Int many = s->end - s->begin, n;
    number_entries(q);
    while ((n = next_of(s->counts + NEXT_SOLVED, many, &q->next)) >= 0) {
        Int row = s->begin + n;
        add_items(s, History{s->indptr[row], s->indptr[row + 1] - s->indptr[row], row, false}, q);
        solve_system(s, q, s->X + n * FACTORS);
    }
}
