/** Long work in slices, so that a thread which computes still answers. */

/** From 0 to `n`, so many at once; between two slices everything else that waits has its turn. */
export async function* slices(n: number, size: number): AsyncGenerator<[number, number]> {
  for (let start = 0; start < n; start += size) {
    if (start > 0) await othersTurn();
    yield [start, Math.min(start + size, n)];
  }
}

/** Not by a timer: browsers slow those down in pages that nobody looks at. */
function othersTurn(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
