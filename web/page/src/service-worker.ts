/**
 * Lets the page open without a network: its own files and nothing else. What the client learns is in
 * its database; `/v2` and everything that is not a plain GET go past this worker untouched.
 */
const scope = self as unknown as ServiceWorkerGlobalScope;
const CACHE = "sottovoce-page-2";
const OWN = ["/", "/page/page.js", "/page/worker.js", "/page/style.css", "/page/icon.svg"];

scope.addEventListener("install", (event) => {
  event.waitUntil(keepOwn().then(() => scope.skipWaiting()));
});

scope.addEventListener("activate", (event) => {
  event.waitUntil(scope.clients.claim());
});

scope.addEventListener("fetch", (event) => {
  if (isOwn(event.request)) event.respondWith(networkFirst(event.request));
});

async function keepOwn(): Promise<void> {
  const cache = await caches.open(CACHE);
  await cache.addAll(OWN.map((path) => new Request(path, { cache: "no-cache" })));
}

function isOwn(request: Request): boolean {
  const { origin, pathname } = new URL(request.url);
  const own = pathname === "/" || pathname.startsWith("/page/");
  return request.method === "GET" && origin === scope.location.origin && own;
}

/** Kept by path alone, so that no address that somebody made up is ever stored. */
async function networkFirst(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  const { pathname } = new URL(request.url);
  try {
    const answer = await fetch(request);
    if (answer.ok) await cache.put(pathname, answer.clone());
    return answer;
  } catch (error) {
    const kept = await cache.match(pathname);
    if (kept === undefined) throw error;
    return kept;
  }
}
