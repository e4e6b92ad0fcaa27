/** Sentences about where reporting stands, and about what the crowd is promised. */
import type { LeftDevice, Manifest, Synced } from "sottovoce-client";
import { amountText } from "./odds.js";

/** What the state line is made from. */
export interface Standing {
  manifest: Pick<Manifest, "epoch" | "publicKey"> | null;
  agreed: boolean;
  takingPart: boolean;
  batch: Pick<LeftDevice, "epoch" | "state" | "told"> | null;
  /** What the last sync of this session came to. */
  synced: Pick<Synced, "epoch" | "outcome" | "sentence"> | null;
  /** When a batch left, if it was in this session; Unix seconds. */
  sentAt: { epoch: number; time: number } | null;
}

/** What becomes of this epoch's reports. */
export function stateLine(standing: Standing): string {
  const { manifest, agreed, takingPart, batch } = standing;
  if (!agreed) return "You do not take part. Nothing leaves this device.";
  const own = batch !== null && batch.epoch === manifest?.epoch ? batch : null;
  if (own?.state === "sent") return left(own, standing);
  if (!takingPart) return "Paused. Nothing leaves this device; recommendations go on.";
  if (manifest === null) return "Waiting for the server's first word.";
  if (own?.state === "charged") return waiting(own);
  return fromSync(manifest, standing.synced);
}

type Batch = NonNullable<Standing["batch"]>;

function left(batch: Batch, { sentAt, takingPart }: Standing): string {
  const time = sentAt?.epoch === batch.epoch ? ` at ${clockText(sentAt.time)}` : "";
  const more = takingPart ? "" : " Paused: nothing more leaves this device.";
  return `Epoch ${batch.epoch}: your ${reportsText(batch.told.length)} left${time}.${more}`;
}

function waiting(batch: Batch): string {
  const reports = reportsText(batch.told.length);
  return `Epoch ${batch.epoch}: your ${reports} are sealed and paid for, and wait to be sent.`;
}

function fromSync(manifest: NonNullable<Standing["manifest"]>, synced: Standing["synced"]): string {
  if (synced?.epoch === manifest.epoch) return synced.sentence;
  if (manifest.publicKey === null) return "The model is finished: no reports are asked for.";
  return `Epoch ${manifest.epoch}: your reports are being made.`;
}

/** "1 report", "50 reports". */
export function reportsText(reports: number): string {
  return reports === 1 ? "1 report" : `${amountText(reports)} reports`;
}

/** "1 epoch", "10 epochs". */
export function epochsText(epochs: number): string {
  return epochs === 1 ? "1 epoch" : `${amountText(epochs)} epochs`;
}

/** The time of day, as this device writes it. */
export function clockText(time: number): string {
  return new Date(time * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** What is left of an epoch: "0:42", "1:05:00". */
export function countdownText(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const shown = parts[0] === 0 ? parts.slice(1) : parts;
  return shown.map((part, at) => (at === 0 ? `${part}` : `${part}`.padStart(2, "0"))).join(":");
}

/** A long statement, sentence by sentence: nobody reads it in one breath. */
export function sentencesOf(text: string): string[] {
  return text.split(/(?<=[.!?])\s+(?=\p{Lu})/u).filter((sentence) => sentence !== "");
}
