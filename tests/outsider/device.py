"""One sync of a device, from the manifest to the answer to its batch, with what it keeps."""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.outsider import plans, wire
from tests.outsider.mechanisms import Terms, make_reports
from tests.outsider.plans import Charge, EpochPlan
from tests.outsider.strict import Refused, need
from tests.outsider.web import Answer, Fetch

ANSWER_CAP = 16384


class Outcome(NamedTuple):
    what: str
    """sent, later, refused, too late, nothing sent."""
    detail: str = ""


class Release(NamedTuple):
    """A manifest and its files, all of it verified."""

    manifest: wire.Manifest
    model: NDArray[np.float32]
    rows: dict[str, int]


@dataclass
class Batch:
    body: bytes
    """Empty when its epoch is done: no second batch is made for it."""
    moment: float
    end: int
    not_before: float = 0.0


@dataclass
class State:
    """What a device must keep."""

    limit: float
    accepted: Terms | None
    key: bytes
    epoch: int = 0
    manifest: str = ""
    shelf: wire.Shelf | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    plans: dict[int, EpochPlan] = field(default_factory=dict)
    batches: dict[int, Batch] = field(default_factory=dict)
    charges: list[Charge] = field(default_factory=list)


@dataclass
class Device:
    """The clock, the pause and the generator are the caller's, so that a test can pass its own."""

    fetch: Fetch
    history: Callable[[], Iterable[str]]
    state: State
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    entropy: Callable[[int], bytes] = os.urandom
    spread: float = plans.SPREAD

    def take_part(self) -> Outcome:
        """First what is still to be sent; then the epoch of the manifest."""
        waiting = (epoch for epoch, batch in self.state.batches.items() if batch.body)
        epoch = next(waiting, None)
        left = None if epoch is None else self._deliver(epoch)
        try:
            if epoch is not None and left is not None and left.what in ("later", "refused"):
                if self._refresh().manifest.epoch <= epoch:
                    return left
                left = self._done(epoch, Outcome("too late", "a later epoch is published"))
            return self._new_epoch()
        except Refused as error:
            return left or Outcome("nothing sent", str(error))

    def _new_epoch(self) -> Outcome:
        release = self._refresh()
        self._check(release.manifest)
        plan = self._plan(release.manifest)
        need(plan.takes_part, "the coin says no")
        wait = plan.moment - self._lead(release.manifest) - self.clock()
        if self.spread and wait > 0:
            self.sleep(wait)
            again = self._refresh()
            need(again.manifest.hash == release.manifest.hash, "the epoch is over")
            self._check(again.manifest)
        self._get(f"/v2/batches/{release.manifest.hash}", 0, status=204)
        self._make(release)
        return self._send_first(release.manifest)

    def _lead(self, manifest: wire.Manifest) -> float:
        return plans.lead(manifest, self.spread)

    # Steps 1 to 3

    def _refresh(self) -> Release:
        manifest, state = self._manifest(), self.state
        names = set() if state.accepted is None else wire.worse(manifest.terms, state.accepted)
        need(not names, "terms are worse: " + ", ".join(sorted(names)))
        fields, factors = manifest.fields, manifest.terms["factors"]
        cap = 8 + wire.HEADER_CAP + 2 * fields["items"] * factors
        model_bytes = self._file("models", fields["model"], cap, fields["model_patch"])
        catalogue_bytes = self._file(
            "catalogues", fields["catalogue"], wire.CATALOGUE_CAP, fields["catalogue_patch"]
        )
        model = wire.parse_model(model_bytes, fields["items"], factors)
        rows = wire.parse_catalogue(catalogue_bytes)
        need(len(rows) == fields["items"], "the catalogue has another number of items")
        if fields["public_key"] is not None:
            wire.recipient(fields["public_key"])
        shelf, listed = self._shelf(manifest)
        files = {fields["model"]: model_bytes, fields["catalogue"]: catalogue_bytes}
        state.files, state.shelf = files | {shelf.catalogue: listed}, shelf
        state.epoch, state.manifest, state.key = manifest.epoch, manifest.hash, manifest.key
        return Release(manifest, model, rows)

    def _manifest(self) -> wire.Manifest:
        cap = wire.SIGNED_CAP + wire.MANIFEST_CAP
        manifest = wire.open_manifest(self._get("/v2/manifest", cap), self.state.key)
        epoch, last_epoch = manifest.epoch, self.state.epoch
        need(epoch >= last_epoch, "an epoch that is over")
        need(
            epoch > last_epoch or manifest.hash == self.state.manifest, "two manifests of one epoch"
        )
        return manifest

    def _shelf(self, manifest: wire.Manifest) -> tuple[wire.Shelf, bytes]:
        cap, last_shelf = wire.SIGNED_CAP + wire.SHELF_CAP, self.state.shelf
        shelf = wire.open_shelf(self._get("/v2/shelf", cap), manifest.key)
        need(last_shelf is None or shelf.published >= last_shelf.published, "a shelf that is over")
        is_other = (
            last_shelf is None or shelf.published > last_shelf.published or shelf == last_shelf
        )
        need(is_other, "two shelves of one second")
        listed = self._file("catalogues", shelf.catalogue, wire.CATALOGUE_CAP, shelf.patch)
        items = len(wire.parse_catalogue(listed))
        need(items <= manifest.terms["max_items"], "the shelf is larger than the terms allow")
        return shelf, listed

    def _file(self, kind: str, name: str, cap: int, patch: str | None) -> bytes:
        stored = self.state.files
        data = stored.get(name) or b""
        if not data and stored and patch is not None:
            raw = self._get(f"/v2/patches/{patch}", wire.PATCH_CAP)
            need(sha256(raw).hexdigest() == patch, "patches: another hash")
            with suppress(Refused):
                data = wire.patch(raw, stored, cap)
        if sha256(data).hexdigest() != name:
            data = self._get(f"/v2/{kind}/{name}", cap)
        need(sha256(data).hexdigest() == name, f"{kind}: another hash")
        return data

    def _get(self, path: str, most: int, status: int = 200) -> bytes:
        try:
            answer = self.fetch("GET", path, None, most)
        except OSError as error:
            raise Refused(f"{path}: no answer") from error
        need(answer.status == status, f"{path}: {answer.status}")
        need(len(answer.body) <= most, f"{path}: too long")
        return answer.body

    # Steps 4 to 9

    def _check(self, manifest: wire.Manifest) -> None:
        terms, charges = manifest.terms, self.state.charges
        need(self.state.accepted is not None, "no terms were accepted")
        need(plans.is_time(manifest, self.clock(), self.spread), "no reports are asked for")
        need(manifest.epoch not in self.state.batches, "a batch was made before")
        is_new = all(charge.epoch != manifest.epoch for charge in charges)
        need(is_new, "the epoch was charged before")
        spent = sum((charge.amount for charge in charges), Fraction(0))
        cost = Fraction(terms["epsilon"]) * terms["reports"]
        need(spent + cost <= Fraction(self.state.limit), "the limit is reached")
        need(plans.turns(terms, charges) > 0, "all epochs of this training are used")

    def _plan(self, manifest: wire.Manifest) -> EpochPlan:
        """Drawn once for an epoch."""
        if manifest.epoch not in self.state.plans:
            charges, now = self.state.charges, self.clock()
            plan = plans.draw(manifest, charges, now, self.spread, self._word)
            self.state.plans[manifest.epoch] = plan
        return self.state.plans[manifest.epoch]

    def _word(self) -> int:
        return int.from_bytes(self.entropy(8), "little")

    # The batch, its charge, its way

    def _make(self, release: Release) -> None:
        """Make the batch; store it and its charge in one step."""
        manifest, terms = release.manifest, release.manifest.terms
        moment = self.clock() + self._lead(manifest)
        key = wire.recipient(manifest.fields["public_key"])
        sealed = [wire.seal(report, key, manifest.hash) for report in self._reports(release)]
        body = wire.encode_batch(manifest.epoch, manifest.hash, self.entropy(16), sealed)
        charge = Charge(terms["training"], manifest.epoch, terms["epsilon"], terms["reports"])
        self.state.charges.append(charge)
        self.state.batches[manifest.epoch] = Batch(body, moment, manifest.end)

    def _reports(self, release: Release) -> list[int]:
        fields, terms, rows = release.manifest.fields, release.manifest.terms, release.rows
        touched = [rows[name] for name in self.history() if name in rows]
        words = [self._word() for _ in range((terms["reports"] + 1) * 4)]
        return make_reports(terms, fields, release.model, touched, words)

    def _send_first(self, manifest: wire.Manifest) -> Outcome:
        """Send at the drawn time, or whole leads later where making the batch took too long."""
        batch = self.state.batches[manifest.epoch]
        moment = plans.leads_later(batch.moment, self.clock(), self._lead(manifest))
        if moment >= batch.end:
            return self._done(manifest.epoch, Outcome("too late", "making it took too long"))
        self._sleep_until(moment)
        return self._deliver(manifest.epoch)

    def _deliver(self, epoch: int) -> Outcome:
        """Send the stored bytes, or drop them when it is too late."""
        batch = self.state.batches[epoch]
        if self.clock() < min(batch.not_before, batch.end):
            return Outcome("later", "the proxy said when")
        if self.clock() < batch.end:
            self._sleep_until(batch.moment)
        if self.clock() >= batch.end:
            return self._done(epoch, Outcome("too late", "closes + hold is over"))
        try:
            return self._read(epoch, self.fetch("POST", "/v2/batches", batch.body, ANSWER_CAP))
        except OSError:
            return Outcome("later", "no answer")

    def _sleep_until(self, moment: float) -> None:
        if moment > self.clock():
            self.sleep(moment - self.clock())

    def _read(self, epoch: int, answer: Answer) -> Outcome:
        status = answer.status
        if status == 202:
            return self._done(epoch, Outcome("sent"))
        if status in (408, 425, 429) or 500 <= status <= 599:
            wait = int(answer.headers.get("retry-after", "0"))
            self.state.batches[epoch].not_before = self.clock() + wait
            return Outcome("later", str(status))
        is_over = status == 409 and json.loads(answer.body)["type"] == "urn:sottovoce:wrong-epoch"
        if status == 410 or is_over:
            return self._done(epoch, Outcome("too late", str(status)))
        return Outcome("refused", f"the proxy answered {status}")

    def _done(self, epoch: int, outcome: Outcome) -> Outcome:
        self.state.batches[epoch].body = b""
        return outcome
