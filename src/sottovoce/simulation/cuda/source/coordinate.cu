// The reports of sottovoce.core.coordinate, with a thread for each report.

__device__ bool has_touched(const Setup *s, const History &own, Int item) {
    // Find the first entry that is not below the item.
    Int low = 0, high = own.size;
    while (low < high) {
        Int middle = (low + high) / 2;
        if (s->indices[own.start + middle] < item) low = middle + 1;
        else high = middle;
    }
    return low < own.size && s->indices[own.start + low] == item && is_remembered(s, own, low);
}

extern "C" __global__ void report_coordinate(const Setup *s) {
    Int many = s->counts[WITH_HISTORY] * s->reports, stride = (Int)gridDim.x * blockDim.x;
    float alpha = (float)s->alpha;
    for (Int at = (Int)blockIdx.x * blockDim.x + threadIdx.x; at < many; at += stride) {
        Int n = s->with_history[at / s->reports], j = at % s->reports, place = s->begin + n;
        History own = get_history(s, place, s->resampled);
        const float *x = s->X + n * FACTORS;
        Words words = draw_report_words(s, own.user, j);
        Int index = __umul64hi(words.at[0], s->n_directions), item = index / FACTORS;
        float p = has_touched(s, own, item) ? 1.0f : 0.0f;
        float e = (1.0f + alpha * p) * (p - compute_score(x, s->V + item * FACTORS));
        float g = (-2.0f * e) * x[index - item * FACTORS];
        double value = fminf(fmaxf(g, -1.0f), 1.0f);
        bool plus = (double)(words.at[1] >> 11) * 0x1p-53 < (1.0 + value) / 2.0;
        bool flip = words.at[2] < s->threshold;
        add_report(s, place, j, ((UInt)index << 1) | (UInt)(plus != flip));
    }
}
