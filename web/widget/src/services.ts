/**
 * The services that the pages of this site have named in this browser.
 *
 * A page names a service by the key of its server. Each service has a database with a consent, a
 * history and a ledger of its own. So a real service can follow a trial, and nothing that was
 * recorded for one is reported to the other. The figures for one ledger do not count the others: the
 * question states that sum separately.
 */

/** Key of `localStorage` for what is known of each service, by the key of its server. */
const SERVICES_KEY = "sottovoce-services";
/** Hexadecimal digits of a key that name a database. */
const NAME_DIGITS = 16;

/** What is known of a service whose page may not be open. */
interface Service {
  readonly proxy: string;
  readonly spentEpsilon: number;
}
type PlainStorage = Pick<Storage, "getItem" | "setItem">;

/** Return the name of the database of a service. */
export function getDatabaseName(key: string): string {
  return `sottovoce-${key.slice(0, NAME_DIGITS)}`;
}

/** Note the proxy of a service, and the epsilon that this browser has spent with it. */
export function noteService(storage: PlainStorage, key: string, service: Service): void {
  const text = JSON.stringify({ ...readServices(storage), [key]: service });
  if (text !== storage.getItem(SERVICES_KEY)) storage.setItem(SERVICES_KEY, text);
}

/** Return the services with other keys, by their key. */
export function listOthers(storage: PlainStorage, key: string): [string, Service][] {
  return Object.entries(readServices(storage)).filter(([other]) => other !== key);
}

function readServices(storage: PlainStorage): Record<string, Service> {
  return JSON.parse(storage.getItem(SERVICES_KEY) ?? "{}");
}
