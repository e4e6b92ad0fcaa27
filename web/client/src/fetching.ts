/** Taking in what the server published: believed only if everything about it holds. */

import { checkTerms } from "./agreement.js";
import { equal, fromHex, sha256, toHex } from "./bytes.js";
import type { Edition } from "./edition.js";
import { SettingsError, StoreError, UntrustedError } from "./errors.js";
import type { Manifest } from "./manifest.js";
import { modelSize } from "./model.js";
import type { HttpProxy } from "./proxy.js";
import { Reading, type Source } from "./reading.js";
import type { Settings } from "./rows.js";
import { checkPublicKey } from "./sealing.js";
import { openManifest, type SignedManifest } from "./signed.js";
import type { Store } from "./store.js";
import type { Terms } from "./terms.js";
import type { Matrix } from "./user.js";

/** What was published, from the proxy or from the store. */
export class Fetching {
  readonly #reading = new Reading();

  constructor(
    private readonly store: Store,
    private readonly proxy: HttpProxy,
  ) {}

  /** Fetch what is current; an error means that nothing was stored. */
  async refresh(): Promise<Edition> {
    const settings = await this.store.settings();
    const signed = await this.#current(settings);
    const check = (known: Settings) => checkAgainst(known, signed, settings.trusted);
    check(settings); // before anything more is fetched, and once more when it is stored
    const fresh = new Map<string, Uint8Array>();
    const edition = await this.#fetched(signed, fresh);
    const isKnown = settings.newest?.hash === toHex(signed.hash);
    if (fresh.size > 0 || !isKnown || settings.trusted !== toHex(signed.key)) {
      await this.store.keepEdition(signed, fresh, check);
    }
    return edition;
  }

  /** What the server asks for now, to be shown to the owner; stores nothing. */
  async asked(): Promise<Terms> {
    const settings = await this.store.settings();
    const signed = await this.#current(settings);
    checkOrder(settings.newest, signed);
    return signed.manifest.terms;
  }

  async #current({ trusted }: Settings): Promise<SignedManifest> {
    return openManifest(await this.proxy.manifest(), fromHex(trusted));
  }

  /** What was accepted last, without asking anybody; null if there is nothing. */
  async held(): Promise<Edition | null> {
    const raw = await this.store.signedManifest();
    if (raw === null) {
      return null;
    }
    const signed = await openManifest(raw, fromHex((await this.store.settings()).trusted));
    const stored: Source<null> = (hash) => this.store.file(hash);
    const V = await this.#reading.model(signed.manifest, stored);
    const catalogue = await this.#reading.catalogue(signed.manifest, stored);
    return V === null || catalogue === null ? null : this.#reading.edition(signed, V, catalogue);
  }

  /** The model of any epoch, as signed; null if the proxy has it no more. An old one is not stored. */
  async edition(epoch: number): Promise<{ manifest: Manifest; V: Matrix } | null> {
    if (!Number.isSafeInteger(epoch) || epoch < 1) {
      throw new SettingsError(`an epoch is a whole number from 1, not ${epoch}`);
    }
    const held = await this.held();
    if (held?.signed.manifest.epoch === epoch) {
      return { manifest: held.signed.manifest, V: held.V };
    }
    const raw = await this.proxy.manifestOf(epoch);
    if (raw === null) {
      return null;
    }
    const settings = await this.store.settings();
    // From the first pinned key on: an old manifest knows nothing of the keys that came after it.
    const signed = await openManifest(raw, fromHex(settings.key));
    checkAsked(epoch, signed, settings.newest);
    const { manifest } = signed;
    const most = modelSize(manifest.items, manifest.terms.factors);
    // A reading of its own: what is current stays in memory, whatever is looked at beside it.
    const V = await new Reading().model(manifest, async (hash) => {
      const content = await this.proxy.modelOf(hash, most);
      return content === null ? null : checked(content, hash);
    });
    return V === null ? null : { manifest, V };
  }

  /** Nothing of it in memory any more. */
  forget(): void {
    this.#reading.keepOnly([]);
  }

  /** From memory, the store or the proxy; what came from the proxy is put into `fresh`. */
  async #fetched(signed: SignedManifest, fresh: Map<string, Uint8Array>): Promise<Edition> {
    const { manifest } = signed;
    const most = modelSize(manifest.items, manifest.terms.factors);
    if (manifest.publicKey !== null) await checkPublicKey(manifest.publicKey);
    // After a `forget` in another tab: what is in memory alone could not be stored again.
    this.#reading.keepOnly(await this.store.fileNames());
    const orElse = (fetch: Source<never>): Source<never> => {
      return async (hash) => (await this.store.file(hash)) ?? this.#keep(fetch, hash, fresh);
    };
    const fromProxy = orElse((hash) => this.proxy.model(hash, most));
    const V = await this.#reading.model(manifest, fromProxy);
    const names = orElse((hash) => this.proxy.catalogue(hash));
    return this.#reading.edition(signed, V, await this.#reading.catalogue(manifest, names));
  }

  async #keep(fetch: Source<never>, hash: Uint8Array, fresh: Map<string, Uint8Array>) {
    const content = await checked(await fetch(hash), hash);
    fresh.set(toHex(hash), content);
    return content;
  }
}

/** Refuses an older manifest, a second one of its epoch, and worse terms than were accepted. */
function checkAgainst(known: Settings, signed: SignedManifest, trusted: string): void {
  if (![trusted, toHex(signed.key)].includes(known.trusted)) {
    throw new StoreError("Another tab has learnt of a newer key in the meantime; fetch it again.");
  }
  checkOrder(known.newest, signed);
  checkTerms(known.terms, signed.manifest.terms);
}

/** Epochs never go back, and everybody is told the same about each. */
function checkOrder(newest: Settings["newest"], signed: SignedManifest): void {
  const { epoch } = signed.manifest;
  if (newest !== null && epoch < newest.epoch) {
    throw new UntrustedError(
      `this manifest is of epoch ${epoch}, but epoch ${newest.epoch} was seen already; somebody ` +
        "serves old ones. Nothing is sent",
    );
  }
  checkOnly(newest, signed);
}

function checkOnly(newest: Settings["newest"], signed: SignedManifest): void {
  if (signed.manifest.epoch === newest?.epoch && toHex(signed.hash) !== newest.hash) {
    throw new UntrustedError(
      `there are two different manifests of epoch ${newest.epoch}, both signed: the server does ` +
        "not tell everybody the same. Nothing is sent",
    );
  }
}

/** A signature alone does not say that this is the epoch that was asked for. */
function checkAsked(epoch: number, signed: SignedManifest, newest: Settings["newest"]): void {
  if (signed.manifest.epoch !== epoch) {
    throw new UntrustedError(
      `the manifest of epoch ${epoch} was asked for, and that of epoch ${signed.manifest.epoch} ` +
        "came; somebody serves the wrong ones",
    );
  }
  checkOnly(newest, signed);
}

async function checked(content: Uint8Array, hash: Uint8Array): Promise<Uint8Array> {
  if (!equal(await sha256(content), hash)) {
    throw new UntrustedError(
      `the proxy gave other bytes than the file ${toHex(hash)} that the server signed; nothing is ` +
        "sent",
    );
  }
  return content;
}
