/** Two small things that are no secret: the theme, and which server this device began with. */

/** Null where nothing is stored, or where the browser lets nothing be stored. */
export function recall(name: string): string | null {
  try {
    return localStorage.getItem(`sottovoce-${name}`);
  } catch {
    return null;
  }
}

/** Stores it, where the browser allows that. */
export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`sottovoce-${name}`, value);
  } catch {
    // Then it holds until the page is closed.
  }
}
