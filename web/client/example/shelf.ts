/** What a shop's page does with the client: consent, and a shelf that says why. */

import { Client, type Offer, type Recommendation } from "sottovoce-client";

/** A title, and what speaks for it. */
export interface Place {
  readonly title: string;
  readonly why: string;
}

/** Where the client reports to, how its owner is asked, and where the shelf is. */
export interface Shop {
  readonly proxy: string;
  readonly key: string;
  /** Shows an offer, and what of it would be worse than before; says whether the owner agrees. */
  readonly ask: (offer: Offer, worse: readonly string[]) => Promise<boolean>;
  readonly show: (places: readonly Place[], state: string) => void;
}

/** Remembers what the owner just looked at, and keeps the shelf filled from now on. */
export async function shelf(shop: Shop, seen: readonly string[]): Promise<Client> {
  const client: Client = await Client.open({
    ...{ proxy: shop.proxy, key: shop.key, limit: 5000 },
    news: async ({ offer, terms, asked, worse, synced, error }) => {
      if (offer === null) return;
      if (asked !== null || terms === null) await consent(client, shop, asked ?? offer, worse);
      shop.show((await client.recommend(5)).map(place), error?.message ?? synced?.sentence ?? "");
    },
  });
  await client.record(seen);
  return client;
}

const shown = new Set<string>();

/** Once for the same terms: nobody wants to be asked twice. */
async function consent(client: Client, shop: Shop, offer: Offer, worse: readonly string[]) {
  const name = JSON.stringify(offer.terms);
  if (shown.has(name)) return;
  shown.add(name);
  if (await shop.ask(offer, worse)) await client.accept(offer.terms);
}

function place({ title, because }: Recommendation): Place {
  const reasons = because.map((one) => (one.kind === "item" ? one.title : one.name));
  return { title, why: reasons.join(" and ") };
}
