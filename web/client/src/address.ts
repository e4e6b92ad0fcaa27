/** Which addresses a device may speak to. */

import { SettingsError } from "./errors.js";

const THIS_MACHINE = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The address without a slash at its end: https, or http to this machine itself. */
export function checkedAddress(address: string): string {
  const url = parsed(address);
  if (!["http:", "https:"].includes(url.protocol)) {
    throw new SettingsError(`the proxy's address must be https://HOST, not "${address}"`);
  }
  if (url.protocol === "http:" && !THIS_MACHINE.test(url.hostname)) {
    throw new SettingsError(
      `"${address}" is not encrypted: anyone on the way would see who takes part; use https ` +
        "(http is for this machine alone: localhost, 127.0.0.0/8, ::1)",
    );
  }
  if (url.username || url.password || /[?#]/.test(address)) {
    // Any of these could tell one device from another in every request.
    throw new SettingsError("the proxy's address must have no user name, password, ? or #");
  }
  return url.href.replace(/\/+$/, "");
}

function parsed(address: string): URL {
  try {
    return new URL(address);
  } catch {
    throw new SettingsError(`the proxy's address "${address}" cannot be read`);
  }
}
