/** What a shop's page does with the client: consent, one sync, and a shelf that says why. */

import {
  Client,
  promiseOf,
  promiseSentences,
  type Recommendation,
  TermsError,
} from "sottovoce-client";

/** A title, and what speaks for it. */
export interface Place {
  readonly title: string;
  readonly why: string;
}

/** Where the client reports to, and how its owner is asked. */
export interface Shop {
  readonly proxy: string;
  readonly key: string;
  /** Shows these sentences, and says whether the owner agrees. */
  readonly ask: (sentences: readonly string[]) => Promise<boolean>;
  /** Seconds within which to send; left out, an hour. 0 is for trials: it shows when the page was opened. */
  readonly jitter?: number;
}

/** Records what the owner just looked at, reports if they agreed, and fills the shelf. */
export async function shelf(shop: Shop, seen: readonly string[]): Promise<Place[]> {
  const client = await Client.open({ proxy: shop.proxy, key: shop.key, limit: 5000 });
  try {
    await client.record(seen);
    if ((await client.status()).terms === null) await consent(client, shop);
    await sync(client, shop);
    return (await client.recommend(5)).map(place);
  } finally {
    client.close();
  }
}

async function consent(client: Client, shop: Shop): Promise<void> {
  const [terms, { charges }] = [await client.asked(), await client.status()];
  if (await shop.ask(promiseSentences(promiseOf(terms, charges)))) await client.accept(terms);
}

/** Terms that became worse need a new yes; until then nothing is reported, and recommending goes on. */
async function sync(client: Client, shop: Shop): Promise<void> {
  try {
    await client.sync(shop.jitter === undefined ? {} : { jitter: shop.jitter });
  } catch (error) {
    if (!(error instanceof TermsError)) throw error;
    if (await shop.ask(error.worse)) await client.accept(error.asked);
  }
}

function place({ title, because }: Recommendation): Place {
  const reasons = because.map((one) => (one.kind === "item" ? one.title : one.name));
  return { title, why: reasons.join(" and ") };
}
