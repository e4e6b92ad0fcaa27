/** Checks whether this browser offers everything that the page needs. */

/**
 * Return a sentence about the first missing capability, or null if the browser offers everything.
 */
export async function findMissing(): Promise<string | null> {
  if (!window.isSecureContext || crypto.subtle === undefined) {
    return (
      "This page needs a secure connection: without one a browser does not let it check signatures " +
      "or seal reports. Open it over https. Nothing was sent."
    );
  }
  if (!(await canStore())) {
    return (
      "This browser does not let the page store anything, perhaps because this is a private window. " +
      "Without a record of what was spent, nothing may be reported. Nothing was sent."
    );
  }
  return (await canVerifyAndSeal()) ? null : OUTDATED_SENTENCE;
}

const OUTDATED_SENTENCE =
  "This browser cannot check Ed25519 signatures or seal with X25519 yet. A newer one can: Chrome 137, " +
  "Firefox 130, Safari 17, or later. Nothing was sent.";

function canStore(): Promise<boolean> {
  return new Promise((resolve) => {
    try {
      localStorage.getItem("sottovoce-probe");
      const opening = indexedDB.open("sottovoce-probe");
      opening.onerror = () => resolve(false);
      opening.onsuccess = () => {
        opening.result.close();
        indexedDB.deleteDatabase("sottovoce-probe");
        resolve(true);
      };
    } catch {
      resolve(false);
    }
  });
}

async function canVerifyAndSeal(): Promise<boolean> {
  try {
    await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]);
    await crypto.subtle.generateKey("X25519", false, ["deriveBits"]);
    return typeof Worker === "function";
  } catch {
    return false;
  }
}
