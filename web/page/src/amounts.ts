/** Numbers for people. */

/** By so much of itself a product of floats is off: three times 0.1 is not 0.31. */
const NOISE = 1e-14;

/** Thousands apart, at most two places. Not for a bound: see `atMostText`. */
export function amountText(value: number, places = 2): string {
  return value.toLocaleString("en", { maximumFractionDigits: places });
}

/** An epsilon, or another bound: never rounded down. Two places, or two digits where it is small. */
export function atMostText(value: number): string {
  const places = value > 0 ? Math.max(2, 1 - Math.floor(Math.log10(value))) : 2;
  const scale = 10 ** places;
  return amountText(Math.ceil(value * scale * (1 - NOISE)) / scale, places);
}

/** "1 report", "50 reports". */
export function reportsText(reports: number): string {
  return reports === 1 ? "1 report" : `${amountText(reports)} reports`;
}

/** "1 epoch", "10 epochs". */
export function epochsText(epochs: number): string {
  return epochs === 1 ? "1 epoch" : `${amountText(epochs)} epochs`;
}
