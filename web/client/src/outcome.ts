/** What can become of an epoch's batch, in one word and in plain words. */

const SENTENCES = {
  sent: "The batch of epoch {epoch} was sent.",
  "already sent": "The batch of epoch {epoch} had been sent before; nothing more was.",
  "already charged":
    "A batch of epoch {epoch} was charged before and has been forgotten since; nothing is " +
    "reported in this epoch again.",
  "not accepted": "The terms have not been accepted yet; nothing was sent, recommending works.",
  "not open": "Epoch {epoch} takes no reports at this time; nothing was sent.",
  "sitting out": "This device sits out epoch {epoch}, as its own coin decided; nothing was sent.",
  missed: "Epoch {epoch} came before it was this device's turn to send; nothing was sent.",
  paused: "Reporting is paused; nothing was sent.",
  "limit reached":
    "The lifetime limit does not allow another batch; nothing was sent, recommending goes on.",
  "lifetime over":
    "This device has taken part in as many epochs as its terms allow; nothing was sent, " +
    "recommending goes on.",
  "too late":
    "The batch of epoch {epoch} came too late: as far as this device knows it was not counted; " +
    "what was charged for it stays spent.",
  "nothing asked": "No reports are asked for at present, and nothing was sent.",
} as const;

export type Outcome = keyof typeof SENTENCES;

/** All of them, to list. */
export const OUTCOMES = Object.keys(SENTENCES) as readonly Outcome[];

/** The same sentence as every other client's; `lost` is an earlier epoch that came too late. */
export function sentenceOf(outcome: Outcome, epoch: number, lost: number | null): string {
  const said = SENTENCES[outcome].replace("{epoch}", String(epoch));
  return lost === null ? said : `${said} ${sentenceOf("too late", lost, null)}`;
}
