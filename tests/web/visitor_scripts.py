"""Lines of JavaScript that look into a page."""

VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
LISTEN = """
window.told = [];
window.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => window.told.push({ at: Date.now(), ...data }));
  }
};
"""
"""Keeps all that the worker says."""
EVENTS = """
window.events = [];
for (const kind of ["shown", "empty", "error", "consented"]) {
  addEventListener(kind, ({ target, detail }) => {
    if (target.localName?.startsWith("sottovoce-"))
      events.push([target.localName, kind, ...(detail ? [detail.message] : [])]);
  }, true);
}
"""
"""Keeps the events of the widget's elements."""
DUMP = """
async (wanted) => {
  const whole = {};
  for (const { name } of await indexedDB.databases()) {
    const database = await new Promise((resolve, reject) => {
      const opening = indexedDB.open(name);
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(opening.error);
    });
    whole[name] = {};
    for (const store of database.objectStoreNames) {
      if (wanted !== null && !wanted.includes(store)) continue;
      const rows = await new Promise((resolve, reject) => {
        const asking = database.transaction(store).objectStore(store).getAll();
        asking.onsuccess = () => resolve(asking.result);
        asking.onerror = () => reject(asking.error);
      });
      whole[name][store] = rows.map((row) => JSON.parse(JSON.stringify(row, (_, value) =>
        value instanceof Uint8Array ? Array.from(value) : value)));
    }
    database.close();
  }
  return whole;
}
"""
IN_VIEW = """
(id) => {
  const room = { width: innerWidth, height: innerHeight };
  const seen = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    const inside = left >= 0 && top >= 0 && right <= room.width && bottom <= room.height;
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    return inside && element.contains(document.elementFromPoint(x, y));
  };
  const dialog = document.getElementById(id);
  return [...dialog.querySelectorAll(":scope > h2, .buttons > button")].map(seen);
}
"""
"""Of the title and of both buttons: whether they are whole, on the screen, and on top."""
