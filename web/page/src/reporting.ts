/** Describes the state of this epoch's reports in a sentence. */

import type { LeftDevice, Manifest, Plan, SyncResult } from "sottovoce-client";
import { formatReports } from "./words.js";

/** The values from which the sentence is made. */
export interface ReportStatus {
  manifest: Pick<Manifest, "epoch" | "publicKey"> | null;
  agreed: boolean;
  takingPart: boolean;
  /** Epochs in which this device may still take part; null if unknown. */
  turnsLeft: number | null;
  batch: Pick<LeftDevice, "epoch" | "state" | "reports"> | null;
  /** Result of the last sync of this session. */
  lastSync: Pick<SyncResult, "epoch" | "outcome" | "sentence"> | null;
  /** The last plan that was drawn. */
  plan: Plan | null;
  /** Current time in Unix seconds. */
  now: number;
  /** Epoch and Unix seconds of the last batch that left in this session, or null. */
  sentAt: { epoch: number; time: number } | null;
}

/** Describe what happens to this epoch's reports. */
export function formatReportState(status: ReportStatus): string {
  const { manifest, agreed, takingPart, batch } = status;
  if (!agreed) {
    const asked = status.turnsLeft === null && manifest !== null ? ` ${NOTHING_ASKED}` : "";
    return `You do not take part. Nothing leaves this device.${asked}`;
  }
  const current = batch !== null && batch.epoch === manifest?.epoch ? batch : null;
  if (current?.state === "sent") return formatSent(current, status);
  if (status.turnsLeft === 0 && current === null) return DONE_SENTENCE;
  if (!takingPart) return "Paused. Nothing leaves this device; recommendations go on.";
  if (manifest === null) return WAITING_SENTENCE;
  if (current?.state === "charged") return formatWaiting(current);
  return formatFromSync(manifest, status);
}

const DONE_SENTENCE = "Done: all that you agreed to has left. Recommendations go on.";

const NOTHING_ASKED = "No reports are asked for at present.";

type Batch = NonNullable<ReportStatus["batch"]>;

function formatSent(batch: Batch, { sentAt, takingPart }: ReportStatus): string {
  const time = sentAt?.epoch === batch.epoch ? ` at ${formatTime(sentAt.time)}` : "";
  const more = takingPart ? "" : " Paused: nothing more leaves this device.";
  return `Epoch ${batch.epoch}: your ${formatReports(batch.reports.length)} left${time}.${more}`;
}

function formatWaiting(batch: Batch): string {
  const reports = formatReports(batch.reports.length);
  return `Epoch ${batch.epoch}: sealed and paid for, your ${reports} will be sent in a moment.`;
}

function formatFromSync(
  manifest: NonNullable<ReportStatus["manifest"]>,
  status: ReportStatus,
): string {
  const { lastSync, plan, now } = status;
  if (lastSync?.epoch === manifest.epoch) return lastSync.sentence;
  if (manifest.publicKey === null) return NOTHING_ASKED;
  const isPlanned = plan?.epoch === manifest.epoch && plan.takesPart && plan.sendAt > now;
  return isPlanned ? formatPlanned(plan.epoch) : WAITING_SENTENCE;
}

const WAITING_SENTENCE = "Waiting for the server.";

function formatPlanned(epoch: number): string {
  return `Epoch ${epoch}: your reports leave within seconds, or at your next visit if this page is closed before.`;
}

/** Format a time of day in the format of this device. */
function formatTime(time: number): string {
  return new Date(time * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
