/** Splits long loops into slices, so that a worker can do other work in between. */

/**
 * Yield consecutive ranges [start, end) that cover 0 to `n`. Between two of them, other work of
 * this thread can run.
 */
export async function* sliceRange(n: number, size: number): AsyncGenerator<[number, number]> {
  for (let start = 0; start < n; start += size) {
    if (start > 0) await yieldToOthers();
    yield [start, Math.min(start + size, n)];
  }
}

/**
 * Let other work of this thread run. A timer would not do, because browsers slow timers down in
 * hidden pages.
 */
function yieldToOthers(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
