// `loudest`: sottovoce.mechanism.loudest, a block of threads for one person.
//
// Rows are counted in bins by the upper bits of their magnitude, which brackets the least agreement
// that is loud. Only directions within the bracket are compared exactly, in float64, where the
// product of two float32 has no rounding.

#define SHIFT 16  // a float32 without its 16 lowest bits: 128 bins for every power of two
#define MAGNITUDE 0x7FFFFFFFu
#define ENDLESS __uint_as_float(0x7F800000u)
#define BELOW (1 - 0x1p-6)  // times this a value lies at least one bin lower, roundings included
#define AHEAD 8             // numbers that a thread reads before it uses them
#define SEARCHED 4          // rows that it looks up at once
#define SPAN (128ll << 52)  // in the bits of a float64: 128 octaves below the largest agreement

// For every entry of the rows from `begin` to `end`: whose it is, its block and its place, as one
// number that sorts so.
extern "C" __global__ void fill_keys(const Setup *s) {
    Int blocks = s->n_lines / s->inner;
    for (Int row = s->begin + blockIdx.x; row < s->end; row += gridDim.x)
        for (Int e = s->indptr[row] + threadIdx.x; e < s->indptr[row + 1]; e += blockDim.x) {
            Int block = s->places[s->indices[e]] / s->inner, t = e - s->indptr[row];
            s->keys[e - s->indptr[s->begin]] = ((row - s->begin) * blocks + block) * s->longest + t;
        }
}

extern "C" __global__ void fill_by_block(const Setup *s) {
    Int start = s->indptr[s->begin], many = s->indptr[s->end] - start;
    Int stride = (Int)gridDim.x * blockDim.x;
    for (Int e = (Int)blockIdx.x * blockDim.x + threadIdx.x; e < many; e += stride)
        s->by_block[start + e] = (int)(s->keys[e] % s->longest);
}

// What one person's block shares.
struct Room {
    float *a;             // R: the rows
    UInt *loud;           // R bytes: with how many factors each row is loud, ties aside
    int *ends;            // R / GROUP + 1: loud directions from each group of rows on
    float x[FACTORS];
    double sizes[FACTORS];
    int by_size[FACTORS];            // the factors, largest first; in this order:
    double inverse[FACTORS];         // a little less than 1 / size
    float low[PADDED], high[PADDED]; // rows between them are near, with this factor
    union {
        int bins[BINS];  // rows in a bin or above
        struct {
            double near[NEAR];  // by how much directions in the bracket agree, if they are not more
            int near_at[NEAR];  // which they are
        };
    };
    int parts[FINE];  // directions in a part of the bracket, or above
    double close[CLOSE];
    Int tied[TIED];   // directions of exactly the least agreement, if they are not more
    int partial[2 * MOST_THREADS];
    UInt most;
    int n_near, n_close, n_tied, n_heads, at;
    int sure, missing, inside;
    Int next;
    double least, lower, upper;
    Int bracket_low, bracket_high;
};

// An item that somebody touched.
struct Entry {
    float weight;
    int place;
};

// Those in one block of items.
struct Segment {
    int first, end;
};

// sottovoce.mechanism.blocks: what touched items add to the rows, item after item, less `V x`.
__device__ void fill_rows(const Setup *s, const History &own, const float *predicted, Room *m) {
    Entry *entries = (Entry *)s->entries + blockIdx.x * s->longest;
    Segment *segments = (Segment *)s->segments + blockIdx.x * s->longest;
    float alpha = (float)s->alpha;
    int inner = (int)s->inner, bits = __popc(inner - 1);  // a power of two
    for (Int r = threadIdx.x; r < s->n_lines; r += blockDim.x) m->a[r] = 0;
    if (threadIdx.x == 0) m->n_heads = 0, m->most = 0;
    __syncthreads();
    for (int t = threadIdx.x; t < own.size; t += blockDim.x) {
        // In the order of blocks, and by item within one.
        Int from = s->by_block[own.start + t], item = s->indices[own.start + from];
        float weight = (1.0f + alpha) - alpha * score(m->x, s->V + item * FACTORS);
        weight = remembers(s, own, from) ? s->signs[item] * weight : 0.0f;
        entries[t] = Entry{weight, s->places[item]};
    }
    __syncthreads();
    for (int t = threadIdx.x; t < own.size; t += blockDim.x) {
        int block = entries[t].place >> bits, end = t + 1;
        if (t > 0 && entries[t - 1].place >> bits == block) continue;
        while (end < own.size && entries[end].place >> bits == block) end++;
        segments[atomicAdd(&m->n_heads, 1)] = Segment{t, end};
    }
    __syncthreads();
    for (int w = threadIdx.x; w < m->n_heads << bits; w += blockDim.x) {
        Segment segment = segments[w >> bits];
        int line = w & (inner - 1), place = 0;
        float total = 0;
        for (int t = segment.first; t < segment.end; t++) {
            Entry entry = entries[t];
            place = entry.place;
            total += (__popc(line & place) & 1) ? -entry.weight : entry.weight;
        }
        m->a[(place & -inner) + line] = total;
    }
    for (int half = inner; half < s->block; half *= 2) {
        __syncthreads();
        for (int w = threadIdx.x; w < s->n_lines / 2; w += blockDim.x) {
            int r = (w & -half) * 2 + (w & (half - 1));
            float first = m->a[r], second = m->a[r + half];
            m->a[r] = first + second;
            m->a[r + half] = first - second;
        }
    }
    __syncthreads();
    UInt most = 0;
    for (Int base = threadIdx.x; base < s->n_lines; base += AHEAD * blockDim.x) {
        float some[AHEAD];  // read before any is used: memory is far
        for (int i = 0; i < AHEAD; i++) {
            Int r = base + i * blockDim.x;
            some[i] = r < s->n_lines ? predicted[r] : 0.0f;
        }
        for (int i = 0; i < AHEAD; i++) {
            Int r = base + i * blockDim.x;
            if (r >= s->n_lines) break;
            m->a[r] -= some[i];
            most = max(most, __float_as_uint(m->a[r]) & MAGNITUDE);
        }
    }
    atomicMax(&m->most, most);
    __syncthreads();
}

// Everybody's part of the rows, `x` times the rows of V in blocks: for some people at once.
extern "C" __global__ void predict(const Setup *s) {
    float *vectors = (float *)room;
    Int first = s->from + blockIdx.x / s->line_blocks * TOGETHER;
    int people = (int)min((Int)TOGETHER, s->to - first);
    for (int e = threadIdx.x; e < people * FACTORS; e += blockDim.x)
        vectors[e] = s->X[(Int)s->looking[first + e / FACTORS] * FACTORS + e % FACTORS];
    __syncthreads();
    for (Int r = blockIdx.x % s->line_blocks * blockDim.x + threadIdx.x; r < s->n_lines;
         r += s->line_blocks * blockDim.x) {
        float row[FACTORS];
        for (int f = 0; f < FACTORS; f++) row[f] = s->item_rows[f * s->n_lines + r];
        for (int u = 0; u < people; u++) {
            float total = 0;
            for (int f = 0; f < FACTORS; f++) total += vectors[u * FACTORS + f] * row[f];
            s->predicted[(first - s->from + u) * s->n_lines + r] = total;
        }
    }
}

// The factors by their size, largest first.
__device__ void sort_factors(Room *m) {
    for (int f = threadIdx.x; f < FACTORS; f += blockDim.x) {
        int before = 0;
        for (int g = 0; g < FACTORS; g++)
            before += m->sizes[g] > m->sizes[f] || (m->sizes[g] == m->sizes[f] && g < f);
        m->by_size[before] = f;
        m->inverse[before] = (1 - 0x1p-30) / m->sizes[f];
    }
    __syncthreads();
}

// The bin of a magnitude; BINS if it is beyond the largest row.
__device__ int bin_of(double value, UInt most) {
    float rounded = (float)value;
    if (!(rounded <= __uint_as_float(most))) return BINS;  // or 0 / 0
    return max((int)(__float_as_uint(rounded) >> SHIFT) - ((int)(most >> SHIFT) - (BINS - 1)), 0);
}

// How many directions agree by at least so much: never too few, and none from a bin below.
__device__ int reaching(const Room *m, double value) {
    int total = 0;
    for (int p = 0; p < FACTORS; p++) {
        int bin = bin_of(value * m->inverse[p], m->most);
        if (bin < BINS) total += m->bins[bin];
    }
    return total;
}

// A step between two numbers whose bits are given; the threads try one each.
__device__ void narrow(Room *m, int loud) {
    Int low = m->bracket_low, high = m->bracket_high, step = (high - low) / blockDim.x + 1;
    Int mine = low + threadIdx.x * step;
    __syncthreads();
    if (threadIdx.x == 0) m->at = -1;
    __syncthreads();
    if (mine < high && reaching(m, __longlong_as_double(mine)) >= loud)
        atomicMax(&m->at, (int)threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0 && m->at >= 0) {
        m->bracket_low = low + m->at * step;
        m->bracket_high = min(high, m->bracket_low + step);
    } else if (threadIdx.x == 0) {
        m->bracket_high = min(high, low + step);
    }
    __syncthreads();
}

// Sets `lower` and `upper`: the least agreement that is loud is at least the one, below the other.
__device__ void bracket(const Setup *s, Room *m) {
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) m->bins[b] = 0;
    __syncthreads();
    int lowest = (int)(m->most >> SHIFT) - (BINS - 1);
    for (Int r = threadIdx.x; r < s->n_lines; r += blockDim.x) {
        UInt bits = __float_as_uint(m->a[r]) & MAGNITUDE;
        atomicAdd(&m->bins[max((int)(bits >> SHIFT) - lowest, 0)], 1);
    }
    sums_from_above(m->bins, BINS, m->partial);
    if (threadIdx.x == 0) {
        double largest = m->sizes[m->by_size[0]];
        m->bracket_high = __double_as_longlong(2 * (double)__uint_as_float(m->most) * largest);
        m->bracket_low = max(m->bracket_high - SPAN, 0ll);
    }
    __syncthreads();
    Int lowest_value = m->bracket_low;
    while (m->bracket_high - m->bracket_low > (1ll << 42)) narrow(m, (int)s->loud);
    if (threadIdx.x == 0) {
        double least = BELOW * __longlong_as_double(m->bracket_low);
        bool bounded = m->bracket_low > lowest_value;
        // The lowest bin has no end, and those of subnormal numbers are wide.
        for (int f = 0; f < FACTORS; f++) {
            double row = least / m->sizes[f];
            bounded = bounded && row >= 0x1p-120 && bin_of(row, m->most) > 0;
        }
        m->lower = bounded ? least : 0.0;
        m->upper = __longlong_as_double(m->bracket_high);
    }
    __syncthreads();
}

// The same bracket for the rows of each factor, a little wider than it need be; ascending.
__device__ void set_borders(Room *m) {
    for (int p = threadIdx.x; p < PADDED; p += blockDim.x) {
        double size = p < FACTORS ? m->sizes[m->by_size[p]] : 0;
        m->low[p] = size > 0 ? (float)(m->lower / size * (1 - 0x1p-20))
                             : (p < FACTORS && m->lower == 0 ? 0.0f : ENDLESS);
        m->high[p] = size > 0 ? (float)(m->upper / size * (1 + 0x1p-20)) : ENDLESS;
    }
    __syncthreads();
}

// How many borders lie at or below this magnitude.
__device__ int borders_below(const float *borders, float size) {
    int below = 0;
    for (int step = PADDED / 2; step > 0; step /= 2)
        if (borders[below + step - 1] <= size) below += step;
    return below;
}

__device__ int loud_with(const Room *m, Int r) { return (m->loud[r / 4] >> (8 * (r % 4))) & 0xFF; }

// Counts what is loud for certain, and lists by how much the directions in the bracket agree.
__device__ void list_near(const Setup *s, Room *m) {
    if (threadIdx.x == 0) m->sure = m->n_near = 0;
    __syncthreads();
    int sure = 0;
    for (Int base = threadIdx.x; base < s->n_lines; base += SEARCHED * blockDim.x) {
        int first[SEARCHED], end[SEARCHED];  // several searches at once: each waits for memory
        for (int i = 0; i < SEARCHED; i++) {
            Int r = base + i * blockDim.x;
            float size = r < s->n_lines ? fabsf(m->a[r]) : -1.0f;
            first[i] = borders_below(m->high, size);
            end[i] = borders_below(m->low, size);
        }
        for (int i = 0; i < SEARCHED; i++) {
            Int r = base + i * blockDim.x;
            if (r >= s->n_lines) break;
            ((unsigned char *)m->loud)[r] = (unsigned char)first[i];
            sure += first[i];
            for (int p = first[i]; p < end[i]; p++) {
                int n = atomicAdd(&m->n_near, 1), f = m->by_size[p];
                if (n >= NEAR) continue;
                m->near[n] = m->sizes[f] * (double)fabsf(m->a[r]);
                m->near_at[n] = (int)r * FACTORS + f;
            }
        }
    }
    atomicAdd(&m->sure, sure);
    __syncthreads();
}

// Does something with every direction in the bracket: those that are listed, or all there are.
template <class Do> __device__ void for_each_near(const Setup *s, Room *m, Do what) {
    if (m->n_near <= NEAR) {
        for (int i = threadIdx.x; i < m->n_near; i += blockDim.x) what(m->near[i], m->near_at[i]);
        return;
    }
    for (Int r = threadIdx.x; r < s->n_lines; r += blockDim.x) {
        float size = fabsf(m->a[r]);
        int p = borders_below(m->high, size), end = borders_below(m->low, size);
        for (; p < end; p++) {
            int f = m->by_size[p];
            what(m->sizes[f] * (double)size, (int)r * FACTORS + f);
        }
    }
}

// One part of the bracket, in the bits of a float64: from `first` on, `width` long.
struct Part {
    Int first, width;
};

__device__ bool lies_in(Part part, double value) {
    Int at = __double_as_longlong(value) - part.first;
    return at >= 0 && at < part.width;
}

// The part of this part that has the one which so many reach; `missing` becomes its place there.
__device__ Part narrower(const Setup *s, Room *m, Part part) {
    Int width = (part.width + FINE - 1) / FINE;
    for (int b = threadIdx.x; b < FINE; b += blockDim.x) m->parts[b] = 0;
    __syncthreads();
    for_each_near(s, m, [=](double value, int) {
        if (lies_in(part, value))
            atomicAdd(&m->parts[(__double_as_longlong(value) - part.first) / width], 1);
    });
    sums_from_above(m->parts, FINE, m->partial);
    int missing = m->missing;
    __syncthreads();
    for (int b = threadIdx.x; b < FINE; b += blockDim.x) {
        int above = b + 1 < FINE ? m->parts[b + 1] : 0;
        if (above < missing && missing <= m->parts[b]) {
            m->at = b;
            m->inside = m->parts[b] - above;
            m->missing = missing - above;
        }
    }
    __syncthreads();
    return Part{part.first + m->at * width, width};
}

// The least agreement that is loud: of those in the bracket the one that so many reach.
__device__ void find_least(const Setup *s, Room *m) {
    Part part = {0, __double_as_longlong(4 * m->upper)};
    if (m->lower > 0) {
        part.first = __double_as_longlong(m->lower * (1 - 0x1p-10));
        part.width = __double_as_longlong(m->upper * (1 + 0x1p-10)) - part.first;
    }
    do part = narrower(s, m, part);
    while (m->inside > CLOSE && part.width > 1);
    if (threadIdx.x == 0) m->n_close = 0;
    __syncthreads();
    for_each_near(s, m, [=](double value, int) {
        if (!lies_in(part, value)) return;
        int n = atomicAdd(&m->n_close, 1);
        if (n < CLOSE) m->close[n] = value;
    });
    __syncthreads();
    int n = min(m->n_close, CLOSE);  // with more they are all the same number
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int larger = 0, equal = 0;
        for (int other = 0; other < n; other++) {
            larger += m->close[other] > m->close[i];
            equal += m->close[other] == m->close[i];
        }
        if (part.width == 1 || (larger < m->missing && m->missing <= larger + equal))
            m->least = m->close[i];
    }
    __syncthreads();
}

__device__ Int signed_direction(const Room *m, Int index) {
    return index << 1 | (Int)((m->a[index / FACTORS] > 0) != (m->x[index % FACTORS] > 0));
}

// Counts the loud directions of every row and of every group of rows, and lists those that tie.
__device__ void count_loud(const Setup *s, Room *m) {
    int groups = (int)((s->n_lines + GROUP - 1) / GROUP);
    if (threadIdx.x == 0) m->n_tied = 0, m->ends[groups] = 0;
    __syncthreads();
    for_each_near(s, m, [=](double agreement, int index) {
        int r = index / FACTORS;
        if (agreement > m->least) atomicAdd(&m->loud[r / 4], 1u << (8 * (r % 4)));
        if (agreement != m->least) return;
        bool both = m->least == 0;
        Int direction = both ? (Int)index << 1 : signed_direction(m, index);
        int n = atomicAdd(&m->n_tied, both ? 2 : 1);
        if (n < TIED) m->tied[n] = direction;
        if (both && n + 1 < TIED) m->tied[n + 1] = direction | 1;
    });
    __syncthreads();
    for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        int total = 0;
        for (Int r = (Int)g * GROUP; r < min(s->n_lines, (Int)(g + 1) * GROUP); r++)
            total += loud_with(m, r);
        m->ends[g] = total;
    }
    sums_from_above(m->ends, groups, m->partial);
}

// The direction at this place among those above the least agreement, by index.
__device__ Int nth_loud(const Setup *s, const Room *m, int rank) {
    int all = m->ends[0], low = 0, high = (int)((s->n_lines + GROUP - 1) / GROUP) - 1;
    while (low < high) {  // the first group that ends beyond this place
        int middle = (low + high) / 2;
        if (all - m->ends[middle + 1] > rank) high = middle;
        else low = middle + 1;
    }
    int left = rank - (all - m->ends[low]);
    Int r = (Int)low * GROUP;
    while (left >= loud_with(m, r)) left -= loud_with(m, r++);
    double size = fabsf(m->a[r]);
    int f = -1;
    while (left >= 0) left -= m->sizes[++f] * size > m->least;
    return signed_direction(m, r * FACTORS + f);
}

// Of those with exactly the least agreement, in the order of `(signed + offset) mod 2n`.
__device__ Int nth_tied(const Setup *s, const Room *m, int rank, Int offset) {
    Int many = (Int)s->n_signed;
    if (m->n_tied <= TIED) {
        for (int i = 0; i < m->n_tied; i++) {
            Int mine = (m->tied[i] + offset) % many;
            int before = 0;
            for (int other = 0; other < m->n_tied; other++)
                before += (m->tied[other] + offset) % many < mine;
            if (before == rank) return m->tied[i];
        }
    }
    for (Int at = 0; at < many; at++) {
        Int direction = (at + many - offset) % many, index = direction >> 1;
        double agreement = m->sizes[index % FACTORS] * (double)fabsf(m->a[index / FACTORS]);
        bool fits = m->least == 0 || signed_direction(m, index) == direction;
        if (fits && agreement == m->least && rank-- == 0) return direction;
    }
    return 0;
}

__device__ void find_loud(const Setup *s, Room *m) {
    sort_factors(m);
    bracket(s, m);
    set_borders(m);
    list_near(s, m);
    if (threadIdx.x == 0) m->missing = (int)s->loud - m->sure, m->least = 0;
    __syncthreads();
    // With fewer than are missing, all the rest is silent: some factor or row must be 0.
    if (m->missing <= m->n_near) find_least(s, m);
    count_loud(s, m);
}

// The memory of a block: its rows lie behind the rest, or on the card if they are too many.
__device__ void take_room(const Setup *s, Room *m) {
    Int groups = (s->n_lines + GROUP - 1) / GROUP, bytes = (s->n_lines + 3) / 4;
    float *rest = (float *)(m + 1);
    if (s->rows_on_card) rest = s->rows + blockIdx.x * (s->n_lines + bytes + groups + 1);
    m->a = rest;
    m->loud = (UInt *)(rest + s->n_lines);
    m->ends = (int *)(m->loud + bytes);
}

extern "C" __global__ void report_loudest(const Setup *s) {
    Room *m = (Room *)room;
    if (threadIdx.x == 0) take_room(s, m);
    Int many = s->to - s->from, n;
    while ((n = next_of(s->counts + NEXT_REPORTED, many, &m->next)) >= 0) {
        Int at = s->looking[s->from + n], place = s->begin + at;
        History own = history_of(s, place, s->made);
        for (int f = threadIdx.x; f < FACTORS; f += blockDim.x) {
            m->x[f] = s->X[at * FACTORS + f];
            m->sizes[f] = fabsf(m->x[f]);
        }
        __syncthreads();
        fill_rows(s, own, s->predicted + n * s->n_lines, m);
        bool silent = true;
        for (int f = 0; f < FACTORS && m->most; f++) silent = silent && m->x[f] == 0;
        if (!silent) find_loud(s, m);
        Int offset = __umul64hi(report_words(s, own.user, s->reports).at[0], s->n_signed);
        int above = silent ? 0 : m->ends[0];
        for (Int j = threadIdx.x; j < s->reports; j += blockDim.x) {
            Words words = report_words(s, own.user, j);
            Int rank = __umul64hi(words.at[0], (Word)s->loud), named;
            if (words.at[2] < s->threshold) named = __umul64hi(words.at[0], s->n_signed);
            else if (silent) named = (rank - offset + (Int)s->n_signed) % (Int)s->n_signed;
            else if (rank < above) named = nth_loud(s, m, (int)rank);
            else named = nth_tied(s, m, (int)rank - above, offset);
            add_report(s, place, j, (UInt)named);
        }
        __syncthreads();
    }
}
