/**
 * The service worker, which lets the page open without a network. It stores only the page's own
 * files.
 *
 * The client's data is in its own database. This worker does not handle requests for `/v2`, nor any
 * request except plain GETs.
 */
const scope = self as unknown as ServiceWorkerGlobalScope;
const CACHE_NAME = "sottovoce-page-2";
const OWN_PATHS = ["/", "/page/page.js", "/page/worker.js", "/page/style.css", "/page/icon.svg"];

scope.addEventListener("install", (event) => {
  event.waitUntil(cacheOwnFiles().then(() => scope.skipWaiting()));
});

scope.addEventListener("activate", (event) => {
  event.waitUntil(scope.clients.claim());
});

scope.addEventListener("fetch", (event) => {
  if (isOwnFile(event.request)) event.respondWith(fetchOrUseCache(event.request));
});

async function cacheOwnFiles(): Promise<void> {
  const cache = await caches.open(CACHE_NAME);
  await cache.addAll(OWN_PATHS.map((path) => new Request(path, { cache: "no-cache" })));
}

function isOwnFile(request: Request): boolean {
  const { origin, pathname } = new URL(request.url);
  const own = pathname === "/" || pathname.startsWith("/page/");
  return request.method === "GET" && origin === scope.location.origin && own;
}

/**
 * Fetch a file of the page, or return its stored copy if the network fails. Copies are stored by
 * path, without the query.
 */
async function fetchOrUseCache(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE_NAME);
  const { pathname } = new URL(request.url);
  try {
    const answer = await fetch(request);
    if (answer.ok) await cache.put(pathname, answer.clone());
    return answer;
  } catch (error) {
    const copy = await cache.match(pathname);
    if (copy === undefined) throw error;
    return copy;
  }
}
