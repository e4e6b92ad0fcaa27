/** What can become of an epoch's batch, in one word and in plain words. */

export type Outcome =
  | "sent"
  | "already sent"
  | "already charged"
  | "not open"
  | "paused"
  | "limit reached"
  | "too late"
  | "nothing asked";

const SENTENCES: Record<Outcome, string> = {
  sent: "The batch of epoch {epoch} was sent.",
  "already sent": "The batch of epoch {epoch} had been sent before; nothing more was.",
  "already charged":
    "A batch of epoch {epoch} was charged before and has been forgotten since; nothing is " +
    "reported in this epoch again.",
  "not open": "Epoch {epoch} takes no reports at this time; nothing was sent.",
  paused: "Reporting is paused; nothing was sent.",
  "limit reached":
    "The lifetime limit does not allow another batch; nothing was sent, recommending goes on.",
  "too late":
    "The batch of epoch {epoch} came too late: as far as this device knows it was not counted; " +
    "what was charged for it stays spent.",
  "nothing asked": "The model is finished: no reports are asked for, and nothing was sent.",
};

/** The same sentence as every other client's; `lost` is an earlier epoch that came too late. */
export function sentenceOf(outcome: Outcome, epoch: number, lost: number | null): string {
  const said = SENTENCES[outcome].replace("{epoch}", String(epoch));
  return lost === null ? said : `${said} ${sentenceOf("too late", lost, null)}`;
}
