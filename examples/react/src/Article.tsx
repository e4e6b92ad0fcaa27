import { useState } from "react";
import "sottovoce-widget";
import type { ListedItem } from "sottovoce-widget";

/** Every visitor loads the same table with all articles: nobody learns which ones are listed. */
const prices: Record<string, string> = { "1": "€ 4.50" };

export function Article({ id }: { id: string }) {
  const [items, setItems] = useState<readonly ListedItem[]>([]);
  const [thanks, setThanks] = useState(false);
  return (
    <>
      <sottovoce-consent
        proxy="https://proxy.example"
        service-key="0000000000000000000000000000000000000000000000000000000000000001"
        limit="5000"
        onconsented={() => setThanks(true)}
      />
      {thanks && <p>Thank you.</p>}
      {items.length > 0 && <h2>For you</h2>}
      <sottovoce-list n={5} href="/articles/{id}" seen={id} render={setItems}>
        {items.map(({ id, title, link, reason }) => (
          <p key={id}>
            <a href={link ?? ""}>{title}</a> {prices[id]} <small>{reason}</small>
          </p>
        ))}
      </sottovoce-list>
      <sottovoce-similar n={3} href="/articles/{id}" item={id} />
    </>
  );
}
