"""Does the code keep its promise? Lower bounds on epsilon, and an attack on one person."""

from sottovoce.experiments.audit.attack import Attack, AttackPlan, Point, run_attack, sweep
from sottovoce.experiments.audit.clients import Client, Maker, live_client
from sottovoce.experiments.audit.evidence import ALPHA, Check, judge
from sottovoce.experiments.audit.running import AuditResult, Plan, examine, run_audit

__all__ = [
    "ALPHA",
    "Attack",
    "AttackPlan",
    "AuditResult",
    "Check",
    "Client",
    "Maker",
    "Plan",
    "Point",
    "examine",
    "judge",
    "live_client",
    "run_attack",
    "run_audit",
    "sweep",
]
