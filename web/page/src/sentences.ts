/** Sentences about where reporting stands, and about what the crowd is promised. */
import type { LeftDevice, Manifest, Plan, Synced } from "sottovoce-client";
import { amountText, reportsText } from "./amounts.js";

/** What the state line is made from. */
export interface Standing {
  manifest: Pick<Manifest, "epoch" | "publicKey"> | null;
  agreed: boolean;
  takingPart: boolean;
  batch: Pick<LeftDevice, "epoch" | "state" | "told"> | null;
  /** What the last sync of this session came to. */
  synced: Pick<Synced, "epoch" | "outcome" | "sentence"> | null;
  /** What the coins said last. */
  plan: Plan | null;
  /** Unix seconds. */
  now: number;
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
  return fromSync(manifest, standing);
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

function fromSync(manifest: NonNullable<Standing["manifest"]>, standing: Standing): string {
  const { synced, plan, now } = standing;
  if (synced?.epoch === manifest.epoch) return synced.sentence;
  if (manifest.publicKey === null) return "No reports are asked for at present.";
  if (plan?.epoch === manifest.epoch && plan.sendAt > now) return planned(plan);
  return `Epoch ${manifest.epoch}: your reports are being made.`;
}

function planned({ epoch, sendAt }: Plan): string {
  return (
    `Epoch ${epoch}: your reports leave at ${clockText(sendAt)}, a moment drawn at random. Until then ` +
    "nothing is spent. If this page is closed, they leave at your next visit, if the epoch lasts."
  );
}

/** The time of day, as this device writes it. */
export function clockText(time: number): string {
  return new Date(time * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

const UNITS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;

/** "7 days", "90 seconds": in the largest unit that fits a whole number of times. */
export function durationText(seconds: number): string {
  const [unit, size] = UNITS.find((each) => seconds > 0 && seconds % each[1] === 0) ?? [
    "second",
    1,
  ];
  const count = seconds / size;
  return `${amountText(count)} ${unit}${count === 1 ? "" : "s"}`;
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
